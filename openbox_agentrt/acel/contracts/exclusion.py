"""
Contracts about calls that must not be, or that keep each other out.

What excludes counts from the moment a call is let through.
"""

from __future__ import annotations

from typing import Unpack

from ..events import LIFECYCLE
from ..match.matchers import AnyOf, ToolMatcher, any_of, label
from ..match.selector import select
from .declaration import Role
from .options import Options
from .rules import NOTHING, CellKind, Guard, Move, Rule
from .template import Template


class Never(Template):
    """No call of `tool`."""

    template = "never"
    local_because = "it remembers nothing"
    without = frozenset({"key", "fold", "within", "recheck"})

    def __init__(self, tool: ToolMatcher, **options: Unpack[Options]) -> None:
        what = select(tool)
        super().__init__([what.label], options)
        self.tool = tool
        self.roles = (Role(selector=what, strict=True),)
        self._rule = Rule(guards=(Guard(kind="never"),))


class Only(Template):
    """
    No call but those of `tools`. In a governed run, the events that are no tools are always allowed.

    It is about every call of the session, and admits no tool whose name merely looks like one of these.
    """

    template = "only"
    local_because = "it remembers nothing"
    everywhere = True
    without = frozenset({"key", "fold", "except_", "within", "recheck"})

    def __init__(self, tools: ToolMatcher, **options: Unpack[Options]) -> None:
        what = select(tools)
        listed = list(map(label, tools.matchers)) if isinstance(tools, AnyOf) else [what.label]
        super().__init__(listed, options)
        self.tools = tools
        # Of a call that cannot be told to be one of these, nobody knows that it is.
        self.roles = (
            Role(selector=what, strict=False),
            Role(selector=select(any_of(*LIFECYCLE)), strict=False),
        )
        self._rule = Rule(guards=(Guard(kind="never", needs=f"one of {', '.join(listed)}"),))

    def names_event(self, event: str) -> bool:
        # Those that are always allowed are named by nobody.
        return event in (self.roles[0].selector.names or ())

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return NOTHING if any(hits) else self._rule


class NeverAfter(Template):
    """
    No call of `a` once a call of `b` was let through.

    What is excepted may come after `b`, and is a call of `b` all the same if it is one: nothing after
    ``hand_over`` but ``log_out`` is ``never_after("*", "hand_over", except_=["hand_over", "log_out"])``.
    """

    template = "never_after"
    local_because = None
    excepts_roles = 1

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

    def rule_for(self, hits: tuple[bool, ...]) -> Rule:
        if self.excepted is not None and hits[-1]:
            return self.rule((False, hits[1]))
        return super().rule_for(hits)

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        # A call that is both comes after itself, as with acel-core.
        if hits[1]:
            return Rule(guards=(self._self,) if hits[0] else (), moves=(self._move,))
        return Rule(guards=(self._ban,)) if hits[0] else NOTHING


class MutuallyExclusive(Template):
    """
    Not both a call of `a` and a call of `b`.

    A call that is both breaks it. Only where both are the very same does nothing, as with acel-core.
    """

    template = "mutually_exclusive"
    local_because = None

    def __init__(self, a: ToolMatcher, b: ToolMatcher, **options: Unpack[Options]) -> None:
        left, right = select(a), select(b)
        super().__init__([left.label, right.label], options)
        self.a = a
        self.b = b
        self.roles = (Role(selector=left, strict=True), Role(selector=right, strict=True))
        kind: CellKind = "tally" if self.within is None else "stamps"
        self._left = self.cell(kind, left)
        self._right = self.cell(kind, right)
        no_left = Guard(kind="ban", cell=self._left, needs=f"no earlier {left.label}")
        no_right = Guard(kind="ban", cell=self._right, needs=f"no earlier {right.label}")
        both = Guard(kind="never", needs=f"a call that is not {right.label} as well")
        moves = Move(cell=self._left), Move(cell=self._right)
        self._rules = {
            (True, False): Rule(guards=(no_right,), moves=moves[:1]),
            (False, True): Rule(guards=(no_left,), moves=moves[1:]),
            (True, True): NOTHING if left.identity == right.identity else Rule(guards=(both,), moves=moves),
        }

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return self._rules.get((hits[0], hits[1]), NOTHING)


# The names that contracts are written with.
never = Never
only = Only
never_after = NeverAfter
mutually_exclusive = MutuallyExclusive
