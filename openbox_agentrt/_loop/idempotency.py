"""An idempotency store that keeps no refusals: they must not be replayed after the policy has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_rt import IdempotencyRecord, IdempotencyStore

from .denial import Unstored
from .stand_in import StandIn, is_judged_by, stand_in

if TYPE_CHECKING:
    from .._run.runs import Runs


class FilteredIdempotencyStore(StandIn[IdempotencyStore]):
    """Keep everything in the wrapped store but refusals."""

    __slots__ = ()

    def get(self, scope: str, key: str) -> IdempotencyRecord | None:
        return self.__wrapped__.get(scope, key)

    def put(self, record: IdempotencyRecord) -> IdempotencyRecord:
        return record if isinstance(record.value, Unstored) else self.__wrapped__.put(record)


def wrap_idempotency_store(store: IdempotencyStore, judge: Runs) -> IdempotencyStore:
    """Give a stand-in for `store`; `store` itself if it is one already."""
    return store if is_judged_by(store, judge) else stand_in(FilteredIdempotencyStore, store, judge)
