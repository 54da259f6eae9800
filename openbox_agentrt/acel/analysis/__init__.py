"""
Know rules before they run: what can never happen under them, what contradicts what, what a change changes.

Every state that a session can reach is searched with the engine itself, so nothing here can read a contract
in another way than a session does. Every trace that is shown was tried on a real session.
"""

from .analyse import analyse
from .difference.compare import Difference, compare
from .findings.finding import Analysis, Finding
from .named import Named
from .search.trace_row import TraceRow

__all__ = ("Analysis", "Difference", "Finding", "Named", "TraceRow", "analyse", "compare")
