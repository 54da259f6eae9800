"""Asking Core: transport, gate, parsing, approvals, and the records of what was decided."""
