"""
The eight templates of acel-core.

``a``, ``b`` and ``tool`` are matchers: see `matchers`. What *allows* another call counts once it has
succeeded; what *limits* or *excludes* counts from the moment a call is let through, so that calls
that run side by side cannot pass a limit together.

=============================================  ===================================================
``must_precede(a, b)``                         every ``b`` comes after some ``a``
``at_most_n_times(tool, n)``                   at most ``n`` calls
``at_most_total(tool, field, limit)``          ``field`` of all calls adds up to at most ``limit``
``never_after(a, b)``                          no ``a`` once there was a ``b``
``required_before_session_end(tool)``          at least one call before the session ends
``cannot_follow_without(action, needed)``      no ``action`` without an earlier ``needed``
``mutually_exclusive(a, b)``                   not both
``rate_limit(tool, n, window_seconds)``        at most ``n`` calls in any such window
=============================================  ===================================================
"""

from __future__ import annotations

from typing import Any, Unpack

from ..match.amounts import Amount, AmountError, read_amount
from ..match.matchers import ToolMatcher
from ..match.paths import FieldPath
from ..match.selector import Selector, select
from ..memory.clock import Clock
from ..wording import shown
from .base import TemporalContract
from .rules import NOTHING, CellKind, Guard, Move, Rule
from .template import Options, Role, Template, check_count, check_seconds

# A window never remembers more calls than this; a larger limit could not be told from none.
MAX_IN_WINDOW = 10_000


class _Precedence(Template):
    """`then` only after a successful `first`. A call that is both is fine, as with acel-core."""

    def __init__(self, first: Selector, then: Selector, written: list[str], options: Options) -> None:
        super().__init__(written, options)
        self.roles = (Role(selector=first, strict=False), Role(selector=then, strict=True))
        seen = self.cell("tally" if self.within is None else "marks", first)
        need = Guard(kind="need", cell=seen, needs=first.label)
        self._first = Rule(moves=(Move(cell=seen, strict=False),))
        self._then = Rule(guards=(need,))
        if self.key is None and self.within is None:
            self.goal = need

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        if hits[0]:
            return self._first
        return self._then if hits[1] else NOTHING


class MustPrecede(_Precedence):
    """Every call of `later` comes after a successful call of `earlier`."""

    template = "must_precede"

    def __init__(self, earlier: ToolMatcher, later: ToolMatcher, **options: Unpack[Options]) -> None:
        first, then = select(earlier), select(later)
        super().__init__(first, then, [first.label, then.label], options)
        self.earlier = earlier
        self.later = later


class CannotFollowWithout(_Precedence):
    """No call of `action` without an earlier, successful call of `prerequisite`."""

    template = "cannot_follow_without"

    def __init__(self, action: ToolMatcher, prerequisite: ToolMatcher, **options: Unpack[Options]) -> None:
        first, then = select(prerequisite), select(action)
        super().__init__(first, then, [then.label, first.label], options)
        self.action = action
        self.prerequisite = prerequisite


class AtMostNTimes(Template):
    """At most `n` calls of `tool`: in the session, or in any window of `within` seconds."""

    template = "at_most_n_times"

    def __init__(
        self, tool: ToolMatcher, n: int, *, refund_on_failure: bool = False, **options: Unpack[Options]
    ) -> None:
        what = select(tool)
        windowed = options.get("within") is not None
        check_count("n", n, least=0, most=MAX_IN_WINDOW if windowed else None)
        super().__init__([what.label, f"n={n}", *_refund(refund_on_failure)], options)
        self.tool = tool
        self.n = n
        self.roles = (Role(selector=what, strict=True),)
        self._count = self.cell("stamps" if windowed else "tally", what, refund=refund_on_failure)
        self._cap = Guard(kind="cap", cell=self._count, n=n)

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return Rule(guards=(self._cap,), moves=(Move(cell=self._count),)) if hits[0] else NOTHING


class RateLimit(Template):
    """
    At most `n` calls of `tool` in any window of `window_seconds`.

    A call that is exactly `window_seconds` old still counts. A refused call does not.
    """

    template = "rate_limit"

    def __init__(
        self,
        tool: ToolMatcher,
        n: int,
        window_seconds: float,
        *,
        clock: Clock | None = None,
        refund_on_failure: bool = False,
        **options: Unpack[Options],
    ) -> None:
        what = select(tool)
        check_count("n", n, least=1, most=MAX_IN_WINDOW)
        check_seconds("window_seconds", window_seconds)
        if options.get("within") is not None:
            raise TypeError("rate_limit has no option 'within', its window is window_seconds")
        super().__init__([what.label, f"{n} per {window_seconds}s", *_refund(refund_on_failure)], options)
        self.tool = tool
        self.n = n
        self.window_seconds = window_seconds
        self.roles = (Role(selector=what, strict=True),)
        self._count = self.cell(
            "stamps", what, within=float(window_seconds), refund=refund_on_failure, clock=clock
        )
        self._cap = Guard(kind="cap", cell=self._count, n=n)

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return Rule(guards=(self._cap,), moves=(Move(cell=self._count),)) if hits[0] else NOTHING


