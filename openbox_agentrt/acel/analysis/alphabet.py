"""
The calls that are tried: few enough to search, and one of each kind that contracts tell apart.

A tool, a combination of the patterns over its arguments, values of its keys, and amounts around the limits.
Values of keys are alike until a session has seen them, so a state says which there are and one more is new.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ..._plain.amounts import Amount, add, subtract
from ..contracts.declaration import Declaration
from ..match.matchers import is_glob, name_matches
from .automata import of_name, of_pattern
from .components import values_needed
from .known import guards_of, patterns_of
from .provenance import fields_of, looked_for, slot_of, sources_of, texts_for
from .texts import combinations

__all__ = (
    "ALL_ARGUMENTS",
    "Alphabet",
    "CallKind",
    "alphabet_of",
    "names_of",
    "tools_in",
    "unit_of",
    "with_values",
)

ALL_ARGUMENTS = "*"
_MAX_TEXTS = 64
_MAX_GLOBS = 14
_MAX_FOUND = 3
_OTHER = "other_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallKind:
    """
    Calls that differ only in the values of their keys.

    Attributes:
        tool: The tool.
        args: Their other arguments, by path.
        slots: The arguments that are keys, each with the group of values that it is of.
        complete: Whether no other argument that a contract reads is missing.
        results: Those of the slots that stand for parts of the result, each with its path there.
    """

    tool: str
    args: tuple[tuple[str, Any], ...]
    slots: tuple[tuple[str, str], ...]
    complete: bool
    results: tuple[tuple[str, str | None], ...] = ()


@dataclass(slots=True, kw_only=True)
class Alphabet:
    """
    The calls that are tried of some contracts.

    Attributes:
        kinds: The kinds of calls.
        groups: Of each path of a key, the group of values that it is of.
        fixed: Groups whose values patterns or sources tell apart, with these values.
        found: Of each group whose values calls find out, those that they can find.
        waits: Times that are waited.
        whole: Whether there is a call of every kind that contracts tell apart.
    """

    kinds: list[CallKind] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)
    waits: tuple[float, ...] = ()
    whole: bool = True


def names_of(contracts: Iterable[Declaration], tools: Iterable[str] = ()) -> tuple[dict[str, bool], bool]:
    """
    Find the names of tools that contracts tell apart.

    Returns:
        The names, each with whether it is named or stands for others, and whether these are all.
    """
    literal: dict[str, bool] = dict.fromkeys(tools, True)
    globs: dict[str, None] = {}
    for contract in contracts:
        for role in contract.roles:
            for name in tools_in(role.selector.form()):
                if is_glob(name):
                    globs[name] = None
                else:
                    literal[name] = True
    whole = True
    for together in _overlapping(list(globs)):
        if len(together) > _MAX_GLOBS:
            literal.update(dict.fromkeys(map(_instance, together), False))
            whole = False
            continue
        found = combinations([of_name(glob) for glob in together])
        whole = whole and found.whole
        for hits, text in found.texts.items():
            if any(hits):
                literal.setdefault(_unlike(text, hits, together, literal), False)
    if _OTHER not in literal and not any(name_matches(glob, _OTHER) for glob in globs):
        literal[_OTHER] = False
    return literal, whole


def _overlapping(globs: Sequence[str]) -> list[list[str]]:
    """Put patterns over names together that one name could fit, as far as their beginnings tell."""
    groups: list[list[str]] = []
    for glob in globs:
        near = [group for group in groups if any(_may_overlap(glob, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(other for group in near for other in group), glob])
    return groups


def _may_overlap(one: str, other: str) -> bool:
    first, second = (re.split(r"[*?]", glob, maxsplit=1)[0] for glob in (one, other))
    return first.startswith(second) or second.startswith(first)


def _unlike(text: str, hits: tuple[bool, ...], globs: Sequence[str], known: Mapping[str, bool]) -> str:
    """Choose a name for a combination of patterns that no contract names itself, and that can be read."""
    filled = [_instance(glob) for glob, hit in zip(globs, hits, strict=True) if hit]
    for name in (*filled, text, *(f"{text}{more}" for more in "x01_")):
        if name and name not in known and tuple(name_matches(glob, name) for glob in globs) == hits:
            return name
    return text or _OTHER


def _instance(glob: str) -> str:
    return glob.replace("*", "x").replace("?", "x")


def alphabet_of(
    contracts: Sequence[Declaration], names: Iterable[str], more_amounts: Iterable[Declaration] = ()
) -> Alphabet:
    """
    Make the calls of some tools that contracts tell apart.

    Args:
        contracts: The contracts.
        names: The tools.
        more_amounts: Further contracts whose limits matter: those with which these are compared.
    """
    made = Alphabet()
    made.groups = _groups(contracts)
    made.waits = tuple(sorted({_after(w) for w in _windows(contracts)}))
    _add_found(made, contracts)
    amounts = _amounts([*contracts, *more_amounts])
    for name in names:
        _add_kinds(made, contracts, name, amounts)
    return made


def with_values(kind: CallKind, values: Mapping[str, str]) -> dict[str, Any]:
    """Write the arguments of a call, with these values of its keys by path."""
    args: dict[str, Any] = {}
    in_result = dict(kind.results)
    plain = {path: value for path, value in values.items() if path not in in_result} | dict(kind.args)
    for path, value in plain.items():
        parts = path.split(".")
        nested = len(parts) > 1 and parts[0] not in plain and not any(p == "*" or p.isdigit() for p in parts)
        if path == ALL_ARGUMENTS:
            args["value"] = value
        elif not nested:
            args[path] = value
        else:
            inside = args
            for part in parts[:-1]:
                inside = inside.setdefault(part, {})
            inside[parts[-1]] = value
    return args


def unit_of(contracts: Iterable[Declaration]) -> Amount:
    """Give 1 in the last decimal place of the limits on amounts."""
    limits = [guard.n for contract in contracts for guard in guards_of(contract) if guard.kind == "spend"]
    places = [-int(Decimal(limit).as_tuple().exponent) for limit in limits]
    most = max(places, default=0)
    return Decimal(1).scaleb(-most) if most > 0 else 1


def _add_kinds(
    made: Alphabet, contracts: Sequence[Declaration], name: str, amounts: Mapping[str, tuple[Amount, ...]]
) -> None:
    texts: dict[str, dict[str, None]] = {}
    slots: dict[str, str] = {}
    results: dict[str, str | None] = {}
    sums: dict[str, tuple[Amount, ...]] = {}
    for contract in contracts:
        if not _is_about(contract, name):
            continue
        for role in contract.roles:
            for tool, pattern, path in patterns_of(role.selector.form()):
                if name_matches(tool, name):
                    texts.setdefault(path, {})[pattern] = None
        for path in _key_paths(contract, name):
            slots[path] = made.groups[path]
        for path in _paths(contract, "distinct"):
            slots[path] = made.groups[path]
        for path in fields_of(contract, name):
            slots[path] = made.groups[path]
        for source in sources_of(contract):
            if source.selector.on(name) is not False:
                slots[slot_of(source)] = made.groups[slot_of(source)]
                results.update({} if source.given else {slot_of(source): source.path})
        for path in _paths(contract, "spend"):
            sums[path] = amounts[path]
    choices: dict[str, list[Any]] = {path: [*of, _MISSING] for path, of in sums.items()}
    for path, patterns in texts.items():
        found = combinations([of_pattern(pattern) for pattern in patterns])
        some = list(dict.fromkeys(found.texts.values()))
        made.whole = made.whole and found.whole and len(some) <= _MAX_TEXTS and path not in sums
        if path in slots:
            group = slots[path]
            # Whether one text that a pattern fits is vouched for, and another is not, is not tried.
            made.whole = made.whole and group not in made.found
            made.fixed[group] = tuple(dict.fromkeys((*made.fixed.get(group, ()), *some[:_MAX_TEXTS])))
        elif path not in sums:
            choices[path] = [*some[:_MAX_TEXTS], _MISSING]
    for chosen in itertools.product(*choices.values()):
        args = tuple((p, v) for p, v in zip(choices, chosen, strict=True) if v is not _MISSING)
        complete = len(args) == len(choices)
        made.kinds.append(
            CallKind(
                tool=name,
                args=args,
                slots=tuple(slots.items()),
                complete=complete,
                results=tuple(results.items()),
            )
        )


_MISSING: Any = object()


def _is_about(contract: Declaration, name: str) -> bool:
    return contract.everywhere or any(role.selector.on(name) is not False for role in contract.roles)


def tools_in(form: list[Any]) -> Iterator[str]:
    """Find the names of tools in the form of a selector."""
    word, *rest = form
    if word == "any_of":
        for inner in rest:
            yield from tools_in(inner)
    elif word in ("tool", "matching", "not_matching"):
        yield rest[0]


def _key_paths(contract: Declaration, name: str | None) -> list[str]:
    form = None if contract.split is None else contract.split.form()
    if isinstance(form, dict):
        return list(form.values()) if name is None else [form[name]] * (name in form)
    return [] if form is None else [form] if isinstance(form, str) else list(form)


def _paths(contract: Declaration, kind: str) -> set[str]:
    cells = [guard.cell for guard in guards_of(contract) if guard.kind == kind]
    return {cell.field for cell in cells if cell is not None and cell.field is not None}


def _groups(contracts: Iterable[Declaration]) -> dict[str, str]:
    """Put the paths together whose values one key compares: one argument for each tool."""
    groups: dict[str, str] = {}
    for contract in contracts:
        form = None if contract.split is None else contract.split.form()
        joined = (
            [list(form.values())] if isinstance(form, dict) else [[p] for p in _key_paths(contract, None)]
        )
        joined += [[path] for path in _paths(contract, "distinct")]
        joined += [[path, *map(slot_of, sources_of(contract))] for path in looked_for(contract)]
        for together in joined:
            names = {groups.setdefault(path, path) for path in together}
            for path, group in groups.items():
                if group in names:
                    groups[path] = min(names)
    return groups


def _add_found(made: Alphabet, contracts: Sequence[Declaration]) -> None:
    """Choose the values that calls find out, for each group of arguments in which they are looked for."""
    looking: dict[str, list[Declaration]] = {}
    for contract in contracts:
        for path in looked_for(contract):
            looking.setdefault(made.groups[path], []).append(contract)
    counted = {made.groups[path] for contract in contracts for path in _counted(contract)}
    for group, some in looking.items():
        count = min(values_needed(contracts), _MAX_FOUND) if group in counted else 1
        found, others, whole = texts_for(some, count)
        made.found[group] = found
        made.fixed[group] = (*found, *others)
        made.whole = made.whole and whole and (group not in counted or values_needed(contracts) <= count)


def _counted(contract: Declaration) -> set[str]:
    return {*_key_paths(contract, None), *_paths(contract, "distinct")}


def _windows(contracts: Iterable[Declaration]) -> Iterator[float]:
    for contract in contracts:
        for guard in guards_of(contract):
            cells = (guard.cell, guard.other, *guard.sources)
            yield from (cell.within for cell in cells if cell is not None and cell.within is not None)
            if guard.within is not None:
                yield guard.within


def _after(window: float) -> float:
    return window + 1 if window >= 1 else window * 2


def _amounts(contracts: Sequence[Declaration]) -> dict[str, tuple[Amount, ...]]:
    """Choose the amounts around the limits on each argument: none, a limit, just over it, between two."""
    limits: dict[str, set[Amount]] = {}
    falls: set[str] = set()
    for contract in contracts:
        for guard in guards_of(contract):
            if guard.kind == "spend" and guard.cell is not None and guard.cell.field is not None:
                limits.setdefault(guard.cell.field, set()).add(guard.n)
                falls |= {guard.cell.field} if guard.cell.negative else set()
    unit = unit_of(contracts)
    amounts: dict[str, tuple[Amount, ...]] = {}
    for path, some in limits.items():
        ordered = sorted(some)
        between = [subtract(b, a) for a, b in itertools.pairwise(ordered)]
        every = {0, *between, *ordered, *(add(limit, unit) for limit in ordered)}
        every |= {-limit for limit in ordered} if path in falls else set()
        amounts[path] = tuple(sorted(every))
    return amounts
