"""An idempotency store that keeps no refusals: they must not be replayed after the policy has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .denial import Unstored
from .stand_in import Proxy, is_judged_by, stand_in

if TYPE_CHECKING:
    from .._activity.judge import Judge


class FilteredIdempotencyStore(Proxy):
    """A store that does not keep refusals."""

    __slots__ = ()

    def get(self, scope: str, key: str) -> Any:
        return self.__wrapped__.get(scope, key)

    def put(self, record: Any) -> Any:
        return record if isinstance(record.value, Unstored) else self.__wrapped__.put(record)


def wrap_idempotency_store(store: Any, judge: Judge) -> Any:
    """A stand-in for `store`; `store` itself if it is one already."""
    return store if is_judged_by(store, judge) else stand_in(FilteredIdempotencyStore, store, judge)
