"""
Contracts that count: calls, amounts, and different values.

What limits counts from the moment a call is let through, so that calls that run side by side cannot pass a
limit together.
"""

from __future__ import annotations

from typing import Any, Unpack

from ..._plain.amounts import Amount, AmountError, read_amount
from ..match.matchers import ToolMatcher
from ..match.paths import FieldPath
from ..match.selector import select
from ..memory.clock import Clock
from ..memory.deferred import read_estimate
from ..wording import shown
from .checks import check_count, check_seconds
from .options import Options
from .rules import MAX_IN_WINDOW
from .template import Template


class AtMostNTimes(Template):
    """At most `n` calls of `tool`: in the session, or in any window of `within` seconds."""

    template = "at_most_n_times"
    local_because = None

    def __init__(
        self, tool: ToolMatcher, n: int, *, refund_on_failure: bool = False, **options: Unpack[Options]
    ) -> None:
        what = select(tool)
        windowed = options.get("within") is not None
        check_count("n", n, least=0, most=MAX_IN_WINDOW if windowed else None)
        super().__init__([what.label, f"n={n}", *_refund(refund_on_failure)], options)
        self.tool = tool
        self.n = n
        self.refund_on_failure = refund_on_failure
        self._limit(what, "cap", "stamps" if windowed else "tally", n, refund=refund_on_failure)


class AtMostInFlight(Template):
    """
    At most `n` calls of `tool` are under way at once.

    A call is under way from the moment it is let through until it has ended, also while a person is asked
    about it. One of which nobody knows how it ended counts as under way: for good, or for `within` seconds
    after it was let through.
    """

    template = "at_most_in_flight"

    def __init__(self, tool: ToolMatcher, n: int, **options: Unpack[Options]) -> None:
        what = select(tool)
        check_count("n", n, least=1, most=MAX_IN_WINDOW)
        super().__init__([what.label, f"n={n}"], options)
        self.tool = tool
        self.n = n
        self._limit(what, "cap", "flights", n, f"an earlier {what.label} to end")


class RateLimit(Template):
    """
    At most `n` calls of `tool` in any window of `window_seconds`.

    A call that is exactly `window_seconds` old still counts. A refused call does not.
    """

    template = "rate_limit"
    local_because = None
    without = frozenset({"within"})
    windowed = True

    def __init__(
        self,
        tool: ToolMatcher,
        n: int,
        window_seconds: float,
        *,
        clock: Clock | None = None,
        refund_on_failure: bool = False,
        **options: Unpack[Options],
    ) -> None:
        what = select(tool)
        check_count("n", n, least=1, most=MAX_IN_WINDOW)
        check_seconds("window_seconds", window_seconds)
        if options.get("within") is not None:
            raise TypeError("rate_limit has no option 'within', its window is window_seconds")
        if clock is not None and options.get("scope") == "fleet":
            raise ValueError("scope 'fleet' has the time of the store, so there is no clock to be given")
        super().__init__([what.label, f"{n} per {window_seconds}s", *_refund(refund_on_failure)], options)
        self.tool = tool
        self.n = n
        self.window_seconds = window_seconds
        self.refund_on_failure = refund_on_failure
        self.clock = clock
        self._limit(
            what, "cap", "stamps", n, within=float(window_seconds), refund=refund_on_failure, clock=clock
        )


class CumulativeLimit(Template):
    """
    The argument `field` of all calls of `tool` adds up to at most `limit`.

    Amounts are exact. A call whose amount is missing, no number, not finite, a boolean, or negative
    breaks the contract: an amount that cannot be read is not let through. `numeric_text` reads text as
    a number, `allow_negative` lets an amount give something back. An amount that is known only once the call
    has run, such as ``total_tokens``, is taken for `estimate` until then.
    """

    template = "at_most_total"
    local_because = None

    def __init__(
        self,
        tool: ToolMatcher,
        field: str,
        limit: Any,
        *,
        numeric_text: bool = False,
        allow_negative: bool = False,
        refund_on_failure: bool = False,
        estimate: Any = None,
        **options: Unpack[Options],
    ) -> None:
        what = select(tool)
        FieldPath(field)
        expected = None if estimate is None else read_estimate(estimate)
        parts = [what.label, field, f"limit={limit}"]
        parts += ["numeric_text=True"] * numeric_text + ["allow_negative=True"] * allow_negative
        parts += [f"estimate={expected}"] * (expected is not None)
        super().__init__([*parts, *_refund(refund_on_failure)], options)
        self.tool = tool
        self.field = field
        self.limit = limit
        self.numeric_text = numeric_text
        self.allow_negative = allow_negative
        self.refund_on_failure = refund_on_failure
        self.estimate = expected
        most = _limit(limit)
        of_store: dict[str, Any] = {"scale": _scale_of(most)} if self.reach.is_fleet else {}
        self._limit(
            what,
            "spend",
            "sum",
            most,
            field=field,
            refund=refund_on_failure,
            text=numeric_text,
            negative=allow_negative,
            estimate=expected,
            **of_store,
        )


class MaxDistinct(Template):
    """
    At most `n` different values of the argument `field` over all calls of `tool`.

    Each element of a list counts. The number 42 and the text "42" are one value.
    """

    template = "max_distinct"
    local_because = None
    tells_values_apart = True

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
        super().__init__([what.label, field, f"n={n}", *_refund(refund_on_failure)], options)
        self.tool = tool
        self.field = field
        self.n = n
        self.refund_on_failure = refund_on_failure
        self._limit(what, "distinct", "distinct", n, field=field, fold=self.fold, refund=refund_on_failure)


# The names that contracts are written with.
at_most_n_times = AtMostNTimes
at_most_in_flight = AtMostInFlight
rate_limit = RateLimit
at_most_total = CumulativeLimit
max_distinct = MaxDistinct


def _refund(on: bool) -> list[str]:
    return ["refund_on_failure=True"] if on else []


def _scale_of(limit: Amount) -> int:
    """Give the decimals that a store counts with under a limit, which it must be able to count itself."""
    # Loaded here: few contracts count in a store.
    from decimal import Decimal

    from ...fleet.amounts import scale_of, to_units

    scale = scale_of(Decimal(limit))
    to_units(Decimal(limit), scale)
    return scale


def _limit(limit: Any) -> Amount:
    try:
        return read_amount(limit)
    except AmountError as error:
        problem = "must be non-negative" if str(error) == "is negative" else str(error)
        raise ValueError(f"limit {problem}, got {shown(limit)}") from None
