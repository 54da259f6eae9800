"""
Contracts that recorded sessions suggest: what has held often, more often than chance would have it.

A suggestion is counted, call by call or session by session, before any contract is built: how often it could
have been broken, and how often it was not. What could hardly be broken is none.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...._plain.amounts import Amount, AmountError, add, read_amount
from ...events import ToolCallEvent
from .recorded_sessions import Index, Placed, Recorded, is_field, is_nameable, spelt

__all__ = ("LIFT", "Candidate", "candidates")

# By so much more often than by chance.
LIFT = 1.2
# So many are "a few" calls or values.
_FEW = 3
# A key that two tools call by different names has so many values at least, of which so many are shared.
_MANY = 5
_SHARED = 0.8
_EXPECTED = 3.0
# What calls of one tool have in common where they are told apart by no key.
_ANY = "any"
_AMOUNTS = ("amount", "total", "price", "cost", "sum", "quantity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """
    A contract that sessions suggest.

    Attributes:
        contract: The contract as data.
        support: How often it could have been broken.
        held: How often it was not.
        counter: Where it was, as far as it was: file and line, or the session.
    """

    contract: dict[str, Any]
    support: int
    held: int
    counter: tuple[str, ...]

    @property
    def confidence(self) -> float:
        """The share of times that it held."""
        return self.held / self.support


def candidates(
    sessions: Sequence[Recorded], *, min_support: int, confidence: float, effects: Collection[str]
) -> list[Candidate]:
    """
    Count what sessions suggest.

    Args:
        sessions: The sessions.
        min_support: So often at least it could have been broken.
        confidence: So large a share of times at least it held.
        effects: Tools that change something: only contracts about these are suggested, and limits however
            seldom they are reached. None given, all are.
    """
    index = Index(sessions, confidence=confidence)
    often = (tool for tool, count in index.sessions_of.items() if count >= min_support)
    tools = sorted(filter(is_nameable, often))
    found: list[Candidate] = []
    for one, other in itertools.permutations(tools, 2):
        found += _precedence(index, one, other)
        found += _order(index, one, other)
    for one, other in itertools.combinations(tools, 2):
        found += _exclusion(index, one, other)
    for tool in tools:
        found += _limits(index, tool, tool in effects)
    return [
        candidate
        for candidate in found
        if candidate.support >= min_support
        and candidate.confidence >= confidence
        and (not effects or _about(candidate.contract) & frozenset(effects))
    ]


def _about(contract: Mapping[str, Any]) -> frozenset[str]:
    """Tell which tools a contract keeps from something: those that it refuses, or that oblige to more."""
    one, other, *_ = contract["args"]
    if contract["template"] == "must_precede":
        return frozenset({other})
    return frozenset({one, other} if contract["template"] == "mutually_exclusive" else {one})


def _precedence(index: Index, first: str, then: str) -> Iterator[Candidate]:
    shared = [(key, key) for key in sorted(index.values[first].keys() & index.values[then].keys())]
    # A value that is the same everywhere says nothing about whose it is.
    telling = [keys for keys in shared if len(index.values[then][keys[1]]) > 1]
    plain, *by_key = _follows(index, first, then, [None, *telling])
    keyed = [
        _counted("must_precede", [first, then], held, counter, key=key)
        for (key, _), (held, counter) in zip(telling, by_key, strict=True)
        if held[True]
    ]
    yield from keyed or _keyed_apart(index, first, then)
    held, counter = plain
    if held.total() and held[True] / held.total() >= LIFT * index.chance_after(first, left_out=then):
        yield _counted("must_precede", [first, then], held, counter)
    answered, counter = _answered(index, first, then)
    chance = index.chance_before(then, left_out=first)
    if answered.total() and answered[True] / answered.total() >= LIFT * chance:
        yield _counted("response", [first, then], answered, counter)


def _keyed_apart(index: Index, first: str, then: str) -> Iterator[Candidate]:
    """Look for a key that the two tools call by different names."""
    pairs = [
        (one, other)
        for one, other in itertools.product(sorted(index.values[first]), sorted(index.values[then]))
        if one != other and _are_shared(index.values[first][one], index.values[then][other])
    ]
    for (one, other), (held, counter) in zip(pairs, _follows(index, first, then, pairs), strict=True):
        if held[True]:
            key = {first: one, then: other}
            yield _counted("must_precede", [first, then], held, counter, key=key)


def _are_shared(values: Collection[Any], wanted: Collection[Any]) -> bool:
    if len(wanted) < _MANY:
        return False
    return sum(value in values for value in wanted) >= _SHARED * len(wanted)


def _counted(
    template: str, args: list[Any], held: Counter[bool], counter: Sequence[str], **more: Any
) -> Candidate:
    return Candidate(
        contract={"template": template, "args": args, **more},
        support=held.total(),
        held=held[True],
        counter=tuple(dict.fromkeys(counter)),
    )


def _follows(
    index: Index, first: str, then: str, keys: Sequence[tuple[str, str] | None]
) -> list[tuple[Counter[bool], list[str]]]:
    """Count for each key, or for none, how often a call of `then` had one of `first` before it."""
    found: list[tuple[Counter[bool], list[str]]] = [(Counter(), []) for _ in keys]
    asked = list(zip(keys, found, strict=True))
    most = index.tolerated(then)
    for calls in index.both(first, then, needed=then) if asked else ():
        count = sum(call.tool == then for call in calls)
        for key, (held, counter) in asked:
            late = _without_first(index, calls, then, key)
            held[False] += len(late)
            held[True] += count - len(late)
            counter += map(index.where, late)
        # Those that fail too often are not looked at to the end.
        asked = [each for each in asked if each[1][0][False] <= most]
        if not asked:
            break
    return found


def _without_first(
    index: Index, calls: Sequence[ToolCallEvent], then: str, key: tuple[str, str] | None
) -> list[ToolCallEvent]:
    """Find the calls of `then` before which the other tool was not called, with the same value of a key."""
    late = []
    seen: set[Any] = set()
    for call in calls:
        # A call without its key is refused, and allows nothing.
        value = _ANY if key is None else index.told(call).get(key[call.tool == then])
        if call.tool == then:
            if value is None or value not in seen:
                late.append(call)
        elif value is not None and call.outcome == "ok":
            seen.add(value)
    return late


def _answered(index: Index, first: str, then: str) -> tuple[Counter[bool], list[str]]:
    held: Counter[bool] = Counter()
    counter = []
    for calls in index.both(first, then, needed=first):
        if held[False] > index.tolerated(first):
            break
        answered = False
        for call in reversed(calls):
            if call.tool == first:
                held[answered] += 1
                counter += [] if answered else [index.where(call)]
            answered = answered or (call.tool == then and call.outcome == "ok")
    return held, counter


def _order(index: Index, banned: str, marker: str) -> Iterator[Candidate]:
    held: Counter[bool] = Counter()
    counter = []
    for of_banned, of_marker in index.calls_of(banned, marker):
        if held[False] > index.tolerated(banned):
            break
        first = of_marker[0].began
        after = next((each.call for each in of_banned if each.began > first), None)
        held[after is None] += 1
        counter += [] if after is None else [index.where(after)]
    if held.total():
        yield _counted("never_after", [banned, marker], held, counter)


def _exclusion(index: Index, one: str, other: str) -> Iterator[Candidate]:
    if index.sessions_of[one] * index.sessions_of[other] / index.sessions < _EXPECTED:
        return
    held: Counter[bool] = Counter()
    counter = []
    for of_one, of_other in index.calls_of(one, other):
        held[False] += 1
        counter.append(index.where(max(of_one[0], of_other[0], key=_began).call))
        if held[False] > index.tolerated(one) + index.tolerated(other):
            return
    held[True] = index.sessions_of[one] + index.sessions_of[other] - 2 * held[False]
    yield _counted("mutually_exclusive", [one, other], held, counter)


def _limits(index: Index, tool: str, effect: bool) -> Iterator[Candidate]:
    calls = index.each(tool)
    most = max(map(len, calls))
    reached = sum(len(some) == most for some in calls)
    if effect or (most <= _FEW and reached * 2 >= len(calls)):
        yield _always("at_most_n_times", [tool, most], len(calls))
    for field in sorted({name for some in calls for call in some for name in call.args if is_field(name)}):
        sums = [_sum(some, field) for some in calls]
        if all(total is not None for total in sums) and (effect or field.lower() in _AMOUNTS):
            limit = max(total for total in sums if total is not None)
            plain = int(limit) if limit == int(limit) else float(limit)
            yield _always("at_most_total", [tool, field, plain], len(calls))
            continue
        yield from _few_values(tool, field, calls)


def _few_values(tool: str, field: str, calls: Sequence[Sequence[ToolCallEvent]]) -> Iterator[Candidate]:
    # A call without the argument is refused.
    if not all(isinstance(call.args.get(field), str) for some in calls for call in some):
        return
    values = [{spelt(call.args[field]) for call in some} for some in calls]
    most = max(map(len, values))
    # Only where more were possible, and others were used elsewhere.
    could = sum(len(some) > most for some in calls)
    if 0 < most <= _FEW and could and len(set().union(*values)) > most:
        yield _always("max_distinct", [tool, field, most], could)


def _began(placed: Placed) -> float:
    return placed.began


def _always(template: str, args: list[Any], support: int) -> Candidate:
    return Candidate(contract={"template": template, "args": args}, support=support, held=support, counter=())


def _sum(calls: Sequence[ToolCallEvent], field: str) -> Amount | None:
    total: Amount = 0
    for call in calls:
        try:
            total = add(total, read_amount(call.args.get(field)))
        except AmountError:
            return None
    return total
