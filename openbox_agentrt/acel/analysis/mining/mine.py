"""Suggest contracts from recorded sessions, each with what it would have refused in sessions kept back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...contracts.base import ENDED
from ...contracts.spec import build_contract
from ...engine.call.lifecycle import conclude
from ...engine.engine import Engine
from ...engine.snapshot.lent_engine import CellNumbers, LentEngine
from ...events import USER_PROMPT
from ...reservation import Reservation
from ...session import Session, engine_of
from ...violations import Violation
from ..analyse import analyse
from .contract_candidates import Candidate, candidates
from .recorded_sessions import Recorded
from .source_candidates import source_candidates

__all__ = ("Mined", "Suggestion", "mine")

# Of so many sessions, one is kept back.
_KEPT_BACK = 5
_LEAST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """
    A contract that is suggested.

    Attributes:
        contract: The contract as data, in shadow mode, with an id and a description.
        support: How often it could have been broken.
        confidence: The share of times that it was not.
        counter: Where it was broken: file and line, or the session.
        refused: How many of the sessions kept back it would have refused a call of.
        kept_back: How many those are.
    """

    contract: dict[str, Any]
    support: int
    confidence: float
    counter: tuple[str, ...]
    refused: int
    kept_back: int

    def words(self) -> str:
        """Say in one line what it rests on."""
        said = f"held {self.confidence:.0%} of {self.support} times"
        said += f", refuses {self.refused} of {self.kept_back} sessions kept back" if self.kept_back else ""
        return said + (f", not in {', '.join(self.counter[:3])}" if self.counter else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mined:
    """
    List the contracts that recorded sessions suggest.

    Attributes:
        suggestions: The contracts, those that could have been broken most often first.
        implied: How many more there were that follow from these.
        learnt_from: From how many sessions.
        kept_back: How many sessions were kept back to check.
    """

    suggestions: tuple[Suggestion, ...]
    implied: int
    learnt_from: int
    kept_back: int


def mine(
    sessions: Iterable[Recorded],
    *,
    min_support: int = 5,
    confidence: float = 1.0,
    effects: Collection[str] = (),
    seconds: float = 1.0,
) -> Mined:
    """
    Suggest contracts that recorded sessions, which went well, keep to.

    One in five sessions is kept back, and says what each suggestion would have refused. Every suggestion is
    in shadow mode: what has been is not what must be, and a person decides.

    Args:
        sessions: The sessions.
        min_support: So often at least a contract could have been broken.
        confidence: So large a share of times at least it held.
        effects: Tools that change something: only contracts about these are suggested, and limits however
            seldom they are reached. None given, all are.
        seconds: How long is searched for those that follow from others.
    """
    every = list(sessions)
    back = every[_KEPT_BACK - 1 :: _KEPT_BACK] if len(every) >= _LEAST else []
    learnt = [s for place, s in enumerate(every) if not back or place % _KEPT_BACK != _KEPT_BACK - 1]
    found = [
        candidate
        for suggest in (candidates, source_candidates)
        for candidate in suggest(learnt, min_support=min_support, confidence=confidence, effects=effects)
    ]
    found = _named(sorted(found, key=lambda found_one: ("key" not in found_one.contract, -found_one.support)))
    found = [candidate for candidate in _as_judged(found, learnt) if candidate.confidence >= confidence]
    left = _not_implied(found, seconds)
    return Mined(
        suggestions=tuple(_suggested(left, back)),
        implied=len(found) - len(left),
        learnt_from=len(learnt),
        kept_back=len(back),
    )


def _named(found: Sequence[Candidate]) -> list[Candidate]:
    """Give each an id that says what it is about."""
    used: dict[str, int] = {}
    named = []
    for candidate in found:
        words = [str(arg) for arg in candidate.contract["args"] if isinstance(arg, str)]
        name = "-".join([candidate.contract["template"].replace("_", "-"), *words])
        used[name] = used.get(name, 0) + 1
        name += f"-{used[name]}" if used[name] > 1 else ""
        named.append(replace(candidate, contract={"id": name, **candidate.contract}))
    return named


def _as_judged(found: Sequence[Candidate], learnt: Sequence[Recorded]) -> Iterator[Candidate]:
    """
    Take back what was counted as held where the engine refuses it.

    Counts know of calls that ran, and what limits them knows of those that were aborted while others ran.
    """
    refused = _refused([candidate.contract for candidate in found], learnt)
    for candidate in found:
        names = refused[candidate.contract["id"]]
        missed = len(names) - (candidate.support - candidate.held)
        if missed > 0:
            counter = tuple(dict.fromkeys((*candidate.counter, *names)))
            candidate = replace(candidate, held=candidate.held - missed, counter=counter)
        yield candidate


def _not_implied(found: Sequence[Candidate], seconds: float) -> list[Candidate]:
    """Leave out those that follow from others: from one with a key, and as far as a search tells."""
    keyed = {_prerequisite(candidate) for candidate in found if "key" in candidate.contract}
    found = [each for each in found if "key" in each.contract or _prerequisite(each) not in keyed]
    if not found:
        return []
    analysis = analyse([build_contract(candidate.contract) for candidate in found], seconds=seconds)
    gone = {
        finding.contracts[0].name
        for finding in analysis.findings
        if finding.kind in ("contract-implied-by", "contract-never-decides")
    }
    return [candidate for candidate in found if candidate.contract["id"] not in gone]


def _prerequisite(candidate: Candidate) -> tuple[str, ...] | None:
    contract = candidate.contract
    return (*contract["args"],) if contract["template"] == "must_precede" else None


def _suggested(found: Sequence[Candidate], back: Sequence[Recorded]) -> Iterator[Suggestion]:
    """Say of each in how many of the sessions kept back it would have refused a call."""
    watching = [{**candidate.contract, "mode": "shadow"} for candidate in found]
    refused = _refused(watching, back)
    for candidate, contract in zip(found, watching, strict=True):
        made = Suggestion(
            contract=contract,
            support=candidate.support,
            confidence=candidate.confidence,
            counter=candidate.counter,
            refused=len(refused[contract["id"]]),
            kept_back=len(back),
        )
        yield replace(made, contract={**contract, "description": made.words()})


def _refused(contracts: Sequence[dict[str, Any]], sessions: Iterable[Recorded]) -> dict[str, list[str]]:
    """
    Name the sessions that break each contract, with the engine that would be in force.

    All of them watch together, so that none keeps a call from another: up to the first call that one breaks
    it has seen what it would have seen alone.
    """
    built = tuple(build_contract({**contract, "mode": "shadow"}) for contract in contracts)
    found: dict[str, list[str]] = {contract["id"]: [] for contract in contracts}
    engine = engine_of(Session(contracts=built, halt_on_violation=False))
    engine.forgo_records()
    lent = LentEngine(engine, CellNumbers())
    for recorded in sessions if built else ():
        lent.begin({})
        for id in {violation.id for violation in _watched(engine, recorded)}:
            found[str(id)].append(recorded.name)
    return found


def _watched(engine: Engine, recorded: Recorded) -> Iterator[Violation]:
    """Let a new session see what happened, calls that overlap included, and give what it would refuse."""
    texts = recorded.said()
    begun: dict[int, Reservation] = {}
    for number, is_end in recorded.steps():
        call = recorded.calls[number]
        if is_end:
            conclude(begun.pop(number), call.result, outcome=call.outcome)
            continue
        for text in texts.get(number, ()):
            engine.reserve(USER_PROMPT, {"prompt": text}, False).commit(None)
        begun[number] = engine.reserve(call.tool, call.args, False)
        yield from begun[number].violations
    yield from engine.close(ENDED)
