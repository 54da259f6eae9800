"""Problems at one entry of a log, for both formats."""

from collections.abc import Iterable

from .report import Problem

NO_KEY = (
    "nothing was authenticated: no public key was given, and whoever can write a log can make it consistent"
)


class BadEntry(Exception):
    """An entry does not hold."""

    def __init__(self, problem: Problem, reason: str, *, at: int, file: str | None = None) -> None:
        self.problem: Problem = problem
        self.reason = reason
        self.at = at
        self.file = file
        super().__init__(reason)


def moved_or_missing(problem: Problem, wanted: int, later: Iterable[object]) -> Problem:
    """Call it reordered if the entry that is missing in its place stands further on."""
    return "reordered" if problem == "missing" and wanted in later else problem
