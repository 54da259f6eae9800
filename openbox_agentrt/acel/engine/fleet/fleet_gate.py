"""
The part of a call's way that leads through a shared store: reserved there, started, and finished.

The session's own contracts come first: what they refuse costs no trip. What the store refuses is taken back
in the session.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeAlias

from ....fleet.answers import Finished, How, Lease, Measured, Reserved
from ....fleet.errors import FleetError
from ....fleet.plan import FleetPlan
from ...contracts.declaration import Declaration
from ...memory.guard import Breach
from ..plan.planned_call import PlannedCall
from .fleet_question import FleetQuestion, question_of

LATE = "it ran after what was reserved for it had been given back, and was counted all the same"


class FleetStore(Protocol):
    """Keep what the contracts of many processes count."""

    def reserve(self, plan: FleetPlan, *, started: bool = False, force: bool = False) -> Reserved: ...

    async def areserve(self, plan: FleetPlan, *, started: bool = False, force: bool = False) -> Reserved: ...

    def would(self, plan: FleetPlan) -> Reserved: ...

    def start(self, lease: Lease) -> bool: ...

    async def astart(self, lease: Lease) -> bool: ...

    def finish(self, lease: Lease, how: How, *, measured: Measured | None = None) -> Future[Finished]: ...

    def record(self, plan: FleetPlan, how: How) -> None: ...


TellLate: TypeAlias = Callable[[list[Breach]], None]
"""Takes what only the end of a call shows to be broken, in a thread of the store's."""


class FleetGate:
    """
    Take calls of one session through a shared store.

    Args:
        store: The store.
    """

    __slots__ = ("_store",)

    def __init__(self, store: FleetStore) -> None:
        self._store = store

    def would(self, call: PlannedCall) -> list[Breach]:
        """Give what a call would break if it were made now. Nothing moves. Blocks the thread."""
        question = call.question = question_of(call, watching=False)
        if question.stops() or not question.is_asked:
            return question.broken
        try:
            return question.breaches(self._store.would(question.plan))
        except FleetError as error:
            return _unavailable(call, error)

    async def arecheck(self, call: PlannedCall, *, watching: bool) -> list[Breach]:
        """
        Judge a call again that has waited and is about to run, and reserve it anew.

        What it had reserved is given back in the same trip, so that it is not in its own way. Contracts that
        do not want to look again refuse nothing.
        """
        lease = call.lease
        if lease is None or not any(filed.contract.recheck for filed, _ in call.plan.fleet):
            return []
        call.lease = None
        self._store.finish(lease, "undo")
        question = call.question = question_of(call, watching=watching, again=True)
        try:
            answer = await self._store.areserve(question.plan, force=watching)
        except FleetError as error:
            return _unavailable(call, error)
        return _reserved(call, question, answer)

    def reserve(self, call: PlannedCall, *, watching: bool, started: bool) -> list[Breach]:
        """Reserve a call in the store, and give what it would break. Blocks the thread."""
        question = self._question(call, watching)
        if question.stops() or not question.is_asked:
            return question.broken
        try:
            answer = self._store.reserve(question.plan, started=started, force=watching)
        except FleetError as error:
            return _unavailable(call, error)
        return _reserved(call, question, answer)

    async def areserve(
        self, call: PlannedCall, *, watching: bool, started: bool, lease: Lease | None = None
    ) -> list[Breach]:
        """Do as `reserve`, without blocking the event loop. `lease` stands in for asking, if it fits."""
        question = self._question(call, watching)
        if question.stops() or not question.is_asked:
            return question.broken
        if lease is not None:
            if question.is_held_by(lease):
                call.lease = call.answer = lease
                call.special = True
                return question.broken
            self._store.finish(lease, "undo")
        try:
            answer = await self._store.areserve(question.plan, started=started, force=watching)
        except FleetError as error:
            return _unavailable(call, error)
        return _reserved(call, question, answer)

    def start(self, call: PlannedCall, *, watching: bool) -> list[Breach]:
        """
        Say that the tool runs now, and give what the call would break.

        What was reserved may have been given back meanwhile, because this process gave no sign of life: then
        the call is judged anew.
        """
        lease = call.lease
        assert lease is not None
        try:
            if self._store.start(lease):
                return []
        except FleetError as error:
            return self._doubtful(call, lease, error)
        call.lease = None
        return self.reserve(call, watching=watching, started=True)

    async def astart(self, call: PlannedCall, *, watching: bool) -> list[Breach]:
        """Do as `start`, without blocking the event loop."""
        lease = call.lease
        assert lease is not None
        try:
            if await self._store.astart(lease):
                return []
        except FleetError as error:
            return self._doubtful(call, lease, error)
        call.lease = None
        return await self.areserve(call, watching=watching, started=True)

    def finish(self, call: PlannedCall, how: How, tell: TellLate | None = None) -> None:
        """
        Say how a call ended. Never waits.

        Args:
            call: The call.
            how: How it ended.
            tell: Told of what only its end shows to be broken.
        """
        lease, question = call.lease, call.question
        if lease is None:
            if question is not None and question.at_end and how in ("commit", "fail"):
                self._store.record(question.plan, how)
            return
        call.lease = None
        ran = None
        if how in ("commit", "fail") and call.final is not None:
            ran = question_of(call.as_ran() or call, watching=True)
            if not question.is_same(ran):
                # What only was judged stays counted where it limits, and what ran counts as it ended.
                self._store.finish(lease, "lose")
                self._store.record(ran.plan, how)
                return
        measured = question.measured(call, ran) if how != "undo" else {}
        future = self._store.finish(lease, how, measured=measured or None)
        if tell is not None:
            future.add_done_callback(partial(_tell_end, question, tell))

    def _question(self, call: PlannedCall, watching: bool) -> FleetQuestion:
        question: FleetQuestion = question_of(call, watching=watching)
        call.question = question
        call.special = call.special or question.at_end
        return question

    def _doubtful(self, call: PlannedCall, lease: Lease, error: FleetError) -> list[Breach]:
        call.lease = None
        self._store.finish(lease, "undo")
        return _unavailable(call, error)


def _reserved(call: PlannedCall, question: FleetQuestion, answer: Reserved) -> list[Breach]:
    call.lease, call.answer = answer.lease, answer
    if answer.lease is not None:
        call.special = True
    return question.breaches(answer)


def _unavailable(call: PlannedCall, error: FleetError) -> list[Breach]:
    call.unanswered, call.answer = True, str(error)
    question: FleetQuestion = call.question
    return question.unanswered(str(error), getattr(error, "retry_after", None))


def _tell_end(question: FleetQuestion, tell: TellLate, future: Future[Finished]) -> None:
    if future.cancelled() or future.exception() is not None:
        # The store counts and repeats what it could not deliver; nothing was decided here.
        return
    ended = future.result()
    if ended.said == "late":
        tell([Breach(contract=each, fault=LATE, stops=False) for each in question.contracts])
    over: dict[int, Declaration] = {}
    for place in ended.over:
        cell = list(question.moves.values())[place][1].cell
        over |= {id(each): each for each, _, guard in question.asked if guard.cell == cell}
    if over:
        tell([Breach(contract=each, stops=False) for each in over.values()])
