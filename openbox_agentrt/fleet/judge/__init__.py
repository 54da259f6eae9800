"""The protocol in Python, for stores that are tables: one judge for SQLite and for memory."""
