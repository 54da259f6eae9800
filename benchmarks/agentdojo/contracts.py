"""The contracts of a trace, as a session of the engine: the suite's rules file, or a part of it."""

from __future__ import annotations

from functools import cache
from typing import Literal

from openbox_agentrt import acel
from openbox_agentrt.acel.rulesfile import Rules, read_rules

from .suites import rules_file

Which = Literal["order", "origin", "all"]
"""What says how often, how much and in which order; what says where a value comes from; or the whole file."""


def session(name: str, which: Which = "all") -> acel.Session:
    """A new session under the contracts of a suite."""
    read = rules(name)
    return acel.Session(read.state, contracts=_some(name, which))


@cache
def rules(name: str) -> Rules:
    """The suite's rules file."""
    return read_rules(rules_file(name))


@cache
def _some(name: str, which: Which) -> tuple[acel.TemporalContract, ...]:
    every = rules(name).contracts
    if which == "all":
        return every
    return tuple(one for one in every if (one.template == "came_from") is (which == "origin"))
