"""
Values that show every answer of conditions: those that they compare with, and some between and beyond.

Between the values that conditions name, all are alike. Where two places are compared with one another, such
as an argument with what a call has told, both are tried with the same values, as many as keep them apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

__all__ = ("ComparedValues", "Domains", "ReadPlace")

_OTHER = "other"
# Of a type that no condition of these compares with anything.
_OF_NO_TYPE = None
_MOST_APART = 7


class ReadPlace(NamedTuple):
    """
    Say where a condition reads a value.

    Attributes:
        of: Whether it is an argument, or what a call has told.
        name: The path of the argument, or the label of the fact.
        value: Which value of the fact.
    """

    of: Literal["args", "fact"]
    name: str
    value: str = ""


@dataclass(slots=True)
class ComparedValues:
    """
    Hold what some conditions compare one place with.

    Attributes:
        plain: Values that it is compared with for equality.
        bounds: Numbers that it is above or below.
        parts: Texts that it has in it, at its beginning or at its end.
        sizes: Numbers that its size is compared with.
    """

    plain: dict[str, Any] = field(default_factory=dict)
    bounds: set[int | float] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)

    def join(self, other: ComparedValues) -> None:
        """Take what the same place is compared with elsewhere."""
        self.plain |= other.plain
        self.bounds |= other.bounds
        self.parts |= other.parts
        self.sizes |= other.sizes

    @property
    def whole(self) -> bool:
        """Tell whether the values that are tried show every answer."""
        kinds = bool(self.bounds) + bool(self.sizes) + bool(self.parts)
        return kinds < 2 and len(self.parts) < 2 and not (self.sizes and self.plain)

    @property
    def are_texts(self) -> bool:
        """Tell whether all that it is compared with are whole texts."""
        others = self.bounds or self.sizes or self.parts
        return not others and all(isinstance(value, str) for value in self.plain.values())

    def tried(self) -> list[Any]:
        """List the values that are tried, those that read best first."""
        found = [*self.plain.values(), *_around(self.bounds, self.plain.values()), *_of_size(self.sizes)]
        for part in sorted(self.parts):
            found += [part, f"{part}x", f"x{part}", f"x{part}x"]
        if not self.bounds and not self.sizes:
            found.append(next(text for text in _others() if text not in found))
        # Of what is only equal to something or not, a text that is another stands for all types.
        return _each_once([*found, *([_OF_NO_TYPE] if self.bounds or self.sizes or self.parts else [])])

    def apart(self, count: int, *, ordered: bool) -> list[Any]:
        """List the values of places that are compared with one another, so many where all are alike."""
        plain = list(self.plain.values())
        numbers = sorted({*self.bounds, *filter(_is_number, plain)})
        if not ordered and not numbers:
            others = (text for text in _others() if text not in plain)
            return _each_once([*plain, *itertools.islice(others, count)])
        texts = [value for value in plain if not _is_number(value)]
        return _each_once([*_in_gaps(numbers, count), *texts, _OF_NO_TYPE])


class Domains:
    """
    Choose the values that are tried of places, those alike that are compared with one another.

    Args:
        compared: What each place is compared with.
        links: Places that are compared with one another, and whether by which is more.
        few: Choose fewer, which need not show every answer.

    Attributes:
        whole: Whether the values of those show every answer.
        few: See above.
    """

    def __init__(
        self,
        compared: Mapping[ReadPlace, ComparedValues],
        links: Mapping[tuple[ReadPlace, ReadPlace], bool],
        *,
        few: bool = False,
    ) -> None:
        self.whole = True
        self.few = few
        self._tried: dict[ReadPlace, list[Any]] = {}
        self._texts: dict[ReadPlace, bool] = {}
        for together in _joined(links):
            self._add(together, compared, any(more for pair, more in links.items() if pair[0] in together))

    def tried(self, place: ReadPlace, values: ComparedValues) -> list[Any]:
        """List the values that are tried of a place, those that read best first."""
        known = self._tried.get(place)
        return values.tried() if known is None else known

    def are_texts(self, place: ReadPlace, values: ComparedValues) -> bool:
        """Tell whether texts alone show every answer."""
        return self._texts.get(place, values.are_texts)

    def is_whole(self, place: ReadPlace, values: ComparedValues) -> bool:
        """Tell whether the values that are tried of a place show every answer."""
        return place in self._tried or values.whole

    def _add(
        self, together: frozenset[ReadPlace], compared: Mapping[ReadPlace, ComparedValues], ordered: bool
    ) -> None:
        every = ComparedValues()
        for place in together & compared.keys():
            every.join(compared[place])
        told = sum(place.of == "fact" for place in together)
        given = len(together) - told
        # By which is more, every argument of a call below, between and above what was told.
        count = told + (told + 1) * given if ordered or _has_numbers(every) else len(together)
        self.whole = self.whole and count <= _MOST_APART and not every.parts and not every.sizes
        if self.few and count > 1:
            count, self.whole = 1 if _has_numbers(every) else 2, False
        tried = every.apart(min(count, _MOST_APART), ordered=ordered)
        texts = not ordered and every.are_texts
        self._tried |= dict.fromkeys(together, tried)
        self._texts |= dict.fromkeys(together, texts)


def _joined(links: Iterable[tuple[ReadPlace, ReadPlace]]) -> list[frozenset[ReadPlace]]:
    groups: list[frozenset[ReadPlace]] = []
    for pair in links:
        near = [group for group in groups if not group.isdisjoint(pair)]
        groups = [group for group in groups if group not in near]
        groups.append(frozenset(pair).union(*near))
    return groups


def _each_once(values: Iterable[Any]) -> list[Any]:
    return list({(type(value), repr(value)): value for value in values}.values())


def _has_numbers(values: ComparedValues) -> bool:
    return bool(values.bounds) or any(map(_is_number, values.plain.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _around(bounds: Iterable[int | float], plain: Iterable[Any]) -> Iterator[int | float]:
    """Give numbers at some bounds, between any two and beyond each."""
    if not (found := sorted(bounds)):
        return
    ordered = sorted({*found, *filter(_is_number, plain)})
    yield from found
    yield ordered[0] - 1
    yield ordered[-1] + 1
    yield from ((one + other) / 2 for one, other in itertools.pairwise(ordered))


def _in_gaps(numbers: list[int | float], count: int) -> Iterator[int | float]:
    """Give some numbers, and so many below, between and above them."""
    if not numbers:
        yield from range(1, count + 1)
        return
    yield from numbers
    for one, other in itertools.pairwise(numbers):
        yield from (one + (other - one) * step / (count + 1) for step in range(1, count + 1))
    yield from (numbers[-1] + step for step in range(1, count + 1))
    yield from (numbers[0] - step for step in range(1, count + 1))


def _of_size(sizes: Iterable[int]) -> Iterator[tuple[str, ...]]:
    counts = sorted({count for size in sizes for count in (size, size - 1, size + 1, 0) if count >= 0})
    yield from (("x",) * count for count in counts)


def _others() -> Iterator[str]:
    return (_OTHER if not number else f"{_OTHER} {number}" for number in itertools.count())
