"""Patterns of names and texts: what they match together, and a shortest text for each."""
