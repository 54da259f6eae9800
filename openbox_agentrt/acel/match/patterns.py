"""Patterns: compiled for RE2, which searches in time that is linear in the text."""

from __future__ import annotations

from ..wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ("PatternError", "compile_pattern")


class PatternError(ValueError):
    """A pattern that cannot be searched for in linear time, or is no pattern at all."""

    def __init__(self, pattern: str, problem: str) -> None:
        self.pattern = pattern
        self.problem = problem
        super().__init__(f"pattern {pattern!r} cannot be compiled: {problem}")

    def __reduce__(self) -> tuple[object, ...]:
        return PatternError, (self.pattern, self.problem)


def compile_pattern(pattern: str) -> Any:
    """
    Compile a pattern. Upper and lower case are the same.

    Raises:
        PatternError: RE2 does not know it.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"a pattern must be text, got {shown(pattern)}")
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        raise PatternError(pattern, _text(error)) from None


def _text(error: Exception) -> str:
    problem = error.args[0] if error.args else error
    return problem.decode("utf-8", "replace") if isinstance(problem, bytes) else str(problem)
