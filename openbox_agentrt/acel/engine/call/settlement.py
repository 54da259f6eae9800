"""
The end of a call that was let through: its result is checked, becomes state, and is recorded.

Whatever happens, a call that was let through is settled once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ...wording import shown
from ..plan.planned_call import seen_of
from ..record import found_breach

if TYPE_CHECKING:
    from ....fleet.answers import How
    from ...contracts.tools import Asked, Commits, ToolSpec
    from ...match.keys import About
    from ...memory.guard import Breach
    from ...memory.state import StateStore, StateView
    from ...reservation import Reservation
    from ...verdict import Mode
    from ...violations import Violation
    from ..fleet.fleet_gate import FleetGate
    from ..plan.tool_plan import Landing
    from ..record.records import Meter, Records
    from ..record.trace import Trace
    from ..store.session_store import SessionStore
    from ..store.settling_as_ran import End
    from .session_gate import SessionGate


class Settlement:
    """
    Settle the calls of one session, and record what is broken.

    Attributes:
        state: The session's state.
        store: What the contracts remember.
        rows: The trace.
        records: Violations, evidence and metrics.
    """

    def __init__(
        self,
        store: SessionStore,
        state: StateStore,
        rows: Trace,
        records: Records,
        *,
        mode: Mode,
        fleet: FleetGate | None,
    ) -> None:
        self._meter: Meter | None = None
        self._about: About | None = None
        self._kept: SessionGate | None = None
        self.mode = mode
        self.state = state
        self.store = store
        self.rows = rows
        self.records = records
        self._commits: Commits | None = None
        self._view: StateView | None = None
        self._fleet = fleet

    @property
    def view(self) -> StateView:
        """Give the state, to be read only."""
        if self._view is None:
            self._view = self.state.view()
        return self._view

    @property
    def mode(self) -> Mode:
        """Tell whether contracts are in force or only watch. It may be changed: later calls follow it."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if mode != "enforce":
            check_mode(mode)
        self._mode = mode
        self._watching = mode == "shadow"
        self._see_ways()

    def settle(self, call: Reservation, result: Any, landing: Landing) -> Violation | None:
        """
        Settle a call that ran: check its result, let it become state, and commit it.

        Args:
            call: The call, which was taken out of those under way.
            result: What it returned.
            landing: What its success moves, if that is all, see `Landing`.
        """
        if landing is not None and not call.special:
            if landing:
                self.store.landed.extend(landing)
            self.rows.add(call.step, call.tool, call.args, result)
            return None
        spec = call.plan.ends
        if spec is None:
            over = self.store.commit(call, result)
            if over or call.special:
                self._succeeded(call, result, over)
            else:
                self.rows.add(call.step, call.tool, call.args, result)
            return None
        try:
            found = self.check(call, spec, result)
        except BaseException:
            self.lose(call)
            raise
        return self._concluded(call, result, found)

    async def asettle(self, call: Reservation, result: Any) -> Violation | None:
        """Do as `settle`, and wait for conditions and a commit function that have to be awaited."""
        spec = call.plan.ends
        if spec is None:
            self._succeeded(call, result, self.store.commit(call, result))
            return None
        try:
            failed = await spec.aafter(self.view, result)
            found = self._unsound(call, failed, result)
            if found is None or self._watching:
                fault = await self._commits_now().awrite(spec, _ran(call), result)
                found = self._unwritten(call, fault, result) or found
        except BaseException:
            self.lose(call)
            raise
        return self._concluded(call, result, found)

    def replace_result(self, call: Reservation, result: Any) -> None:
        """Take note that whoever made a call that was committed was given another result."""
        self.store.relearn(call, result)
        self._changed()

    def replace_arguments(self, call: Reservation, args: Mapping[str, Any]) -> None:
        """Take note that a call that was committed is shown with other arguments than it was made with."""
        self.store.relearn_arguments(call, args)
        self._changed()

    def give_up(self, call: Reservation, *, ran: bool) -> None:
        """Settle a call that failed, if it `ran`, or never ran."""
        self._report_late(call, self.store.abort(call, ran=ran), None)
        self._finish(call, "fail" if ran else "undo")

    def lose(self, call: Reservation) -> None:
        """Settle a call whose end nobody knows."""
        self._report_late(call, self.store.lose(call), None)
        self._finish(call, "lose")

    def drop(self, call: Reservation, *, ran: bool = True) -> None:
        """Settle a call that was dropped, and may have `ran`. May be called by a finalizer at any point."""
        how: End = "lose" if ran else "undo"
        self.store.drop(call, how)
        if self._kept is not None:
            self._kept.moved(call)
        if call.lease is not None and call.lease.process == os.getpid():
            # Else what was dropped is the copy that a fork made: the call goes on where it was reserved.
            self._finish(call, how, quietly=True)

    def check(self, call: Reservation, spec: ToolSpec, result: Any) -> Violation | None:
        """Check a result, and let it become state unless it is unsound. Returns why it is."""
        found = self._unsound(call, spec.after(self.view, result), result)
        if found is None or self._watching:
            found = (
                self._unwritten(call, self._commits_now().write(spec, _ran(call), result), result) or found
            )
        return found

    def _see_ways(self) -> None:
        """Note whether a call is only judged: not measured, not watched, of nobody, and kept in no store."""
        is_alone = self._meter is None and self._kept is None and self._about is None
        self._is_plain = is_alone and not self._watching

    def _commits_now(self) -> Commits:
        # Made when a tool first has a commit function, and once: they take turns in it.
        if self._commits is None:
            from ...contracts.tools import Commits

            with self.store.lock:
                if self._commits is None:
                    self._commits = Commits(self.state)
        return self._commits

    def _changed(self) -> None:
        """Have written what has changed, where the memory is kept in a store."""
        if self._kept is not None:
            self._kept.changed()

    def _finish(self, call: Reservation, how: How, *, quietly: bool = False) -> None:
        if self._kept is not None:
            self._kept.moved(call)
        if call.plan.fleet and self._fleet is not None:
            # What is dropped may be in the middle of anything, so nothing comes back of it.
            tell = None if quietly or how == "lose" else partial(self._report_end, call)
            self._fleet.finish(call, how, tell)

    def _report_end(self, call: Reservation, breaches: list[Breach]) -> None:
        self.store.note(breaches)
        self._changed()
        self._report_late(call, breaches, None)

    def _unsound(self, call: Reservation, failed: Asked, result: Any) -> Violation | None:
        found = found_breach.of_conditions(call.tool, "postcondition", failed, self._mode)
        return self.records.record(call, found, result=seen_of(call, result))[0] if found else None

    def _unwritten(self, call: Reservation, fault: str | None, result: Any) -> Violation | None:
        if fault is None:
            return None
        finding = found_breach.of_commit(call.tool, fault, self._mode)
        return self.records.record(call, [finding], result=seen_of(call, result))[0]

    def _concluded(self, call: Reservation, result: Any, found: Violation | None) -> Violation | None:
        if found is None:
            self._succeeded(call, result, self.store.commit(call, result))
            return None
        # A result that must not be used is a failed call: it allows nothing.
        self._report_late(call, self.store.abort(call, ran=True), result)
        self._finish(call, "fail")
        if not self._watching:
            return found
        self._trace(call, result)
        return None

    def _succeeded(self, call: Reservation, result: Any, over: list[Breach] | None) -> None:
        self._finish(call, "commit")
        if call.altered:
            self._trace(call, result)
        else:
            self.rows.add(call.step, call.tool, call.args, result)
        if over:
            self._report_late(call, over, result)

    def _report_late(self, call: Reservation, over: list[Breach] | None, result: Any) -> None:
        # It could not be refused any more, and is not passed over.
        if over:
            found = [found_breach.of_breach(breach, self._mode) for breach in over]
            self.records.record(call, found, result=seen_of(call, result))

    def _trace(self, call: Reservation, result: Any) -> None:
        args = _ran(call) if call.shown is None else call.shown
        self.rows.add(call.step, call.tool, args, seen_of(call, result))


def _ran(call: Reservation) -> dict[str, Any]:
    return call.args if call.final is None else call.final


def check_mode(mode: object) -> None:
    """
    Accept the mode of a session, and nothing else.

    Raises:
        ValueError: It is none.
    """
    if mode not in ("enforce", "shadow"):
        raise ValueError(f"mode must be 'enforce' or 'shadow', got {shown(mode)}")
