"""
Write errors in one line, and map an answer of Core's or a broken contract to the one that says so.

The tree of errors that users see is `openbox_agentrt.errors`.
"""
