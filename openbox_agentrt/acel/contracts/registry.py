"""The templates by their names. The class of one is loaded when it is looked up: a hook needs few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .template import Template

_HOME = {
    "must_precede": "precedence.MustPrecede",
    "at_most_n_times": "counting.AtMostNTimes",
    "at_most_total": "counting.CumulativeLimit",
    "never_after": "exclusion.NeverAfter",
    "required_before_session_end": "obligations.RequiredBeforeSessionEnd",
    "cannot_follow_without": "precedence.CannotFollowWithout",
    "mutually_exclusive": "exclusion.MutuallyExclusive",
    "rate_limit": "counting.RateLimit",
    "response": "obligations.Response",
    "alternate_precedence": "precedence.AlternatePrecedence",
    "chain_precedence": "precedence.ChainPrecedence",
    "existence": "obligations.Existence",
    "init": "precedence.Init",
    "max_distinct": "counting.MaxDistinct",
    "requires_state": "state.RequiresState",
    "requires": "requires.Requires",
    "never": "exclusion.Never",
    "only": "exclusion.Only",
    "at_most_in_flight": "counting.AtMostInFlight",
    "came_from": "provenance.CameFrom",
    "keeps_out": "provenance.KeepsOut",
}


class _Loaded(Mapping[str, Any]):
    """Map names to what stands in modules of this folder, loaded when it is looked up."""

    def __init__(self, home: Mapping[str, str]) -> None:
        self._home = home

    def __getitem__(self, name: str) -> Any:
        module, _, found = self._home[name].partition(".")
        return getattr(import_module(f".{module}", __package__), found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)


CLASSES: Mapping[str, type[Template]] = _Loaded(_HOME)
"""The class of each template; everything is given to it by keyword."""

TEMPLATES: Mapping[str, Callable[..., Template]] = _Loaded(
    _HOME | {"response": "obligations.response", "requires_state": "state.requires_state"}
)
"""What a template is called to make a contract in Python."""
