"""What was decided, set against what follows: how many decisions could be compared, and which differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...memory.guard import Breach, blocked_by
from .divergence import Divergence
from .journal_rules import FollowedRules


class Comparison:
    """
    Compare the decisions of one session with those that follow from its rules.

    Attributes:
        derived: How many decisions were derived again, and compared.
        on_code: How many of them rest on code as well.
        on_fleet: How many of them rest on what the store of the fleet answered.
        on_shadow: How many let a call through that contracts refuse, because the session only watched.
        not_derivable: How many could not be derived.
        moved: How often the session went on with what another log shows to have been left.
        unproven: How often it went on with a memory of which no other log says so.
        restored: How often it went on from a snapshot that its program kept.
        differences: Those that differ.
    """

    def __init__(self) -> None:
        self.derived = 0
        self.on_code = 0
        self.on_fleet = 0
        self.on_shadow = 0
        self.not_derivable = 0
        self.moved = 0
        self.unproven = 0
        self.restored = 0
        self.differences: list[Divergence] = []
        self._rules = FollowedRules()

    def add(self, other: Comparison) -> None:
        """Count what was compared of another session as well."""
        self.derived += other.derived
        self.on_code += other.on_code
        self.on_fleet += other.on_fleet
        self.on_shadow += other.on_shadow
        self.not_derivable += other.not_derivable
        self.moved += other.moved
        self.unproven += other.unproven
        self.restored += other.restored
        self.differences += other.differences

    def count_watched(self, *, is_watched: bool, breaches: Iterable[Breach]) -> None:
        """Count a call that was let through though it breaks something, if it was only watched."""
        # That the session only watched, the log says alone: no rule says so.
        if is_watched and blocked_by(breaches):
            self.on_shadow += 1

    def compare(
        self,
        number: int,
        step: Mapping[str, Any],
        allowed: bool,
        derived: bool,
        breaches: list[Breach],
        *,
        is_word: Callable[[int | str], bool],
        is_unknown: bool,
    ) -> None:
        """
        Compare one decision.

        Args:
            number: Position of the step in the log.
            step: What the log says.
            allowed: How it was decided.
            derived: What follows.
            breaches: What is found to be broken.
            is_word: Tells of a recorded breach whether it is taken at its word.
            is_unknown: Whether it rests on something that the log does not show.
        """
        if is_unknown:
            self.not_derivable += 1
            return
        told = step.get("broken", ())
        recorded = [name for name in told if not is_word(name)]
        found = [self._rules.name(breach) for breach in breaches]
        self.derived += 1
        self.on_code += bool(step.get("code")) or len(recorded) < len(told)
        if allowed is not derived or not self._rules.agree(recorded, found):
            words = self._rules.words
            self.differ(number, step, words(allowed, recorded), words(derived, found))

    def differ(self, number: int, step: Mapping[str, Any], recorded: str, derived: str) -> None:
        """Take note of a decision that is not the one that follows."""
        self.differences.append(
            Divergence(
                number=number,
                step=step.get("step"),
                tool=step.get("tool"),
                recorded=recorded,
                derived=derived,
            )
        )
