"""Data as it travels to Core and back: payloads, errors, ids and redactions."""
