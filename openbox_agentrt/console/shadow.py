"""The shadow report: what enforcing would have refused, of how many calls."""

from __future__ import annotations

import difflib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..acel.contracts.base import TemporalContract
from ..acel.contracts.declaration import Declaration
from ..acel.contracts.rebuilding import rebuilt
from ..evidence.errors import EvidenceError
from ..evidence.logs import merged_entries
from ..evidence.reading import Entry
from ..evidence.summary import ContractSummary, Summary, summarise
from . import values, words
from .sources import Sources
from .values import Piece

# What happens to a run or a session: contracts may be about it, and nobody calls it.
_NO_CALLS = frozenset(("run_started", "run_ended", "session_ended", "user_prompt"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Broke:
    """A call that a contract in shadow mode would have refused."""

    tool: str
    call: tuple[Piece, ...]
    unblock: str
    session: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One contract that only watches.

    Attributes:
        about: How many calls its tools had; None where the contract is not known.
    """

    name: str
    contract: str
    would_refuse: int
    about: int | None
    sessions: int
    last: float
    examples: tuple[Broke, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverBroken:
    """A contract none of whose tools was called."""

    name: str
    contract: str
    closest: str
    closest_calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowReport:
    """
    Collect what shadow mode has found.

    Attributes:
        summary: As ``openbox-agentrt report --json`` gives it.
        would_refuse: How many calls enforcing would have refused, each once however many contracts it broke.
        calls: How many calls the logs know of.
        has_steps: Whether each call is in them, and not only those that were judged by Core or refused.
    """

    summary: Summary
    rows: list[Row]
    never: list[NeverBroken]
    would_refuse: int
    calls: int
    sessions: int
    first: float
    has_steps: bool


@dataclass(slots=True)
class _Tally:
    """Count calls while a summary is made of the same entries."""

    tools: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)
    sessions: set[str | None] = field(default_factory=set)
    would_refuse: set[tuple[Any, ...]] = field(default_factory=set)
    first: str = ""

    def passing(self, entries: Iterable[tuple[str, Entry]]) -> Iterator[Entry]:
        for file, entry in entries:
            self.first = self.first or entry.time
            if entry.type == "step" and entry.data.get("e") == "reserve":
                self.tools[str(entry.data.get("tool"))] += 1
            elif entry.type == "decision":
                self.decided[str(entry.data.get("event"))] += 1
            elif entry.type == "violation" and entry.data.get("mode") == "shadow":
                # What was refused unread has no step.
                step = entry.data.get("step") or (entry.number,)
                self.would_refuse.add((file, entry.session_id, step, entry.data.get("tool")))
            if entry.session_id is not None:
                self.sessions.add(entry.session_id)
            yield entry


class Shadow:
    """Make the report, again only when the logs have grown. Any thread may use it."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._made: ShadowReport | None = None
        self._of = -1
        self._not_before = 0.0

    def report(self) -> ShadowReport:
        """Give the report as it is now. A tenth of the time at most goes into it while logs grow."""
        with self._lock:
            changes = self._sources.changes()
            if self._made is None or (changes != self._of and time.monotonic() >= self._not_before):
                began = time.monotonic()
                self._made = self._make()
                self._of = changes
                self._not_before = time.monotonic() + 9 * (time.monotonic() - began)
            return self._made

    def _make(self) -> ShadowReport:
        tally = _Tally()
        logs = [log.path for log in self._sources.logs if log.problem is None]
        try:
            summary = summarise(tally.passing(merged_entries(logs) if logs else ()))
            would_refuse = len(tally.would_refuse)
        except EvidenceError:
            # It was cut or changed meanwhile: verification says so, and what was counted before stands.
            summary = self._made.summary if self._made is not None else summarise(())
            would_refuse = self._made.would_refuse if self._made is not None else 0
        steps = tally.tools
        tools = steps or tally.decided
        contracts = self._contracts()
        return ShadowReport(
            summary=summary,
            rows=[self._row(one, contracts, tools) for one in summary.contracts if one.would_refuse],
            never=list(_never(self._named(), tools)) if steps else [],
            would_refuse=would_refuse,
            calls=sum(number for name, number in tools.items() if name not in _NO_CALLS),
            sessions=len(tally.sessions),
            first=words.moment_of(tally.first),
            has_steps=bool(steps),
        )

    def _contracts(self) -> dict[str, TemporalContract]:
        rules = self._sources.rules
        known: dict[str, TemporalContract] = {}
        if rules is not None:
            known = {contract.spec: contract for contract in rules.contracts}
        for log in self._sources.logs:
            for said in log.rules().values():
                known = {**_rebuilt(said), **known}
        return known

    def _named(self) -> Iterable[TemporalContract]:
        return () if self._sources.rules is None else self._sources.rules.contracts

    def _row(self, one: ContractSummary, known: dict[str, TemporalContract], tools: Counter[str]) -> Row:
        contract = known.get(one.contract)
        return Row(
            name=one.id or one.contract,
            contract=one.contract,
            would_refuse=one.would_refuse,
            about=None if contract is None else _about(contract, tools),
            sessions=one.sessions,
            last=words.moment_of(one.last),
            examples=tuple(self._example(example) for example in one.examples),
        )

    def _example(self, example: Any) -> Broke:
        shown: Any = self._sources.redactor.redact(example.args)
        args = shown if isinstance(shown, dict) else {}
        call = " ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)[:80]}" for name, value in args.items()
        )
        unblock = f"needs {example.needs}" if example.needs else str(example.remaining or "")
        return Broke(
            tool=example.tool,
            call=values.pieces(call),
            unblock=unblock,
            session=example.session_id or "",
            at=words.moment_of(example.time),
        )


def _rebuilt(said: Mapping[str, Any]) -> dict[str, TemporalContract]:
    """Build the contracts of a log again, under the texts that its violations have."""
    forms, texts = said.get("contracts"), said.get("texts")
    if not isinstance(forms, list) or not isinstance(texts, list):
        return {}
    try:
        built = [rebuilt(form) for form in forms]
    except (AttributeError, LookupError, TypeError, ValueError):
        return {}  # rules that were tampered with: verification says so
    return {str(text): one for text, one in zip(texts, built, strict=False) if one is not None}


def _about(contract: TemporalContract, tools: Counter[str]) -> int | None:
    if not isinstance(contract, Declaration):
        return None
    return sum(
        number
        for tool, number in tools.items()
        if any(role.selector.on(tool) is not False for role in contract.roles)
    )


def _never(contracts: Iterable[TemporalContract], tools: Counter[str]) -> Iterator[NeverBroken]:
    for contract in contracts:
        if not isinstance(contract, Declaration) or not tools or _about(contract, tools) != 0:
            continue
        names = [name for role in contract.roles for name in role.selector.names or ()]
        close = [found for name in names for found in difflib.get_close_matches(name, tools, n=1, cutoff=0.5)]
        closest = close[0] if close else ""
        yield NeverBroken(
            name=contract.id or contract.spec,
            contract=contract.spec,
            closest=closest,
            closest_calls=tools[closest],
        )
