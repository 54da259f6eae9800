"""
AgentDojo's ground-truth traces, judged by contracts that were written from the user tasks alone.

`traces` makes the traces, `rules/` holds the contracts, `judging` plays one against the other and asks
AgentDojo whether the attack reached its goal, `report` writes it down.
"""
