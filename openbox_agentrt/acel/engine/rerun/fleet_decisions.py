"""The part of a session's decisions that was made with a store of the fleet, followed by its answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..fleet.fleet_answer import AnsweredPlan, FollowedAnswer, answered, follow_answer
from ..fleet.fleet_question import question_of
from ..plan.planned_call import PlannedCall
from .comparison import Comparison
from .hidden_parts import reads_hidden_in_fleet
from .journal_rules import FollowedRules

_NOTHING = FollowedAnswer(allowed=True, breaches=[])


class FollowedFleet:
    """
    Derive what follows from the answers of a store, call by call.

    Args:
        found: Compares what follows.
        rules: The contracts.

    Attributes:
        answers: What the store answered, as far as it could be followed.
        watching: Whether the session only watches. Of another, a call that was only watched was recorded when
            it had happened, and nobody was asked.
    """

    def __init__(self, found: Comparison, rules: FollowedRules) -> None:
        self.answers: list[AnsweredPlan] = []
        self.watching = False
        self._found = found
        self._rules = rules
        self._open: dict[int, AnsweredPlan] = {}
        # Calls whose question the log does not show.
        self._unasked: set[int] = set()
        # What followed from the latest answer about a call; None where that is not what was recorded.
        self._latest: dict[int, FollowedAnswer | None] = {}

    def hide(self, call: PlannedCall, seen: Any, keys: Collection[str]) -> None:
        """Take note of hidden arguments of a call, which its question may be about."""
        if call.plan.fleet and reads_hidden_in_fleet(call, seen, keys):
            self._unasked.add(call.step)

    def answer(self, number: int, step: Mapping[str, Any], call: PlannedCall) -> None:
        """Derive what follows from an answer, or from that nobody was asked."""
        again = step.get("again") is True
        call.question = question = question_of(call, watching=call.watched, again=again)
        if call.step in self._unasked:
            self._found.not_derivable += 1
            return
        allowed = bool(step["allowed"])
        self._latest[call.step] = None
        try:
            derived = follow_answer(question, step.get("answer"), self._rules.contracts)
        except ValueError as error:
            said = self._rules.words(allowed, step.get("broken", ()))
            self._found.differ(number, step, said, str(error))
            return
        if "answer" in step:
            self._found.on_fleet += 1
            answer = answered(number, question, step["answer"], self._rules.contracts)
            self._open[call.step] = answer
            self.answers.append(answer)
        follows, known = derived.allowed or call.watched, len(self._found.differences)
        self._found.count_watched(is_watched=call.watched, breaches=derived.breaches)
        self._found.compare(
            number,
            step,
            allowed,
            allowed if derived.rests_on_code else follows,
            derived.breaches,
            is_word=self._rules.is_code,
            is_unknown=False,
        )
        if len(self._found.differences) == known:
            self._latest[call.step] = _NOTHING if allowed else derived

    def end(self, number: int, step: Mapping[str, Any], call: PlannedCall) -> None:
        """Take note of how a call ended, and let none have run about which the store was not asked."""
        end = step["e"]
        if end in ("commit", "fail"):
            self._require_answer(number, step, call)
        refused = self._latest.pop(call.step, _NOTHING)
        if end == "abort" and call.step not in self._unasked and refused is not None:
            self._compare_refusal(number, step, refused)
        self._unasked.discard(call.step)
        answer = self._open.pop(call.step, None)
        if answer is not None:
            answer.how, answer.ended = end, number
            answer.altered = "final" in step or "measured" in step or "shown" in step

    def _compare_refusal(self, number: int, step: Mapping[str, Any], refused: FollowedAnswer | None) -> None:
        """Let a call be taken back for what an answer shows to be broken, and nothing else."""
        if "broken" not in step or (refused is not None and refused.rests_on_code):
            return
        recorded = [name for name in step["broken"] if not self._rules.is_code(name)]
        found = [] if refused is None else [self._rules.name(breach) for breach in refused.breaches]
        if not self._rules.agree(recorded, found):
            words = self._rules.words
            self._found.differ(number, step, words(False, recorded), words(refused is None, found))

    def _require_answer(self, number: int, step: Mapping[str, Any], call: PlannedCall) -> None:
        if not call.plan.fleet or call.question is not None or call.step in self._unasked:
            return
        if call.watched and not self.watching:
            return
        if question_of(call, watching=call.watched).is_asked:
            recorded = "allowed without the store of the fleet"
            self._found.differ(number, step, recorded, "to be asked there first")
