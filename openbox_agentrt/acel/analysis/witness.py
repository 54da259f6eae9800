"""A trace that was found is tried on a real session of all contracts before anybody is told of it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..contracts.base import TemporalContract
from ..session import Session, engine_of
from .traces import TraceRow

__all__ = ("played", "until_refused")

_START = 1_000_000.0


class _Clock:
    def __init__(self) -> None:
        self.now = _START

    def __call__(self) -> float:
        return self.now


class _Player:
    """Let rows happen in a session."""

    def __init__(self, contracts: Sequence[TemporalContract], state: Mapping[str, Any]) -> None:
        self._clock = _Clock()
        own = [copy.copy(contract) for contract in contracts]
        self._session = Session(
            state,
            contracts=own,
            clock=self._clock,
            halt_on_violation=False,
            trace_window=0,
            max_trace=0,
            fleet="alone",
        )

    def play(self, row: TraceRow) -> TraceRow:
        """Let one row happen, and tell how it did."""
        if row.kind == "wait":
            self._clock.now += row.seconds
            return row
        if row.kind == "write":
            assert row.entry is not None
            return self._written(row, *row.entry)
        if row.kind == "end":
            unmet = engine_of(self._session).store.unmet()
            return replace(row, by=tuple(_name(breach.contract) for breach in unmet))
        return self._called(row)

    def _called(self, row: TraceRow) -> TraceRow:
        call = self._session.reserve(row.tool, row.args)
        if not call.allowed:
            broken = () if call.refusal is None else call.refusal.broken
            return replace(row, outcome="refused", result=None, by=tuple(b.id or b.contract for b in broken))
        watched = tuple(v.id or v.spec for v in call.violations)
        if row.outcome == "failed":
            call.abort(ran=True)
        else:
            call.commit(result=row.result)
        return replace(row, outcome="failed" if row.outcome == "failed" else "ok", by=watched)

    def _written(self, row: TraceRow, entry: str, value: Any) -> TraceRow:
        before = self._session.state.get(entry)
        if isinstance(value, dict) and isinstance(before, dict):
            value = {**before, **value}
        self._session.state.set(entry, value)
        return row


def played(
    rows: Iterable[TraceRow], contracts: Sequence[TemporalContract], state: Mapping[str, Any]
) -> list[TraceRow]:
    """Let a trace happen in a new session of all contracts, and tell how each row did."""
    player = _Player(contracts, state)
    return [player.play(row) for row in rows]


def until_refused(
    rows: Iterable[TraceRow], contracts: Sequence[TemporalContract], state: Mapping[str, Any]
) -> list[TraceRow]:
    """Do as `played`, as far as to the first call that is refused."""
    player = _Player(contracts, state)
    found = []
    for row in rows:
        found.append(player.play(row))
        if found[-1].outcome == "refused":
            break
    return found


def _name(contract: Any) -> str:
    return str(contract.id or contract.spec)
