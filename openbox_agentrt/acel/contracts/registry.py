"""The templates by their names."""

from __future__ import annotations

from collections.abc import Callable

from .counting import AtMostInFlight, AtMostNTimes, CumulativeLimit, MaxDistinct, RateLimit
from .exclusion import MutuallyExclusive, Never, NeverAfter, Only
from .obligations import Existence, RequiredBeforeSessionEnd, Response, response
from .precedence import AlternatePrecedence, CannotFollowWithout, ChainPrecedence, Init, MustPrecede
from .provenance import CameFrom, KeepsOut
from .requires import Requires
from .state import RequiresState, requires_state
from .template import Template

CLASSES: dict[str, type[Template]] = {
    kind.template: kind
    for kind in (
        MustPrecede,
        AtMostNTimes,
        CumulativeLimit,
        NeverAfter,
        RequiredBeforeSessionEnd,
        CannotFollowWithout,
        MutuallyExclusive,
        RateLimit,
        Response,
        AlternatePrecedence,
        ChainPrecedence,
        Existence,
        Init,
        MaxDistinct,
        RequiresState,
        Requires,
        Never,
        Only,
        AtMostInFlight,
        CameFrom,
        KeepsOut,
    )
}
"""The class of each template; everything is given to it by keyword."""

TEMPLATES: dict[str, Callable[..., Template]] = {
    **CLASSES,
    "response": response,
    "requires_state": requires_state,
}
"""What a template is called to make a contract in Python."""
