"""Choose what a session in a search is about, and when it begins."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ...condition.condition import Condition
from ...condition.source import ConditionToken, tokens_of
from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration
from ...match.keys import OF_SUBJECT
from .analysable import key_paths

__all__ = ("SUBJECT", "Surroundings", "subject_of", "surroundings_of")

SUBJECT = "A"

# A Monday at noon, and the first day of a month in most zones, so that a short wait ends no week.
_START = 1_780_315_200.0
_HOUR = 3_600.0
# Morning, evening and night, and a Sunday.
_LATER = (-4 * _HOUR, 6 * _HOUR, 12 * _HOUR, -24 * _HOUR)
_AROUND = (-_HOUR, _HOUR, -12 * _HOUR, 12 * _HOUR)
_MOST_SUBJECTS = 24
_MOST = 240


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    Say under what a session runs that no call changes.

    Attributes:
        subject: What it is about.
        start: When it begins.
    """

    subject: Mapping[str, str | int] = field(default_factory=dict)
    start: float = _START


def subject_of(contracts: Iterable[TemporalContract]) -> dict[str, str]:
    """Give a session everything that keys read of what it is about."""
    declared = (contract for contract in contracts if isinstance(contract, Declaration))
    paths = {path for contract in declared for path in key_paths(contract, None)}
    return {path.removeprefix(OF_SUBJECT): SUBJECT for path in sorted(paths) if path.startswith(OF_SUBJECT)}


def surroundings_of(contracts: Sequence[TemporalContract]) -> list[Surroundings]:
    """
    Choose surroundings in which conditions over the subject and the time say different things.

    The subject has the values that it is compared with, and it is before and after the times that they name.
    """
    declared = [contract for contract in contracts if isinstance(contract, Declaration)]
    asked = [condition for contract in declared for condition in contract.conditions]
    plain = subject_of(contracts)
    compared = _compared_subjects(asked)
    chosen = itertools.product(*([(name, value) for value in values] for name, values in compared.items()))
    subjects = [{**plain, **dict(of)} for of in itertools.islice(chosen, _MOST_SUBJECTS)]
    every = itertools.product(_starts(asked), subjects)
    found = [Surroundings(plain), *(Surroundings(subject, start) for start, subject in every)]
    return found[:_MOST]


def _starts(asked: Iterable[Condition]) -> list[float]:
    timed = [condition for condition in asked if condition.reads.now]
    named = (token.text for condition in timed for token in tokens_of(condition.form) if token.kind == "text")
    times = [time for text in named if (time := _time(text)) is not None]
    later = [_START + later for later in _LATER] if timed else []
    return [_START, *(time + about for time in times for about in _AROUND), *later]


def _time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(str(ast.literal_eval(text))).timestamp()
    except (ValueError, SyntaxError):
        # A text that names no time.
        return None


def _compared_subjects(asked: Iterable[Condition]) -> dict[str, list[str | int]]:
    """Find the values that each entry of the subject is compared with."""
    found: dict[str, dict[str | int, None]] = {}
    for condition in asked:
        for part in _parts(condition.form) if condition.reads.subject else ():
            for entry in _entries(part):
                found.setdefault(entry, {}).update(dict.fromkeys(_literals(part)))
    return {entry: [*values, SUBJECT] for entry, values in found.items()}


def _parts(form: str) -> Iterator[list[ConditionToken]]:
    tokens = [token for token in tokens_of(form) if token.kind != "blank"]
    for ends, part in itertools.groupby(tokens, key=lambda token: token.text in ("&&", "||")):
        if not ends:
            yield list(part)


def _entries(part: Sequence[ConditionToken]) -> Iterator[str]:
    for subject, _, entry in zip(part, part[1:], part[2:], strict=False):
        if subject.kind == entry.kind == "name" and subject.text == "subject":
            yield entry.text


def _literals(part: Iterable[ConditionToken]) -> Iterator[str | int]:
    """Give the texts and numbers of a part, and the numbers beside those."""
    for token in part:
        if token.kind == "text":
            yield ast.literal_eval(token.text)
        elif token.kind == "number" and token.text.isdigit():
            yield from (int(token.text), int(token.text) - 1, int(token.text) + 1)
