"""
Derive the decisions of a recorded session again, from its journal and its rules.

`moved_sessions` sets logs of one session against each other, `fleet_account` those of the workers of a fleet.
The ways in for programs are in `acel.rerun`.
"""
