"""Carry the bytes of a question to Core, and those of its answer back."""
