"""
More templates, named as in Declare where Declare has them.

================================================  =====================================================
``response(a, b, within=None)``                   every ``a`` is followed by a ``b``
``alternate_precedence(a, b)``                    each ``b`` uses up one ``a``
``chain_precedence(a, b)``                        ``a`` is the call immediately before each ``b``
``existence(a, n)``                               at least ``n`` calls before the session ends
``init(a)``                                       ``a`` comes before everything else
``max_distinct(tool, field, n)``                  at most ``n`` different values of an argument
``requires_state(tool, key, value)``              only while a state entry has that value
================================================  =====================================================
"""

from __future__ import annotations

import math
from typing import Any, Unpack

from ..match.matchers import ToolMatcher
from ..match.paths import FieldPath
from ..match.selector import select
from ..wording import shown
from .rules import NOTHING, Guard, Move, Rule
from .template import Options, Role, Template, check_count
from .temporal import MAX_IN_WINDOW

Scalar = str | int | float | bool | None


class Response(Template):
    """
    Every call of `a` is followed by a successful call of `b`: within `within` seconds, or by the end.

    No call is refused for it. What is overdue is reported when the next `a` or `b` comes, or at the end.
    A call of `a` that ran and failed is owed a `b` too, since its effect is unknown.
    """

    template = "response"

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


class AlternatePrecedence(Template):
    """
    Each call of `b` uses up one successful call of `a`.

    Two calls of `a` allow two of `b`. Declare's own reading, in which `a a` allows one `b`, is
    ``saving=False``.
    """

    template = "alternate_precedence"

    def __init__(
        self,
        a: ToolMatcher,
        b: ToolMatcher,
        *,
        saving: bool = True,
        refund_on_failure: bool = False,
        **options: Unpack[Options],
    ) -> None:
        first, then = select(a), select(b)
        parts = [first.label, then.label] + ["saving=False"] * (not saving)
        super().__init__([*parts, *["refund_on_failure=True"] * refund_on_failure], options)
        self.a = a
        self.b = b
        self.roles = (Role(selector=first, strict=False), Role(selector=then, strict=True))
        tokens = self.cell("tokens", first, then, saving=saving, refund=refund_on_failure)
        self._give = Move(cell=tokens, role="give", strict=False)
        self._take = Move(cell=tokens, role="take")
        self._token = Guard(kind="token", cell=tokens, needs=first.label)

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        moves = (self._take,) * hits[1] + (self._give,) * hits[0]
        return Rule(guards=(self._token,) * hits[1], moves=moves) if moves else NOTHING


class ChainPrecedence(Template):
    """
    The call immediately before each `b` is a successful `a`.

    Every call of the session is looked at; one that never ran was not there. With `key`, only calls
    with the same value are.
    """

    template = "chain_precedence"
    everywhere = True

    def __init__(self, a: ToolMatcher, b: ToolMatcher, **options: Unpack[Options]) -> None:
        first, then = select(a), select(b)
        super().__init__([first.label, then.label], options)
        self.a = a
        self.b = b
        self.roles = (Role(selector=first, strict=False), Role(selector=then, strict=True))
        latest = self.cell("latest", within=None)
        step = self.cell("step", first)
        self._look = Move(cell=latest, strict=False)
        self._mark = Move(cell=step, strict=False)
        self._next = Guard(kind="next", cell=step, other=latest, needs=f"{first.label} immediately before")

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        moves = (self._look, self._mark) if hits[0] else (self._look,)
        return Rule(guards=(self._next,) * hits[1], moves=moves)


class Existence(Template):
    """At least `n` successful calls of `a` before the session ends."""

    template = "existence"

    def __init__(self, a: ToolMatcher, n: int = 1, **options: Unpack[Options]) -> None:
        what = select(a)
        check_count("n", n, least=1, most=None if options.get("within") is None else MAX_IN_WINDOW)
        super().__init__([what.label, f"n={n}"], options)
        self.a = a
        self.n = n
        self.roles = (Role(selector=what, strict=False),)
        if self.within is None:
            seen = self.cell("tally", what)
        else:
            seen = self.cell("marks", what, lasting=self.key is not None)
        self._move = Move(cell=seen, strict=False)
        need = Guard(kind="need", cell=seen, n=n, needs=f"{what.label}, {n} in all")
        self.at_end = (need,)
        if self.key is None and self.within is None:
            self.goal = need

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return Rule(moves=(self._move,)) if hits[0] else NOTHING


