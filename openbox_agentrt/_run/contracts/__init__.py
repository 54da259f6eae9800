"""
Hold the contracts of runs: where rules come from, which are in force, and the sessions that runs share.

What a contract says and how it is judged is `acel`.
"""
