"""Conditions, asked about a call and what the session knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..._values import dataclass
from ..condition.condition import Condition
from ..condition.values import cel_value, told_kind
from ..contracts.rules import Guard
from ..match.paths import FieldError
from .call import JudgedCall
from .clock import MonotoneClock
from .facts import FactMemory
from .guard import Breach, LiveGuard
from .tally import Tally

if TYPE_CHECKING:
    from datetime import datetime

    from ..contracts.base import SessionRule, TemporalContract


@dataclass(frozen=True, slots=True)
class ConditionAnswer:
    """
    Tell what a condition says of a call.

    Attributes:
        holds: Whether it holds.
        fault: Why that could not be told, without any value.
        needs: What would have told the fact that is missing.
        blame: The step of the call whose fact it is, the latest of several.
    """

    holds: bool
    fault: str | None = None
    needs: str | None = None
    blame: int | None = None


class _Asking:
    """Find facts for one condition about one call, and remember which were asked for."""

    __slots__ = ("_facts", "blame", "missing")

    def __init__(self, facts: Mapping[str, FactMemory]) -> None:
        self._facts = facts
        self.missing: FactMemory | None = None
        self.blame: int | None = None

    def fact(self, name: str, key: Any) -> Mapping[str, Any]:
        """
        Give the values of a fact.

        Raises:
            FieldError: Nothing is known about that key.
        """
        cell = self._facts[name]
        known = cell.find(key)
        if known is None:
            self.missing = self.missing or cell
            raise FieldError(f"facts.{name} is not known{'' if cell.fact.key is None else ' for this key'}")
        self.blame = max(known.step, self.blame or 0)
        return known.values

    def known(self, name: str, key: Any) -> bool:
        """Tell whether anything is known about a key."""
        known = self._facts[name].find(key)
        if known is not None:
            self.blame = max(known.step, self.blame or 0)
        return known is not None


class LiveCondition:
    """
    Ask a condition in one session. The store's lock is held.

    Attributes:
        condition: The condition.
        timeline: The session's time, if it asks for it.
    """

    __slots__ = ("_facts", "_tallies", "condition", "timeline")

    def __init__(
        self,
        condition: Condition,
        *,
        facts: Mapping[str, FactMemory],
        tallies: Mapping[str, Tally],
        timeline: MonotoneClock | None,
    ) -> None:
        self.condition = condition
        self.timeline = timeline
        self._facts = facts
        self._tallies = tallies

    def ask(self, call: JudgedCall) -> ConditionAnswer:
        """Tell what the condition says of a call."""
        try:
            data = self._data(call)
        except FieldError as error:
            return ConditionAnswer(False, str(error))
        asking = _Asking(self._facts)
        answer = self.condition.program.ask(data, asking)
        if isinstance(answer, bool):
            return ConditionAnswer(answer, blame=asking.blame)
        if asking.missing is not None:
            return ConditionAnswer(False, needs=_telling(asking.missing))
        return ConditionAnswer(False, self._fault(answer, data), blame=asking.blame)

    def _data(self, call: JudgedCall) -> dict[str, Any]:
        reads, args = self.condition.reads, call.args
        names = args if reads.args is None else reads.args
        data: dict[str, Any] = {
            "args": {name: cel_value(args[name], f"args.{name}") for name in names if name in args}
        }
        if self._tallies:
            data["session"] = {tool: tally.done for tool, tally in self._tallies.items()}
        if reads.subject:
            data["subject"] = cel_value(dict(call.about.subject), "subject")
        if self.timeline is not None:
            data["now"] = self._now(self.timeline)
        return data

    def _now(self, timeline: MonotoneClock) -> datetime:
        if timeline.fault is not None:
            raise FieldError(timeline.fault)
        try:
            from datetime import UTC, datetime

            return datetime.fromtimestamp(timeline.now, UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise FieldError("the time is out of range") from error

    def _fault(self, why: str, data: Mapping[str, Any]) -> str:
        # Never the values themselves: they may be what must not be seen.
        args, names = data["args"], self.condition.reads.args
        seen = [
            f"args.{name} is {told_kind(args[name]) if name in args else 'missing'}"
            for name in sorted(args if names is None else names)
        ]
        return f"{why} ({', '.join(seen)})" if seen else why


class Holds(LiveGuard):
    """Require that a condition holds."""

    __slots__ = ("_condition",)

    def __init__(
        self, contract: TemporalContract | SessionRule, guard: Guard, condition: LiveCondition
    ) -> None:
        super().__init__(contract, guard)
        self._condition = condition

    def passes(self, call: JudgedCall) -> bool:
        return self._condition.ask(call).holds

    def explain(self, call: JudgedCall) -> Breach:
        answer = self._condition.ask(call)
        return Breach(contract=self.contract, needs=answer.needs, fault=answer.fault, blame=answer.blame)

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        return False

    def clocked(self) -> Any:
        return self._condition


def _telling(cell: FactMemory) -> str:
    fact = cell.fact
    about = "" if fact.key is None else f" with the same {fact.key.path or fact.key.of}"
    return f"{' or '.join(fact.tools)}{about}"