class Init(Template):
    """
    Nothing but `a` until `a` has succeeded.

    It is about every call of the session. In a governed run the first event is ``run_started``.
    """

    template = "init"
    everywhere = True

    def __init__(self, a: ToolMatcher, **options: Unpack[Options]) -> None:
        what = select(a)
        super().__init__([what.label], options)
        self.a = a
        self.roles = (Role(selector=what, strict=False),)
        seen = self.cell("tally" if self.within is None else "marks", what)
        self._move = Move(cell=seen, strict=False)
        self._need = Guard(kind="need", cell=seen, needs=what.label)
        if self.key is None and self.within is None:
            self.goal = self._need

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return Rule(moves=(self._move,)) if hits[0] else Rule(guards=(self._need,))


class MaxDistinct(Template):
    """
    At most `n` different values of the argument `field` over all calls of `tool`.

    Each element of a list counts. The number 42 and the text "42" are one value.
    """

    template = "max_distinct"

    def __init__(
        self,
        tool: ToolMatcher,
        field: str,
        n: int,
        *,
        refund_on_failure: bool = False,
        **options: Unpack[Options],
    ) -> None:
        what = select(tool)
        FieldPath(field)
        check_count("n", n, least=0, most=MAX_IN_WINDOW)
        parts = [what.label, field, f"n={n}", *["refund_on_failure=True"] * refund_on_failure]
        super().__init__(parts, options)
        self.tool = tool
        self.field = field
        self.n = n
        self.roles = (Role(selector=what, strict=True),)
        values = self.cell("distinct", what, field=field, refund=refund_on_failure)
        self._rule = Rule(guards=(Guard(kind="distinct", cell=values, n=n),), moves=(Move(cell=values),))

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return self._rule if hits[0] else NOTHING


class RequiresState(Template):
    """
    `tool` is allowed only while the state entry `state_key` is `value`.

    With `key`, the entry is a mapping and the argument's value says which of its entries is meant. With
    `within`, the entry must have been written in the last so many seconds.
    """

    template = "requires_state"

    def __init__(self, tool: ToolMatcher, state_key: str, value: Scalar, **options: Unpack[Options]) -> None:
        what = select(tool)
        _check_entry(state_key, value)
        super().__init__([what.label, state_key, repr(value)], options)
        self.tool = tool
        self.state_key = state_key
        self.keeps_times = self.within is not None
        self.value = value
        self.roles = (Role(selector=what, strict=True),)
        entry = Guard(
            kind="state",
            entry=state_key,
            value=value,
            key=self.key,
            within=self.within,
            needs=f"{state_key} to be {value!r}",
        )
        self._rule = Rule(guards=(entry,))

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return self._rule if hits[0] else NOTHING


# The names that contracts are written with.
alternate_precedence = AlternatePrecedence
chain_precedence = ChainPrecedence
existence = Existence
init = Init
max_distinct = MaxDistinct


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


def requires_state(tool: ToolMatcher, *entry: Any, **options: Any) -> RequiresState:
    """
    `tool` is allowed only while a state entry has a value.

    Written ``requires_state(tool, key, value)`` or ``requires_state(tool, key=..., value=...)``. Where
    the entry's key is given by position, `key` is the option that every template has.
    """
    names = ("state_key", "value")[: len(entry)]
    if len(entry) > len(names):
        raise TypeError(f"requires_state takes a tool, a key and a value, got {len(entry) + 1} arguments")
    given = dict(zip(names, entry, strict=True))
    if "state_key" not in given and "state_key" not in options and "key" in options:
        given["state_key"] = options.pop("key")
    return RequiresState(tool, **given, **options)


def _check_entry(key: object, value: object) -> None:
    if not isinstance(key, str) or not key:
        raise TypeError(f"the key of a state entry must be text, got {shown(key)}")
    if not isinstance(value, (str, int, float, bool, type(None))):
        raise TypeError(
            f"the value of a state entry must be text, a number, a boolean or None, got {shown(value)}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"the value of a state entry must be finite, got {value!r}")
