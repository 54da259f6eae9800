"""Recorded calls, our own and those of other programs, in one shape: calls that began, and how they ended."""
