"""One governed run: who it is, what may happen in it, and how it ends. Internal."""
