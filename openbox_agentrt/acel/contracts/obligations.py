"""Contracts about what has to come after a call, or before the session ends."""

from __future__ import annotations

from typing import Unpack

from ..match.matchers import ToolMatcher
from ..match.selector import Selector, select
from .checks import check_count
from .declaration import Role
from .options import Options
from .rules import MAX_IN_WINDOW, NOTHING, Guard, Move, Rule
from .template import Template


class Response(Template):
    """
    Every call of `a` is followed by a successful call of `b`: within `within` seconds, or by the end.

    No call is refused for it. What is overdue is reported when the next `a` or `b` comes, or at the end.
    A call of `a` that ran and failed is owed a `b` too, since its effect is unknown.
    """

    template = "response"
    local_because = "its end is that of one session"

    def __init__(self, a: ToolMatcher, b: ToolMatcher, **options: Unpack[Options]) -> None:
        first, then = select(a), select(b)
        super().__init__([first.label, then.label], options)
        self.a = a
        self.b = b
        self.roles = (Role(selector=first, strict=True), Role(selector=then, strict=False))
        owed = self.cell("pending", first, then)
        self._open = Move(cell=owed, role="open")
        self._close = Move(cell=owed, role="close", strict=False)
        self._overdue = (Guard(kind="overdue", cell=owed, needs=then.label),) if self.within else ()
        self.at_end = (Guard(kind="settled", cell=owed, needs=then.label),)

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        # A call that is both answers what came before it, and is itself to be answered.
        moves = (self._open,) * hits[0] + (self._close,) * hits[1]
        return Rule(guards=self._overdue, moves=moves) if moves else NOTHING


class _AtTheEnd(Template):
    """Calls of which there have to be so many when the session ends."""

    local_because = "its end is that of one session"
    asked_at_end = True

    def _require(self, what: Selector, n: int, needs: str) -> None:
        self.roles = (Role(selector=what, strict=False),)
        if self.within is None:
            seen = self.cell("tally", what, strict=False)
        else:
            seen = self.cell("marks", what, strict=False, lasting=self.key is not None)
        self._rule = Rule(moves=(Move(cell=seen, strict=False),))
        need = Guard(kind="need", cell=seen, n=n, needs=needs)
        self.at_end = (need,)
        self.goal = need if self.key is None and self.within is None else None


class Existence(_AtTheEnd):
    """At least `n` successful calls of `a` before the session ends."""

    template = "existence"

    def __init__(self, a: ToolMatcher, n: int = 1, **options: Unpack[Options]) -> None:
        what = select(a)
        check_count("n", n, least=1, most=None if options.get("within") is None else MAX_IN_WINDOW)
        super().__init__([what.label, f"n={n}"], options)
        self.a = a
        self.n = n
        self._require(what, n, f"{what.label}, {n} in all")


class RequiredBeforeSessionEnd(_AtTheEnd):
    """
    At least one successful call of `tool` before the session ends.

    With `key`, one for every value that a call of `tool` was tried with.
    """

    template = "required_before_session_end"

    def __init__(self, tool: ToolMatcher, **options: Unpack[Options]) -> None:
        what = select(tool)
        super().__init__([what.label], options)
        self.tool = tool
        self._require(what, 1, what.label)


# The names that contracts are written with.
existence = Existence
required_before_session_end = RequiredBeforeSessionEnd


def response(a: ToolMatcher, b: ToolMatcher, *seconds: float | None, **options: Unpack[Options]) -> Response:
    """
    Every call of `a` is followed by a successful call of `b`, in time or by the session's end.

    The option `within` may be given by position: ``response(a, b, 60)``.
    """
    if len(seconds) > 1 or (seconds and "within" in options):
        raise TypeError("response takes two tools and within=")
    if seconds:
        options["within"] = seconds[0]
    return Response(a, b, **options)
