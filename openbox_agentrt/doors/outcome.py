"""Read the end of a call, as all doors do: off what the work returned, or off what it raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from openbox_agentrt.acel.outcome import OutcomeHook, outcome_of

if TYPE_CHECKING:
    from openbox_agentrt.acel.events import Outcome


@dataclass(frozen=True, slots=True)
class CallEnd:
    """
    Say how a call ended, as a door reads it.

    Attributes:
        outcome: What became of the call.
        value: What it returned, for postconditions, the trace and Core.
    """

    outcome: Outcome
    value: Any = None


class Reading(Protocol):
    """Read how a call of a door ended."""

    def of_result(self, result: Any) -> CallEnd:
        """Read what the work returned."""

    def of_error(self, error: BaseException) -> Outcome:
        """Say what became of a call whose work raised; never "ok"."""

    def with_value(self, result: Any, value: Any) -> Any:
        """Give what the work returned with another value in it: a redacted one."""


@dataclass(frozen=True, slots=True)
class PlainAnswers:
    """
    Read results by what is known of results in general, and take an exception for a failure.

    Attributes:
        hook: The user's own way to tell, or None.
    """

    hook: OutcomeHook | None = None

    def of_result(self, result: Any) -> CallEnd:
        return CallEnd(outcome_of(result, self.hook), result)

    def of_error(self, error: BaseException) -> Outcome:
        # Cancellation too: how far the work came is not known.
        return "failed"

    def with_value(self, result: Any, value: Any) -> Any:
        return value
