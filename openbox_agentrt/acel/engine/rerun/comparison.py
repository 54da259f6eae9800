"""Compare what was decided with what follows: how many decisions could be compared, and which differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...memory.guard import Breach, blocked_by
from ..fleet.fleet_answer import AnsweredPlan
from ..plan.planned_call import PlannedCall
from .journal_rules import FollowedRules
from .recorded_step import RecordedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """
    A decision that does not follow from the rules.

    Attributes:
        number: Position of the step in the log.
        step: Position of the call in its session.
        tool: The tool.
        recorded: What was decided, in words.
        derived: What follows.
    """

    number: int
    step: int | None
    tool: str | None
    recorded: str
    derived: str


class Comparison:
    """
    Compare the decisions of one session with those that follow from its rules.

    Attributes:
        derived: How many decisions were derived again, and compared.
        on_code: How many of them rest on code as well.
        on_shadow: How many let a call through that contracts refuse, because the session only watched.
        not_derivable: How many could not be derived.
        moved: How often the session went on with what another log shows to have been left.
        unproven: How often it went on with a memory of which no other log says so.
        restored: How often it went on from a snapshot that its program kept.
        differences: Those that differ.
        answers: What the store of the fleet answered, as far as it could be followed.
        rules: The contracts.
    """

    def __init__(self) -> None:
        self.derived = 0
        self.on_code = 0
        self.on_shadow = 0
        self.not_derivable = 0
        self.moved = 0
        self.unproven = 0
        self.restored = 0
        self.differences: list[Divergence] = []
        self.answers: list[AnsweredPlan] = []
        self.rules = FollowedRules()

    def add(self, other: Comparison) -> None:
        """Count what was compared of another session as well."""
        self.derived += other.derived
        self.on_code += other.on_code
        self.on_shadow += other.on_shadow
        self.not_derivable += other.not_derivable
        self.moved += other.moved
        self.unproven += other.unproven
        self.restored += other.restored
        self.differences += other.differences
        self.answers += other.answers

    def count_watched(self, call: PlannedCall, breaches: Sequence[Breach]) -> None:
        """Count a call that was let through though it breaks something, if it was only watched."""
        # That the session only watched, the log says alone: no rule says so.
        if call.watched and blocked_by(breaches):
            self.on_shadow += 1

    def compare(
        self,
        step: RecordedStep,
        breaches: Sequence[Breach],
        *,
        allowed: bool = True,
        is_word: Callable[[int | str], bool],
    ) -> bool:
        """
        Compare one decision, and say whether it is the one that follows.

        Args:
            step: What the log says.
            breaches: What is found to be broken.
            allowed: Whether the call is found to be allowed.
            is_word: Tells of a recorded breach whether it is taken at its word.
        """
        recorded = [name for name in step.broken if not is_word(name)]
        found = [self.rules.name(breach) for breach in breaches]
        self.derived += 1
        self.on_code += bool(step.says.get("code")) or len(recorded) < len(step.broken)
        if allowed is step.allowed and self.rules.agree(recorded, found):
            return True
        words = self.rules.words
        self.differ(step, words(step.allowed, recorded), words(allowed, found))
        return False

    def differ(self, step: RecordedStep, recorded: str, derived: str) -> None:
        """Take note of a decision that is not the one that follows."""
        self.differences.append(
            Divergence(
                number=step.number,
                step=step.says.get("step"),
                tool=step.says.get("tool"),
                recorded=recorded,
                derived=derived,
            )
        )
