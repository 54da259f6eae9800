"""
The parts of a user's own loop, judged for as long as a run of it is under way.

With ``install()``, a run happens on a governed copy, and the loop that the user holds keeps its raw provider
and registry: a tool that reaches for them would not be judged. So they are lent stand-ins meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_rt import AgentLoop

from .attributes import WRAP
from .stand_in import is_governed

if TYPE_CHECKING:
    from .._run.runs import Runs

_lock = threading.Lock()
_loans: dict[int, _Loan] = {}


@dataclass(slots=True)
class _Loan:
    """Keep the parts of one loop, by name: the raw ones, and what stands in for them."""

    runs: int = 0
    parts: dict[str, tuple[Any, Any]] = field(default_factory=dict)


@contextmanager
def lent_parts(loop: AgentLoop, judge: Runs) -> Iterator[None]:
    """Have what is called on the parts of `loop` judged, in tasks that are inside of a run."""
    with _lock:
        loan = _loans.setdefault(id(loop), _Loan())
        if not loan.runs:
            _lend(loop, judge, loan)
        loan.runs += 1
    try:
        yield
    finally:
        with _lock:
            loan.runs -= 1
            if not loan.runs:
                del _loans[id(loop)]
                _take_back(loop, loan)


def _lend(loop: AgentLoop, judge: Runs, loan: _Loan) -> None:
    made: dict[int, Any] = {}
    for name in ("provider", "tool_registry", "tool_executor"):
        raw = getattr(loop, name, None)
        if raw is None or is_governed(raw):
            continue
        # One object may be two parts, and has to stay one.
        stand_in = made.setdefault(id(raw), WRAP[name](raw, judge, lent=True))
        try:
            object.__setattr__(loop, name, stand_in)
        except AttributeError:
            continue  # a property, which cannot be set: `coverage` looks at it
        loan.parts[name] = (raw, stand_in)


def _take_back(loop: AgentLoop, loan: _Loan) -> None:
    for name, (raw, stand_in) in loan.parts.items():
        # What the user has set meanwhile stays.
        if getattr(loop, name, None) is stand_in:
            object.__setattr__(loop, name, raw)
