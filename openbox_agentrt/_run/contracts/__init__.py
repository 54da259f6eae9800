"""
Hold the contracts of runs: where rules come from, which are in force, the sessions that runs share, and what
is `unmet` when they end.

What a contract says and how it is judged is `acel`.
"""
