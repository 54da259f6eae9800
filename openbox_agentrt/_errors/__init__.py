"""Parts of the tree of errors that `options` needs without the rest of it."""
