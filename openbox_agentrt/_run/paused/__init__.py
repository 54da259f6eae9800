"""
Keep runs that wait for a person: in this process, or parked in the store of a fleet for any process.

How an approval is asked for and polled is `_core.approvals`.
"""