class CumulativeLimit(Template):
    """
    The argument `field` of all calls of `tool` adds up to at most `limit`.

    Amounts are exact. A call whose amount is missing, no number, not finite, a boolean, or negative
    breaks the contract: an amount that cannot be read is not let through. `numeric_text` reads text as
    a number, `allow_negative` lets an amount give something back.
    """

    template = "at_most_total"

    def __init__(
        self,
        tool: ToolMatcher,
        field: str,
        limit: Any,
        *,
        numeric_text: bool = False,
        allow_negative: bool = False,
        refund_on_failure: bool = False,
        **options: Unpack[Options],
    ) -> None:
        what = select(tool)
        FieldPath(field)
        parts = [what.label, field, f"limit={limit}"]
        parts += ["numeric_text=True"] * numeric_text + ["allow_negative=True"] * allow_negative
        super().__init__([*parts, *_refund(refund_on_failure)], options)
        self.tool = tool
        self.field = field
        self.limit = limit
        self.roles = (Role(selector=what, strict=True),)
        self._sum = self.cell(
            "sum", what, field=field, refund=refund_on_failure, text=numeric_text, negative=allow_negative
        )
        self._spend = Guard(kind="spend", cell=self._sum, n=_limit(limit))

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return Rule(guards=(self._spend,), moves=(Move(cell=self._sum),)) if hits[0] else NOTHING


class NeverAfter(Template):
    """No call of `a` once a call of `b` was let through."""

    template = "never_after"

    def __init__(self, a: ToolMatcher, b: ToolMatcher, **options: Unpack[Options]) -> None:
        banned, marker = select(a), select(b)
        super().__init__([banned.label, marker.label], options)
        self.a = a
        self.b = b
        self.roles = (Role(selector=banned, strict=True), Role(selector=marker, strict=True))
        self._passed = self.cell("tally" if self.within is None else "stamps", marker)
        self._move = Move(cell=self._passed)
        self._ban = Guard(kind="ban", cell=self._passed, needs=f"no earlier {marker.label}")
        self._self = Guard(kind="never", needs=f"a call that is not {marker.label} as well")

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        # A call that is both comes after itself, as with acel-core.
        if hits[1]:
            return Rule(guards=(self._self,) if hits[0] else (), moves=(self._move,))
        return Rule(guards=(self._ban,)) if hits[0] else NOTHING


class MutuallyExclusive(Template):
    """Not both a call of `a` and a call of `b`."""

    template = "mutually_exclusive"

    def __init__(self, a: ToolMatcher, b: ToolMatcher, **options: Unpack[Options]) -> None:
        left, right = select(a), select(b)
        super().__init__([left.label, right.label], options)
        self.a = a
        self.b = b
        self.roles = (Role(selector=left, strict=True), Role(selector=right, strict=True))
        kind: CellKind = "tally" if self.within is None else "stamps"
        self._left = self.cell(kind, left)
        # A call that is both counts as `a` only, so the memory of `b` is shared with other contracts
        # over `b` only where no call can be both.
        apart = left.names is not None and right.names is not None and not left.names & right.names
        self._right = self.cell(kind, right) if apart else self.cell(kind, right, left)
        self._no_left = Guard(kind="ban", cell=self._left, needs=f"no earlier {left.label}")
        self._no_right = Guard(kind="ban", cell=self._right, needs=f"no earlier {right.label}")

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        if hits[0]:
            return Rule(guards=(self._no_right,), moves=(Move(cell=self._left),))
        return Rule(guards=(self._no_left,), moves=(Move(cell=self._right),)) if hits[1] else NOTHING


class RequiredBeforeSessionEnd(Template):
    """
    At least one successful call of `tool` before the session ends.

    With `key`, one for every value that a call of `tool` was tried with.
    """

    template = "required_before_session_end"

    def __init__(self, tool: ToolMatcher, **options: Unpack[Options]) -> None:
        what = select(tool)
        super().__init__([what.label], options)
        self.tool = tool
        self.roles = (Role(selector=what, strict=False),)
        if self.within is None:
            self._seen = self.cell("tally", what)
        else:
            self._seen = self.cell("marks", what, lasting=self.key is not None)
        need = Guard(kind="need", cell=self._seen, needs=what.label)
        self.at_end = (need,)
        if self.key is None and self.within is None:
            self.goal = need

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return Rule(moves=(Move(cell=self._seen, strict=False),)) if hits[0] else NOTHING


# The names that contracts are written with.
must_precede = MustPrecede
at_most_n_times = AtMostNTimes
at_most_total = CumulativeLimit
never_after = NeverAfter
required_before_session_end = RequiredBeforeSessionEnd
cannot_follow_without = CannotFollowWithout
mutually_exclusive = MutuallyExclusive
rate_limit = RateLimit


def _refund(on: bool) -> list[str]:
    return ["refund_on_failure=True"] if on else []


def _limit(limit: Any) -> Amount:
    try:
        return read_amount(limit)
    except AmountError as error:
        problem = "must be non-negative" if str(error) == "is negative" else str(error)
        raise ValueError(f"limit {problem}, got {shown(limit)}") from None


__all__ = (
    "AtMostNTimes",
    "CannotFollowWithout",
    "CumulativeLimit",
    "MustPrecede",
    "MutuallyExclusive",
    "NeverAfter",
    "RateLimit",
    "RequiredBeforeSessionEnd",
    "TemporalContract",
    "ToolMatcher",
    "at_most_n_times",
    "at_most_total",
    "cannot_follow_without",
    "must_precede",
    "mutually_exclusive",
    "never_after",
    "rate_limit",
    "required_before_session_end",
)
