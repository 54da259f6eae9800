"""Fill traces with the values that conditions read: trees, shapes, values made of them, and the traces."""
