"""acel-core's module name. The code is in `openbox_agentrt.acel.contracts.temporal`."""

from .contracts.base import TemporalContract
from .contracts.temporal import (
    MAX_IN_WINDOW,
    AtMostNTimes,
    CannotFollowWithout,
    CumulativeLimit,
    MustPrecede,
    MutuallyExclusive,
    NeverAfter,
    RateLimit,
    RequiredBeforeSessionEnd,
    at_most_n_times,
    at_most_total,
    cannot_follow_without,
    must_precede,
    mutually_exclusive,
    never_after,
    rate_limit,
    required_before_session_end,
)
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
