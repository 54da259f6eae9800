"""
Say how far a contract reaches: over one run, one session, or all that share a store, and how long.

A contract of the fleet is one number for many processes, so what it counts needs a name that is the same in
all of them, and an end: a limit that never starts anew is seldom meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from ..._plain.calendar import Per
from ..._values import dataclass
from ..wording import shown
from .checks import flag, one_of

Scope: TypeAlias = Literal["run", "session", "fleet"]

_FLEET_ONLY = ("forever", "overshoot", "name")
SHORTEST_WINDOW, LONGEST_WINDOW = 0.001, 9e9
"""Seconds of a window that a store counts exactly: its microseconds are below 2^53."""

_NAME = r"[\w.:-]{1,64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """
    Say over which calls a contract holds.

    Attributes:
        scope: Whose calls it counts together; None for what whoever judges takes by default.
        per: The calendar period after which it counts anew.
        tz: The time zone of the period.
        forever: Whether it is meant that it never counts anew.
        overshoot: Whether amounts that are known only afterwards may pass the limit while they are under way.
        name: Names what it counts, where only code says which calls those are.
    """

    scope: Scope | None = None
    per: Per | None = None
    tz: str = "UTC"
    forever: bool = False
    overshoot: bool = False
    name: str | None = None

    @property
    def is_fleet(self) -> bool:
        """Tell whether its memory is that of a shared store."""
        return self.scope == "fleet"

    def parts(self) -> list[str]:
        """Write what is not the default, for the text of a contract."""
        return [f"{name}={value}" for name, value in self.said().items()]

    def said(self) -> dict[str, Any]:
        """Give what is not the default, by the names of the options."""
        said: dict[str, Any] = {} if self.scope is None else {"scope": self.scope}
        if self.per is not None:
            said |= {"per": self.per} | ({} if self.tz == "UTC" else {"tz": self.tz})
        said |= {name: True for name in ("forever", "overshoot") if getattr(self, name)}
        return said if self.name is None else {**said, "name": self.name}


_OPTIONS = ("scope", "per", "tz", "forever", "overshoot", "name")
_DEFAULT = Reach()
"""One for all contracts that say nothing of it."""


def read_reach(
    template: str, options: Mapping[str, Any], *, local_because: str | None, windowed: bool
) -> Reach:
    """
    Read how far a contract reaches out of its options.

    Args:
        template: Its template, for messages.
        options: The options that every template takes.
        local_because: Why its memory is that of one session; None if it may stand in a shared store.
        windowed: Whether it counts in a window of its own.

    Raises:
        TypeError: An option is of another type, or means nothing here.
        ValueError: An option has no such value, or two exclude each other.
    """
    if options.keys().isdisjoint(_OPTIONS):
        return _DEFAULT
    reach = Reach(
        scope=one_of(options, "scope", get_args(Scope)),
        per=one_of(options, "per", get_args(Per)),
        tz=_zone(options.get("tz")),
        forever=bool(flag(options, "forever")),
        overshoot=bool(flag(options, "overshoot")),
        name=_name(options.get("name")),
    )
    if reach.per is not None and local_because is not None:
        raise TypeError(f"{template} has no option 'per': {local_because}")
    if reach.per is not None and windowed:
        raise ValueError("per and within exclude each other: a calendar period or a sliding window")
    if options.get("tz") is not None and reach.per is None:
        raise ValueError("tz needs per: it says where a period begins")
    if reach.is_fleet:
        _check_fleet(template, reach, local_because, windowed)
    else:
        for name in _FLEET_ONLY:
            if options.get(name):
                raise ValueError(f"{name} needs scope 'fleet'")
    return reach


def check_window(within: float | None) -> None:
    """
    Check that a store can keep a window.

    Raises:
        ValueError: It is too short or too long.
    """
    if within is not None and not SHORTEST_WINDOW <= within <= LONGEST_WINDOW:
        raise ValueError(f"a window of the fleet is from {SHORTEST_WINDOW:g} to 9e9 seconds, got {within:g}")


def _check_fleet(template: str, reach: Reach, local_because: str | None, windowed: bool) -> None:
    if local_because is not None:
        raise ValueError(f"{template} cannot have scope 'fleet': {local_because}")
    if reach.overshoot and template != "at_most_total":
        raise TypeError(f"{template} has no option 'overshoot'")
    ends = windowed or reach.per is not None
    if not ends and not reach.forever:
        raise ValueError(
            "scope 'fleet' counts for ever: give per or within, or forever: true if that is meant"
        )
    if ends and reach.forever:
        raise ValueError("forever says that it never counts anew, and per or within that it does")


def _zone(name: object) -> str:
    if name is None:
        return "UTC"
    if not isinstance(name, str) or not name:
        raise TypeError(f"tz must be the name of a time zone, got {shown(name)}")
    # Loaded here: it brings calendars, which most contracts do without.
    from ...fleet.errors import FleetConfigError
    from ...fleet.periods import zone

    try:
        zone(name)
    except FleetConfigError as error:
        raise ValueError(str(error)) from None
    return name


def _name(name: object) -> str | None:
    if name is not None and (not isinstance(name, str) or re.fullmatch(_NAME, name) is None):
        raise ValueError(f"name must be 1 to 64 letters, digits or one of _.:-, got {shown(name)}")
    return name
