"""openbox_core's context store, with a bound on what it remembers of traces."""

from __future__ import annotations

from collections import OrderedDict

from openbox_core.context import ContextStore, canonical_trace_key
from openbox_core.contracts.context import ActivityContext

__all__ = ("BoundedContextStore",)

MAX_TRACES = 4_096


class BoundedContextStore(ContextStore):
    """
    A store of one governance, never the one that the process shares.

    The span processor of openbox_core registers every trace and takes none out. Traces are therefore
    forgotten in the order of their last use, beyond `MAX_TRACES`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._traces: OrderedDict[int, ActivityContext] = OrderedDict()

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
