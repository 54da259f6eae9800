"""
Put to the shared store of a fleet what contracts of a call count there.

The store itself is `openbox_agentrt.fleet`.
"""
