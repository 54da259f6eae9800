"""The arguments that a contract looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..match.keys import OF_SUBJECT
from .base import TemporalContract
from .declaration import Declaration


def named_fields(contract: TemporalContract) -> Iterator[str]:
    """
    Find the fields that a contract names: in patterns and conditions, as amount or value, and in its key.

    What a function of the user's own reads, and a contract with code of its own, is not known.
    """
    if not isinstance(contract, Declaration):
        return
    for role in contract.roles:
        yield from _in_calls(role.selector.form())
    for condition in contract.conditions:
        yield from sorted(condition.reads.args or ())
    for fact in contract.facts:
        yield from (source.path for source in fact.sources if source.of == "args" and source.path)
    field = getattr(contract, "field", None)
    if isinstance(field, str):
        yield field
    key = None if contract.split is None else contract.split.form()
    paths = [key] if isinstance(key, str) else key.values() if isinstance(key, dict) else key or ()
    # What the subject of a run is, no call has as an argument.
    yield from (path for path in paths if not path.startswith(OF_SUBJECT))


def _in_calls(form: list[Any]) -> Iterator[str]:
    word, *rest = form
    if word in ("matching", "not_matching"):
        yield rest[2]
    elif word == "any_of":
        for inner in rest:
            yield from _in_calls(inner)
