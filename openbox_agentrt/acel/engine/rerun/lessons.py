"""The lessons that contracts have drawn from calls, as the steps of a session show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...._plain.freezing import thawed
from ...contracts.base import HALTED
from ...memory.guard import Breach
from ..plan.planned_call import PlannedCall
from ..store.session_store import SessionStore
from .hidden_parts import has_hidden, learning_movers, seen_in
from .journal_rules import RerunError
from .unseen_memory import UnseenMemory


class FollowedStore(SessionStore):
    """Learn what others have read, and halt where they say that something halted."""

    __slots__ = ()

    def halt_if_broken(self, breaches: Sequence[Breach], *, refused: bool, by_code: bool) -> None:
        """Admit nothing more if what is broken halts the session, or if every call that is `refused` does."""
        # A person's halt may be lifted; what a call that ran has broken halts for good.
        is_open = self.shut is None or (self.shut.by_person and not refused)
        halting = by_code or any(breach.halts() for breach in breaches)
        if is_open and (halting or (refused and self._halts)):
            self.shut = HALTED

    def learn_known(self, call: PlannedCall, found: Mapping[str, Any]) -> None:
        """Remember what was found out by a call, which a log shows."""
        self._learn_again(call, call, found, known={})


class FollowedLessons:
    """
    Let a store learn what a log says was learnt.

    Args:
        unseen: Knows what the steps do not show.
    """

    def __init__(self, unseen: UnseenMemory) -> None:
        self._unseen = unseen
        # Only calls of whose results something was learnt may be heard of again.
        self._learned: dict[int, PlannedCall] = {}

    def of_end(self, call: PlannedCall, says: Mapping[str, Any], store: SessionStore) -> dict[str, Any]:
        """Give what the end of a call says was learnt from it, with None for what it does not say."""
        self._unseen.hide_lesson(call, says, store.book)
        if call.plan.learns:
            self._learned[call.step] = call
        learnt: dict[str, Any] = thawed(seen_in(says.get("learnt", {})))
        if says.get("shown") or has_hidden(call.args if call.final is None else call.final):
            learns = learning_movers(call)
            learnt |= dict.fromkeys(name for name, source in learns.items() if source == "arguments")
        return learnt

    def learn(self, says: Mapping[str, Any], store: FollowedStore) -> None:
        """
        Learn what was told later of a call.

        Raises:
            RerunError: It did not succeed.
        """
        call = self._learned.get(says["step"])
        if call is None:
            raise RerunError("something was learnt from a call that did not succeed")
        learnt = says["learnt"]
        if says.get("whole") and not has_hidden(learnt):
            # All that the end of the call did not show.
            self._unseen.show_lesson(call.step)
        elif has_hidden(learnt):
            self._unseen.hide_lessons_for_good(call, store.book)
        store.learn_known(call, thawed(seen_in(learnt)))
