"""The contract about what the session's state says."""

from __future__ import annotations

import math
from typing import Any, Unpack

from ..match.matchers import ToolMatcher
from ..match.selector import select
from ..wording import shown
from .declaration import Role
from .options import Options
from .rules import Guard, Rule
from .template import Template

Scalar = str | int | float | bool | None


class RequiresState(Template):
    """
    `tool` is allowed only while the state entry `state_key` is `value`.

    With `key`, the entry is a mapping and the argument's value says which of its entries is meant. With
    `within`, the entry must have been written in the last so many seconds.
    """

    template = "requires_state"
    local_because = "the state is that of one session"

    def __init__(self, tool: ToolMatcher, state_key: str, value: Scalar, **options: Unpack[Options]) -> None:
        what = select(tool)
        _check_entry(state_key, value)
        super().__init__([what.label, state_key, repr(value)], options)
        self.tool = tool
        self.state_key = state_key
        self.keeps_times = self.within is not None
        self.value = value
        if self.key is not None and not isinstance(self.key, str):
            raise ValueError("requires_state takes one argument as its key")
        self.roles = (Role(selector=what, strict=True),)
        entry = Guard(
            kind="state",
            entry=state_key,
            value=value,
            key=self.split,
            within=self.within,
            needs=f"{state_key} to be {value!r}",
        )
        self._rule = Rule(guards=(entry,))


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
