"""
Write data as it travels to Core and back: payloads, errors, ids and redactions. Nothing is sent here.

The events made of it are `openbox_agentrt.lifecycle_events`; Core's answers are read in `_core.parsing`.
"""
