"""
Ask the store as one worker: in order, and from a thread of its own.

How a step is decided there is `fleet.judge`, and for Redis its scripts.
"""
