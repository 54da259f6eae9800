"""A step of a session as its log has it, and the call that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...._plain.freezing import thawed
from ...match.keys import About
from ...memory.deferred import read_deferred
from ..plan.planned_call import PlannedCall
from ..plan.tool_plan import Plan
from .hidden_parts import has_hidden, is_as_seen


@dataclass(slots=True)
class RecordedStep:
    """
    Hold what a log says about one step of a session.

    Attributes:
        number: Its position in the log.
        says: What the log says.
        args: The arguments of the call that it asks for, which the log has here or with the call's end; None
            if it does not have them.
        is_hidden: Whether these arguments are not those that were judged.
        is_plain: Whether these arguments are flat, and just as contracts saw them.
    """

    number: int
    says: Mapping[str, Any]
    args: Any = None
    is_hidden: bool = False
    is_plain: bool = False

    @property
    def allowed(self) -> bool:
        """Tell whether it lets a call go on, as all steps do that do not say so."""
        return bool(self.says.get("allowed", True))

    @property
    def broken(self) -> Sequence[int | str]:
        """Name what it says to be broken: the places of contracts, or their texts."""
        names: Sequence[int | str] = self.says.get("broken", ())
        return names

    def asked_call(self, plan: Plan) -> PlannedCall:
        """Make the call that it asks for."""
        says, args = self.says, self.args
        call = PlannedCall(plan.tool, args if self.is_plain else thawed(args or {}), plan)
        call.deferred, call.early = read_deferred(thawed(says.get("deferred", []))), bool(says.get("early"))
        call.special = bool(call.deferred or call.early)
        if "subject" in says or "of_run" in says:
            call.about = About(subject=thawed(says.get("subject", {})), run=says.get("of_run", ""))
        # What a key is that was folded, no marker in the arguments tells.
        call.memo = dict(says.get("keys", {}))
        return call

    def shows_all(self) -> bool:
        """Tell whether the log shows the arguments as contracts saw them."""
        if self.is_hidden:
            return False
        return self.is_plain or not (self.args is None or has_hidden(self.args))


def recorded_steps(steps: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[RecordedStep]:
    """Read the steps of one session, each with its position. Some logs have arguments only with the end."""
    late = {says.get("step"): says["args"] for _, says in steps if "args" in says}
    hidden = {says.get("step") for _, says in steps if says.get("shown")}
    for number, says in steps:
        if says.get("e") != "reserve":
            yield RecordedStep(number, says)
            continue
        step, is_late = says.get("step"), "args" not in says
        args = late.get(step) if is_late else says["args"]
        yield RecordedStep(number, says, args, is_late and step in hidden, is_as_seen(args))
