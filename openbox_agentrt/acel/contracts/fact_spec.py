"""Facts from plain data, such as ``{"tool": "get_order", "as": "order", "key": "order_id"}``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from ..._plain.spelling import Fold
from ..condition.fact import Fact, fact
from .shapes import Field, Place, SpecError, check_kind, kind_of, shaped

FACT: dict[str, Field] = {
    "tool": Field("names", required=True),
    "as": Field("text", required=True),
    "key": Field("text"),
    "fold": Field("text", among=get_args(Fold)),
    "values": Field("mapping"),
}
"""A fact as it stands in data."""


def facts_from(specs: Sequence[Any], place: Place) -> tuple[Fact, ...]:
    """
    Make the facts that a list describes.

    Raises:
        SpecError: One is not understood, or two have one name.
    """
    found: dict[str, Fact] = {}
    for index, one in enumerate(_facts(specs, place)):
        if found.setdefault(one.name, one) is not one:
            raise SpecError(f"fact {one.name!r:.80} is there twice", (*place, index, "as"))
    return tuple(found.values())


def _facts(specs: Sequence[Any], place: Place) -> Iterator[Fact]:
    for index, spec in enumerate(specs):
        here = (*place, index)
        if not isinstance(spec, dict):
            raise SpecError(f"must be a mapping, got {kind_of(spec)}", here)
        shape = shaped(spec, FACT, here)
        values = shape.get("values", {})
        for name, path in values.items():
            check_kind(path, "text", (*here, "values", name))
        try:
            yield fact(
                shape["tool"], shape["as"], key=shape.get("key"), values=values, fold=shape.get("fold")
            )
        except (TypeError, ValueError) as error:
            raise SpecError(" ".join(str(error).split()), here) from error
