"""Derive the decisions of a recorded session again, from its journal and its rules."""
