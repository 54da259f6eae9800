"""Say what is wrong with a rules file, and where."""

from __future__ import annotations

from ..._picklable import PicklableError


class ConfigError(PicklableError):
    """
    A rules file is missing, cannot be read, or says something that is not understood. No contract was built.

    Attributes:
        problem: What is wrong, in one line.
        path: The file, or None for rules that came from elsewhere.
        line: The line, counted from 1, or None if it is not known.
        where: The place in the rules, e.g. ``contracts[2]``, or None.
    """

    def __init__(
        self,
        problem: str,
        *,
        path: str | None = None,
        line: int | None = None,
        where: str | None = None,
    ) -> None:
        self.problem = problem
        self.path = path
        self.line = line
        self.where = where
        place = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(": ".join(part for part in (place, where, problem) if part))
