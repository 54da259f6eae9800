"""Patterns: compiled for RE2, which searches in time that is linear in the text."""

from __future__ import annotations

import re

from ..._picklable import PicklableError
from ..wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


# So few texts are as quick one by one.
_FEW = 2
# What means something else, or cannot be told to mean the same, in a text of several lines.
_NOT_BY_LINE = ("\\A", "\\z", "\\Z", "\\Q", "(?")

# Letters, digits and marks that mean themselves, or do so behind a backslash.
_PLAIN = re.compile(
    r"(?P<starts>\^?)(?P<word>(?:[\w ,:;<=>@#%&~`'\"/!-]|\\[.^$|?*+()\[\]{}/@-])+)(?P<ends>\$?)", re.ASCII
)


class PatternError(PicklableError, ValueError):
    """A pattern that cannot be searched for in linear time, or is no pattern at all."""

    def __init__(self, pattern: str, problem: str) -> None:
        self.pattern = pattern
        self.problem = problem
        super().__init__(f"pattern {pattern!r} cannot be compiled: {problem}")


_accepted: set[str] = set()


def compile_later(patterns: Iterable[str]) -> None:
    """
    Compile these patterns when they are first searched for, and not when they are made.

    Args:
        patterns: Patterns that RE2 has accepted before, such as those of rules that are kept as they were
            understood. One that it does not accept after all is a fault of each search, and no error before.
    """
    _accepted.update(patterns)


def compile_pattern(pattern: str) -> Any:
    """
    Compile a pattern with RE2. Upper and lower case are the same.

    Raises:
        PatternError: RE2 does not know it.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"a pattern must be text, got {shown(pattern)}")
    import re2

    try:
        return re2.compile(pattern, _options())
    except (re2.error, UnicodeError) as error:
        raise PatternError(pattern, _text(error)) from None


def compile_search(pattern: str) -> Callable[[str], Any]:
    """
    Compile a pattern to what says of a text whether it is in it: something if it is, and else None.

    One of plain letters is looked for by Python in text that is ASCII, where RE2 could find nothing else: to
    call RE2 takes many times as long as to search a short text.

    Raises:
        PatternError: RE2 does not know it.
    """
    import re2

    # A set of one says whether, and not where, which takes a fifth of the time.
    patterns = re2.Set.SearchSet(_options())
    search: Callable[[str], Any] = patterns.Match
    try:
        patterns.Add(pattern)
        patterns.Compile()
    except (re2.error, UnicodeError, TypeError):
        # A set does not say why; and a few patterns are too large for one, and not for a search.
        search = compile_pattern(pattern).search
    plain = _PLAIN.fullmatch(pattern)
    return search if plain is None else _search_plain(plain, search)


def _search_plain(plain: re.Match[str], search: Callable[[str], Any]) -> Callable[[str], Any]:
    """Search for a word, at the start or the end of a text where that is said; in some texts by `search`."""
    starts, word, ends = plain["starts"], plain["word"].replace("\\", "").lower(), plain["ends"]

    def is_in(text: str) -> Any:
        if not text.isascii():
            # Letters that are not ASCII may stand for one that is: K, the sign of Kelvin, for k.
            return search(text)
        text = text.lower()
        if starts:
            found = text == word if ends else text.startswith(word)
        else:
            found = text.endswith(word) if ends else word in text
        return found or None

    return is_in


def _options() -> Any:
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    return options


class Searcher:
    """
    Search for a pattern in one text, or in many at once.

    Attributes:
        search: Searches one text, and gives None if the pattern is not in it.
    """

    __slots__ = ("_by_line", "_pattern", "search")

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._by_line: Any = None
        if pattern not in _accepted:
            self.search = compile_search(pattern)

    def __getattr__(self, name: str) -> Any:
        # Asked for what is not there yet only, so a search pays nothing for it.
        if name != "search":
            raise AttributeError(f"a searcher has no {name!r}")
        self.search = compile_search(self._pattern)
        return self.search

    def finds(self, texts: Iterable[str]) -> bool:
        """
        Tell whether the pattern is in one of the texts. What getting them raises is raised only if it is not.

        A call into RE2 costs more than a short text does. So those of one line are searched together first:
        where that finds nothing, none of them has it, since an anchor holds at the ends of a line as at those
        of a text.
        """
        single: list[str] = []
        several: list[str] = []
        missed: Exception | None = None
        try:
            for text in texts:
                (several if "\n" in text else single).append(text)
        except ValueError as error:
            missed = error
        if any(self.search(text) is not None for text in several) or self._in_one_of(single):
            return True
        if missed is not None:
            try:
                raise missed
            finally:
                # Else it and this frame keep each other, and with them a call that nobody holds any more.
                missed = None
        return False

    def is_in_each(self, texts: Iterable[str | None]) -> bool:
        """Tell whether there are texts, and the pattern is in each of them. None is no text that it is in."""
        some = False
        for text in texts:
            if text is None or self.search(text) is None:
                return False
            some = True
        return some

    def _in_one_of(self, lines: list[str]) -> bool:
        if len(lines) > _FEW and not any(mark in self._pattern for mark in _NOT_BY_LINE):
            if self._by_line is None:
                self._by_line = compile_search(f"(?m:{self._pattern})")
            if self._by_line("\n".join(lines)) is None:
                return False
        return any(self.search(line) is not None for line in lines)


def _text(error: Exception) -> str:
    problem = error.args[0] if error.args else error
    return problem.decode("utf-8", "replace") if isinstance(problem, bytes) else str(problem)
