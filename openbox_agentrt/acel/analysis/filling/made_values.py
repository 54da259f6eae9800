"""Make values of a shape, and change one a little: few, small, and alike where they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from .value_shapes import Shape

__all__ = ("ValueMaker",)

_HOUR, _DAY = 3_600.0, 86_400.0
# The first is as values of keys are called in a trace, and the likeliest to be the one that is meant.
_TEXTS = ("A", "A", "A", "B")
_NUMBERS = (0, 1, 2, 5, 100)
_LENGTHS = (1, 1, 1, 0, 2, 3)
_MOST_ELEMENTS = 64
_DEEPEST = 6


class ValueMaker:
    """
    Make values by chance, the same in every process.

    Args:
        now: The time at which a session begins.
        spans: Lengths of time that matter.
    """

    def __init__(self, now: float, spans: Iterable[float]) -> None:
        self._random = Random(7)
        away = {_HOUR, _DAY, 40 * _DAY, *(span + more for span in spans for more in (-_HOUR, _HOUR))}
        self._times = [now + sign * gap for gap in sorted(away) for sign in (1, -1)]

    def chosen(self, some: Sequence[Any]) -> Any:
        """Choose one of some things."""
        return self._random.choice(some)

    def happens(self, chance: float) -> bool:
        """Tell whether something happens that is as likely as that."""
        return self._random.random() < chance

    def made(self, shape: Shape, depth: int = 0) -> Any:
        """Make a value of a shape."""
        shape = shape.found()
        if depth > _DEEPEST:
            return None
        if shape.fields or shape.entry is not None:
            found = {name: self.made(inner, depth + 1) for name, inner in shape.fields.items()}
            if shape.entry is not None:
                count = 1 + self.happens(0.3)
                found |= {self._key(shape): self.made(shape.entry, depth + 1) for _ in range(count)}
            return found
        if shape.element is not None or shape.count is not None:
            element = shape.element or Shape()
            return [self.made(element, depth + 1) for _ in range(self._length(shape))]
        given = list(shape.given.values())
        # What stands in a trace already is what others are compared with.
        return self.chosen(given if given and self.happens(0.7) else list(self._scalars(shape)))

    def changed(self, shape: Shape, value: Any, depth: int = 0) -> Any:
        """Make a value of a shape that is another in some place."""
        shape = shape.found()
        if depth > _DEEPEST or self.happens(0.15):
            return self.made(shape, depth)
        if isinstance(value, dict) and (shape.fields or shape.entry is not None):
            return self._changed_entries(shape, value, depth)
        if isinstance(value, list) and (shape.element is not None or shape.count is not None):
            return self._changed_elements(shape, value, depth)
        return self.made(shape, depth)

    def _changed_entries(self, shape: Shape, value: dict[str, Any], depth: int) -> dict[str, Any]:
        if shape.entry is not None and self.happens(0.3):
            return {**value, self._key(shape): self.made(shape.entry, depth + 1)}
        if not value:
            return value
        name = self.chosen(sorted(value))
        inner = shape.fields.get(name, shape.entry)
        return value if inner is None else {**value, name: self.changed(inner, value[name], depth + 1)}

    def _changed_elements(self, shape: Shape, value: list[Any], depth: int) -> list[Any]:
        element = shape.element or Shape()
        if not value or self.happens(0.3):
            # One that is there already may be as good as another.
            more = self.chosen(value) if value and self.happens(0.5) else self.made(element, depth + 1)
            return [*value, more]
        place = self.chosen(range(len(value)))
        if self.happens(0.3):
            return value[:place] + value[place + 1 :]
        return [*value[:place], self.changed(element, value[place], depth + 1), *value[place + 1 :]]

    def _key(self, shape: Shape) -> str:
        element = shape.element
        return str(self.chosen(_TEXTS) if element is None else self.made(element, _DEEPEST))

    def _length(self, shape: Shape) -> int:
        compared = () if shape.count is None else shape.count.found().plain.values()
        sizes = [
            size for n in compared if type(n) is int for size in (n, n + 1) if 0 <= size <= _MOST_ELEMENTS
        ]
        return int(self.chosen(sizes if sizes and self.happens(0.2) else _LENGTHS))

    def _scalars(self, shape: Shape) -> Iterator[Any]:
        if "time" in shape.kinds:
            yield from self._written_times(shape.endings)
            return
        plain = list(shape.plain.values())
        numbers = [value for value in plain if isinstance(value, int | float) and not isinstance(value, bool)]
        yield from plain
        yield from (number + more for number in numbers for more in (-1, 1))
        if "number" in shape.kinds or numbers:
            yield from _NUMBERS
        elif "truth" in shape.kinds or any(isinstance(value, bool) for value in plain):
            yield from (True, False)
        else:
            yield from _TEXTS

    def _written_times(self, endings: Iterable[str]) -> Iterator[str]:
        """Write times so that they are whole with what a condition writes behind them."""
        for at in self._times:
            day = datetime.fromtimestamp(at, UTC)
            texts = [day.strftime(form) for form in ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT00:00:00Z")]
            fitting = [text.removesuffix(end) for end in endings for text in texts if text.endswith(end)]
            yield from fitting[:1] if endings else texts[:1]
