"""
Counters with a bound on their series.

What a model or an attacker names ends in one series called ``(other)``, however much of it there is.
"""

from __future__ import annotations

import threading

from ..evidence.redaction import Redactor

__all__ = ("MAX_SERIES", "OTHER", "BoundedCounter")

OTHER = "(other)"
"""Value of every label of the series that holds what did not fit."""

MAX_SERIES = 1000
_MAX_LABEL = 200


class BoundedCounter:
    """
    A counter with labels and a bound on its series.

    Args:
        name: Name in Prometheus, without ``_total``.
        help: What is counted.
        labels: Names of the labels.
        lock: Guards the numbers.
        redactor: Hides secrets in the values of labels.
        max_series: How many series there may be. Values beyond go to `OTHER`.
    """

    __slots__ = ("_lock", "_max_series", "_redactor", "_series", "help", "labels", "name")

    def __init__(
        self,
        name: str,
        help: str,
        labels: tuple[str, ...],
        *,
        lock: threading.Lock,
        redactor: Redactor | None = None,
        max_series: int = MAX_SERIES,
    ) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self._lock = lock
        self._redactor = redactor
        self._max_series = max_series
        self._series: dict[tuple[str, ...], int] = {} if labels else {(): 0}

    def add(self, *values: str, by: int = 1) -> None:
        """
        Count.

        Args:
            values: One value per label.
            by: How much to add.

        Raises:
            ValueError: If there are more or fewer values than labels, or `by` is negative.
        """
        if len(values) != len(self.labels) or by < 0:
            raise ValueError(f"{self.name} takes the labels {self.labels}, got {values!r:.200} and {by!r}")
        with self._lock:
            if values not in self._series:
                values = self._admitted(values)
            self._series[values] = self._series.get(values, 0) + by

    def snapshot(self) -> dict[tuple[str, ...], int]:
        """The numbers by values of the labels."""
        with self._lock:
            return dict(self._series)

    def _admitted(self, values: tuple[str, ...]) -> tuple[str, ...]:
        cleaned = tuple(self._cleaned(value) for value in values)
        if cleaned in self._series or len(self._series) < self._max_series:
            return cleaned
        return (OTHER,) * len(values)

    def _cleaned(self, value: str) -> str:
        text = value if self._redactor is None else self._redactor.redact_text(value)
        return text[:_MAX_LABEL].encode("utf-8", "backslashreplace").decode()
