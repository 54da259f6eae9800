"""Judge the calls of one session by its contracts. The names are acel-core's."""

from __future__ import annotations

from ..contracts.tools import CommitFn, ToolSpec
from ..gate import Gate
from .session import RunSession, Session, engine_of

__all__ = ("CommitFn", "Gate", "RunSession", "Session", "ToolSpec", "engine_of")
