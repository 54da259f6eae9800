"""Judge the calls of one session by its contracts. The names are acel-core's."""

from __future__ import annotations

from ..._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..contracts.tools import CommitFn as CommitFn
    from ..contracts.tools import ToolSpec as ToolSpec
    from ..gate import Gate as Gate
    from .session import RunSession as RunSession
    from .session import Session as Session
    from .session import engine_of as engine_of

_HOME = {
    "CommitFn": ".contracts.tools",
    "Gate": ".gate",
    "RunSession": "session",
    "Session": "session",
    "ToolSpec": ".contracts.tools",
    "engine_of": "session",
}

__all__ = tuple(sorted(_HOME))

__getattr__, __dir__ = lazy_names(globals(), _HOME)
