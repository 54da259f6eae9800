"""Secrets in what is recorded: how one is found in a text, and the marker that stands in its place."""
