"""The part of a session's decisions that was made with a store of the fleet, followed by its answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..fleet.fleet_answer import AnsweredPlan, FollowedAnswer, answered, follow_answer
from ..fleet.fleet_question import question_of
from ..plan.planned_call import PlannedCall
from .comparison import Comparison
from .hidden_parts import reads_hidden_in_fleet
from .recorded_step import RecordedStep

_NOTHING = FollowedAnswer(allowed=True, breaches=[])


class FollowedFleet:
    """
    Derive what follows from the answers of a store, call by call.

    Args:
        found: Compares what follows.

    Attributes:
        watching: Whether the session only watches. Of another, a call that was only watched was recorded when
            it had happened, and nobody was asked.
    """

    def __init__(self, found: Comparison) -> None:
        self.watching = False
        self._found = found
        self._rules = found.rules
        self._open: dict[int, AnsweredPlan] = {}
        # Calls whose question the log does not show.
        self._unasked: set[int] = set()
        # What followed from the latest answer about a call; None where that is not what was recorded.
        self._latest: dict[int, FollowedAnswer | None] = {}

    def hide(self, call: PlannedCall, seen: Any, keys: Collection[str]) -> None:
        """Take note of hidden arguments of a call, which its question may be about."""
        if call.plan.fleet and reads_hidden_in_fleet(call, seen, keys):
            self._unasked.add(call.step)

    def answer(self, step: RecordedStep, call: PlannedCall) -> bool:
        """Derive what follows from an answer, or from none; False if something else was recorded."""
        again = step.says.get("again") is True
        call.question = question = question_of(call, watching=call.watched, again=again)
        if call.step in self._unasked:
            self._found.not_derivable += 1
            return True
        self._latest[call.step] = None
        form = step.says.get("answer")
        try:
            derived = follow_answer(question, form, self._rules.contracts)
        except ValueError as error:
            self._found.differ(step, self._rules.words(step.allowed, step.broken), str(error))
            return False
        if form is not None:
            answer = answered(step.number, question, form, self._rules.contracts)
            self._open[call.step] = answer
            self._found.answers.append(answer)
        self._found.count_watched(call, derived.breaches)
        allowed = step.allowed if derived.rests_on_code else derived.allowed or call.watched
        if not self._found.compare(step, derived.breaches, allowed=allowed, is_word=self._rules.is_code):
            return False
        self._latest[call.step] = _NOTHING if step.allowed else derived
        return True

    def end(self, step: RecordedStep, call: PlannedCall) -> None:
        """Take note of how a call ended, and let none have run about which the store was not asked."""
        end = step.says["e"]
        refused = self._latest.pop(call.step, _NOTHING)
        if call.step in self._unasked:
            self._unasked.discard(call.step)
        elif end in ("commit", "fail"):
            self._require_answer(step, call)
        elif end == "abort" and refused is not None:
            self._compare_refusal(step, refused)
        answer = self._open.pop(call.step, None)
        if answer is not None:
            answer.how, answer.ended = end, step.number
            answer.altered = not step.says.keys().isdisjoint(("final", "measured", "shown"))

    def _compare_refusal(self, step: RecordedStep, refused: FollowedAnswer) -> None:
        """Let a call be taken back for what an answer shows to be broken, and nothing else."""
        if "broken" not in step.says or refused.rests_on_code:
            return
        recorded = [name for name in step.broken if not self._rules.is_code(name)]
        found = [self._rules.name(breach) for breach in refused.breaches]
        if not self._rules.agree(recorded, found):
            words = self._rules.words
            self._found.differ(step, words(False, recorded), words(False, found))

    def _require_answer(self, step: RecordedStep, call: PlannedCall) -> None:
        if not call.plan.fleet or call.question is not None or (call.watched and not self.watching):
            return
        if question_of(call, watching=call.watched).is_asked:
            self._found.differ(step, "allowed without the store of the fleet", "to be asked there first")
