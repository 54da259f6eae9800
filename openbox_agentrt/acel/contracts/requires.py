"""The contract about what has to hold when a call is made."""

from __future__ import annotations

from typing import Unpack

from ..condition.condition import Condition
from ..match.matchers import ToolMatcher
from ..match.selector import select
from .declaration import Role
from .options import Options
from .rules import Guard, Rule
from .template import Template


class Requires(Template):
    """
    `tool` is allowed only while the condition `check` holds.

    A condition that cannot be evaluated does not hold: an argument is missing or of another type, a number
    is out of range, or no call has told a fact.
    """

    template = "requires"
    without = frozenset({"key", "fold", "within"})

    def __init__(self, tool: ToolMatcher, check: str, **options: Unpack[Options]) -> None:
        what = select(tool)
        condition = Condition(check, options.get("facts") or ())
        super().__init__([what.label, condition.text], options, condition)
        self.tool = tool
        self.check = condition.form
        self.roles = (Role(selector=what, strict=True),)
        self._rule = Rule(guards=(Guard(kind="condition", condition=condition),))


# The name that contracts are written with.
requires = Requires
