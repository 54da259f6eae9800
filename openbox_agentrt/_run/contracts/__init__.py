"""The local contracts of runs: which rules are in force, and the sessions that runs share."""
