"""Contracts and sources that recorded sessions suggest."""
