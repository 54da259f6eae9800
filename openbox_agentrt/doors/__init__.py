"""
Let calls in that do not come from an Agent-RT loop, under the same contracts.

Each folder is one door. `call` is the life of a call in all of them, `arguments` what contracts see of it,
and `outcome` what became of it.
"""
