"""
Stand in for Agent-RT's loop, provider, registry, executor and stream, where each call arrives first.

Nothing is decided here: each asks `_activity`. Other ways in than Agent-RT's loop are `doors`.
"""
