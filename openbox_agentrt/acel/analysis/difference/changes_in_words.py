"""Say in words what changed from one set of contracts to another."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...contracts.base import TemporalContract
from ...contracts.identity import meaning_of
from ..findings.finding import Named
from ..sentences import readable

__all__ = ("Changes", "RuleChange", "changes_between")


_Formed: TypeAlias = "tuple[dict[str, Any], Named]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """
    A contract that says something else than before.

    Attributes:
        before: As it was.
        after: As it is.
        words: What changed of it, a line each.
    """

    before: Named
    after: Named
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """
    List the differences between two sets of contracts.

    Attributes:
        added: Contracts that were not there.
        removed: Contracts that are not there any more.
        changed: Contracts that say something else.
        same: How many say the same.
    """

    added: tuple[Named, ...]
    removed: tuple[Named, ...]
    changed: tuple[RuleChange, ...]
    same: int

    def lines(self) -> Iterator[str]:
        """Write the changes for people."""
        for change in self.changed:
            yield f"changed: {change.before.name}: {'; '.join(change.words)}"
        yield from (f"added: {named}" for named in self.added)
        yield from (f"removed: {named}" for named in self.removed)


def changes_between(
    old: Sequence[TemporalContract],
    new: Sequence[TemporalContract],
    old_named: Sequence[Named],
    new_named: Sequence[Named],
) -> Changes:
    """Compare two sets of contracts, in whatever order they stand and however they are written."""
    before = [(meaning_of(contract), named) for contract, named in zip(old, old_named, strict=True)]
    after = [(meaning_of(contract), named) for contract, named in zip(new, new_named, strict=True)]
    before, after, same = _pairs(before, after, _whole)
    changed: list[tuple[_Formed, _Formed]] = []
    for alike in (_same_id, _same_calls):
        before, after, pairs = _pairs(before, after, alike)
        changed += pairs
    return Changes(
        added=tuple(named for _, named in after),
        removed=tuple(named for _, named in before),
        changed=tuple(
            RuleChange(before=was, after=now, words=tuple(_words(old_form, new_form)))
            for (old_form, was), (new_form, now) in changed
        ),
        same=len(same),
    )


def _pairs(
    before: Sequence[_Formed], after: Sequence[_Formed], alike: Callable[[Mapping[str, Any]], str | None]
) -> tuple[list[_Formed], list[_Formed], list[tuple[_Formed, _Formed]]]:
    """Pair contracts that are alike, each with one other; give what is left of both, and the pairs."""
    waiting: dict[str, deque[int]] = {}
    for place, (form, _) in enumerate(after):
        key = alike(form)
        if key is not None:
            waiting.setdefault(key, deque()).append(place)
    left, pairs, gone = [], [], set()
    for one in before:
        twins = waiting.get(alike(one[0]) or "")
        if not twins:
            left.append(one)
            continue
        gone.add(twins[0])
        pairs.append((one, after[twins.popleft()]))
    return left, [other for place, other in enumerate(after) if place not in gone], pairs


def _whole(form: Mapping[str, Any]) -> str | None:
    return json.dumps(form, sort_keys=True)


def _same_id(form: Mapping[str, Any]) -> str | None:
    return None if form["id"] is None else str(form["id"])


def _same_calls(form: Mapping[str, Any]) -> str | None:
    if "terms" not in form:
        return None
    return json.dumps([form["id"], form.get("template"), _calls(form["terms"])], sort_keys=True)


def _calls(terms: Mapping[str, Any]) -> dict[str, Any]:
    return {name: form for name, form in terms.items() if isinstance(form, list) and form[0] != "number"}


def _words(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before = {**_plain(old), **old.get("terms", {})}
    after = {**_plain(new), **new.get("terms", {})}
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name), after.get(name)
        if was != now:
            shown = map(_condition if name in ("when", "check") else _shown, (was, now))
            yield f"{name} {' -> '.join(shown)}"


def _condition(value: Any) -> str:
    return readable(_shown(value))


def _plain(form: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in form.items() if name != "terms"}


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
