"""Records for whoever only counts what is broken: nothing is kept, and nothing is hashed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...memory.call import JudgedCall
from ...memory.state import StateStore
from ...violations import Violation
from .found_breach import FoundBreach
from .records import Records
from .trace import Trace

__all__ = ("NoRecords", "NoTrace")


class NoTrace(Trace):
    """Keep no call that ran, nor the hash of them."""

    __slots__ = ()

    def add(self, step: int, tool: str, args: Mapping[str, Any], result: Any) -> None:
        """Let a call go by."""


class _Nobody:
    """Keep no violation."""

    def record(self, violation: Violation, /) -> None:
        """Let it go by."""


class NoRecords(Records):
    """Name each contract that is broken, with nothing of the call, of the state and of what was before."""

    def __init__(self) -> None:
        super().__init__(
            NoTrace(keep=0),
            StateStore(),
            window=0,
            keep=0,
            session_id=None,
            evidence=None,
            make_evidence=_Nobody,
            meter=None,
        )

    def record(
        self, call: JudgedCall, findings: Iterable[FoundBreach], *, result: Any = None, blocked: bool = False
    ) -> tuple[Violation, ...]:
        """Say which contracts are broken."""
        return tuple(
            Violation(
                kind=found.broken.kind,
                spec=found.broken.contract,
                tool=call.tool,
                step=call.step,
                id=found.broken.id,
                mode=found.mode,
                blocked=blocked and found.stops,
            )
            for found in findings
        )
