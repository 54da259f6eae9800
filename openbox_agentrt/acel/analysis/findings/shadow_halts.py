"""Find contracts that only watch, and would end sessions once they are in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..questions.searched import (
    SearchResult,
    Subject,
)
from ..questions.witness import UNSHOWN
from .finding import Finding

__all__ = ("watch_findings",)


def watch_findings(subject: Subject, searched: Sequence[SearchResult]) -> Iterator[Finding]:
    """Find the contracts in shadow mode that would end sessions once they are in force."""
    for place, contract in enumerate(subject.contracts):
        if contract.mode != "shadow" or contract.on_violation != "halt":
            continue
        first = next((some for some in searched if place in some.contracts), None)
        fired = None if first is None else first.found.fired.get(first.contracts.index(place))
        trace = None if first is None or fired is None else subject.shown(first.trace(*fired), [place])
        if fired is not None and trace is None:
            subject.unshown.append(f"whether {subject.named[place].name} would end a session: {UNSHOWN}")
        if trace is not None:
            yield Finding(
                kind="shadow-contract-would-halt",
                message="it only watches, and once it is enforced it ends the session",
                contracts=(subject.named[place],),
                witness=trace,
                advice="leave out on_violation: halt until it is enforced, or rehearse what a halt does",
            )
