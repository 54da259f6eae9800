"""
Keep the memory of a session in a shared store: piece by piece, as calls change it.

Who holds it is decided by the store, in `openbox_agentrt.fleet`; for runs it is opened by `_run.contracts`.
"""
