"""Say in words what changed from one set of contracts to another."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...contracts.base import TemporalContract
from ...contracts.identity import meaning_of
from ...contracts.parameters import parameters_of
from ..named import Named
from ..sentences import readable
from .beyond_traces import WATCHES, changed_names, seen_in_traces, unshown_changes

__all__ = ("Changes", "RuleChange", "SaidContract", "changes_between", "form_of")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """
    A contract that says something else than before.

    Attributes:
        before: As it was.
        after: As it is.
        words: What changed of it, a line each.
        unshown: What of that no trace can show, a sentence each.
        calls: Whether a trace can show some of it.
    """

    before: Named
    after: Named
    words: tuple[str, ...]
    unshown: tuple[str, ...]
    calls: bool


@dataclass(frozen=True, slots=True)
class SaidContract:
    """
    What a contract says, to people too.

    Attributes:
        contract: The contract.
        named: How reports name it.
    """

    contract: TemporalContract
    named: Named

    def form(self) -> dict[str, Any]:
        """Give what it says by the names of options and arguments."""
        told = {"description": self.contract.description, "remedy": self.contract.remedy}
        return {**form_of(self.contract), **told}


def form_of(contract: TemporalContract) -> dict[str, Any]:
    """Give what a contract means, by the names of its options and arguments."""
    form = meaning_of(contract)
    terms = form.pop("terms", {})
    return {**form, **terms}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """
    List the differences between two sets of contracts.

    Attributes:
        added: Contracts that were not there.
        removed: Contracts that are not there any more.
        changed: Contracts that say something else.
        unshown: What of all that no trace can show, a sentence each.
        calls: Whether a trace can show some of it.
        same: How many say the same.
    """

    added: tuple[Named, ...]
    removed: tuple[Named, ...]
    changed: tuple[RuleChange, ...]
    unshown: tuple[str, ...]
    calls: bool
    same: int

    def lines(self) -> Iterator[str]:
        """Write the changes for people."""
        for change in self.changed:
            yield f"changed: {change.before.name}: {'; '.join(change.words)}"
        yield from (f"added: {named}" for named in self.added)
        yield from (f"removed: {named}" for named in self.removed)
        yield from (f"no trace shows it: {sentence}" for sentence in self.unshown)


@dataclass(frozen=True, slots=True)
class _Formed:
    form: dict[str, Any]
    named: Named

    @property
    def shown(self) -> dict[str, Any]:
        return seen_in_traces(self.form)


def changes_between(old: Sequence[SaidContract], new: Sequence[SaidContract]) -> Changes:
    """Compare two sets of contracts, in whatever order they stand and however they are written."""
    before = [_Formed(said.form(), said.named) for said in old]
    after = [_Formed(said.form(), said.named) for said in new]
    before, after, same = _pairs(before, after, _whole)
    pairs: list[tuple[_Formed, _Formed]] = []
    for alike in (_same_id, _same_but_for_id, _same_calls):
        before, after, some = _pairs(before, after, alike)
        pairs += some
    changed = tuple(map(_change, *zip(*pairs, strict=True))) if pairs else ()
    alone = [*after, *before]
    return Changes(
        added=tuple(one.named for one in after),
        removed=tuple(one.named for one in before),
        changed=changed,
        unshown=(
            *(f"{change.before.name}: {sentence}" for change in changed for sentence in change.unshown),
            *(f"{one.named.name}: {WATCHES}" for one in alone if not one.shown),
        ),
        calls=any(change.calls for change in changed) or any(one.shown for one in alone),
        same=len(same),
    )


def _change(was: _Formed, now: _Formed) -> RuleChange:
    return RuleChange(
        before=was.named,
        after=now.named,
        words=tuple(_words(was.form, now.form)),
        unshown=tuple(unshown_changes(was.form, now.form)),
        calls=was.shown != now.shown,
    )


def _pairs(
    before: Sequence[_Formed], after: Sequence[_Formed], alike: Callable[[Mapping[str, Any]], str | None]
) -> tuple[list[_Formed], list[_Formed], list[tuple[_Formed, _Formed]]]:
    """Pair contracts that are alike, each with one other; give what is left of both, and the pairs."""
    waiting: dict[str, deque[int]] = {}
    for place, other in enumerate(after):
        key = alike(other.form)
        if key is not None:
            waiting.setdefault(key, deque()).append(place)
    left, pairs, gone = [], [], set()
    for one in before:
        twins = waiting.get(alike(one.form) or "")
        if not twins:
            left.append(one)
            continue
        gone.add(twins[0])
        pairs.append((one, after[twins.popleft()]))
    return left, [other for place, other in enumerate(after) if place not in gone], pairs


def _whole(form: Mapping[str, Any]) -> str:
    return json.dumps(form, sort_keys=True)


def _same_id(form: Mapping[str, Any]) -> str | None:
    return None if form["id"] is None else str(form["id"])


def _same_but_for_id(form: Mapping[str, Any]) -> str:
    return _whole({**form, "id": None})


def _same_calls(form: Mapping[str, Any]) -> str | None:
    if "template" not in form or "code" in form:
        return None
    return json.dumps([form["id"], form["template"], _calls(form)], sort_keys=True)


def _calls(form: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments that stand for calls."""
    named = {p.name for p in parameters_of(form["template"]) if p.kind == "tool"}
    return {name: said for name, said in form.items() if name in named}


def _words(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in changed_names(old, new):
        shown = map(_condition if name in ("when", "check") else _shown, (old.get(name), new.get(name)))
        yield f"{name} {' -> '.join(shown)}"


def _condition(value: Any) -> str:
    return readable(_shown(value))


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list) and value and value[0] == "number":
        return str(value[1])
    if isinstance(value, list) and value and value[0] == "tool":
        return str(value[1])
    if isinstance(value, list) and value and value[0] in ("matching", "not_matching"):
        return f"{value[1]}({value[3]}{'~' if value[0] == 'matching' else '!~'}/{value[2]}/)"
    if isinstance(value, list) and value and value[0] == "any_of":
        return f"any_of({', '.join(map(_shown, value[1:]))})"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
