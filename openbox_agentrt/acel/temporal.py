"""acel-core's module name. The code is in `openbox_agentrt.acel.contracts`."""

from .contracts.base import TemporalContract
from .contracts.counting import (
    AtMostNTimes,
    CumulativeLimit,
    RateLimit,
    at_most_n_times,
    at_most_total,
    rate_limit,
)
from .contracts.exclusion import MutuallyExclusive, NeverAfter, mutually_exclusive, never_after
from .contracts.obligations import RequiredBeforeSessionEnd, required_before_session_end
from .contracts.precedence import CannotFollowWithout, MustPrecede, cannot_follow_without, must_precede
from .contracts.rules import MAX_IN_WINDOW
from .match.matchers import ToolMatcher

__all__ = (
    "MAX_IN_WINDOW",
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
