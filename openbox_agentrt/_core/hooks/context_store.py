"""openbox_core's context store, with a bound on what it remembers of traces."""

from __future__ import annotations

from collections import OrderedDict
from contextvars import Token
from typing import Any, Protocol

from openbox_core.context import ContextStore, canonical_trace_key
from openbox_core.contracts.context import ActivityContext

MAX_TRACES = 4_096


class HasContext(Protocol):
    """Give the context of an activity when it is asked for."""

    @property
    def context(self) -> ActivityContext: ...


class BoundedContextStore(ContextStore):
    """
    A store of one governance, never the one that the process shares.

    An activity is bound as it is. Its context is made when somebody asks for it: most activities do no I/O
    that is governed.

    The span processor of openbox_core registers every trace and takes none out. Traces are therefore
    forgotten in the order of their last use, beyond `MAX_TRACES`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._traces: OrderedDict[int, ActivityContext] = OrderedDict()

    def bind_activity(self, activity: HasContext) -> Token[Any]:
        """Like `bind`, with the context that `activity` will have when it is asked for."""
        bound: Any = activity
        return self._current.set(bound)

    def current_activity_context(self) -> ActivityContext | None:
        bound: Any = self._current.get()
        return bound if bound is None or isinstance(bound, ActivityContext) else bound.context

    def clear_activity_aborted(self, workflow_id: str | None, activity_id: str | None) -> None:
        # NB: a name of openbox_core that is not public. Every activity ends here, and hardly one was aborted.
        if self._aborted_activities:
            super().clear_activity_aborted(workflow_id, activity_id)

    def register_trace(self, trace_id: int | str, ctx: ActivityContext) -> None:
        key = canonical_trace_key(trace_id)
        with self._lock:
            self._traces[key] = ctx
            self._traces.move_to_end(key)
            while len(self._traces) > MAX_TRACES:
                self._traces.popitem(last=False)

    def context_for_trace(self, trace_id: int | str) -> ActivityContext | None:
        key = canonical_trace_key(trace_id)
        with self._lock:
            return self._traces.get(key)

    def unregister_trace(self, trace_id: int | str) -> None:
        key = canonical_trace_key(trace_id)
        with self._lock:
            self._traces.pop(key, None)

    def trace_map_size(self) -> int:
        with self._lock:
            return len(self._traces)

    def clear(self) -> None:
        super().clear()
        with self._lock:
            self._traces.clear()
