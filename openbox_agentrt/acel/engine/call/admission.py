"""
The way of a call into a session: it is judged, and reserved or refused.

This is the part of a session that has an order to keep. What runs other people's code comes before or
after the store is asked, never inside; and whatever happens, a call that was let through is settled.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from ...._plain.arguments import plain_args
from ...contracts.base import MALFORMED
from ...contracts.rules import Guard
from ...match.keys import NOBODY, About
from ...memory.deferred import read_deferred
from ...memory.guard import Breach, NeverHolds, blocked_by
from ...refusal import Refusal
from ...reservation import Reservation
from ..record import found_breach
from ..record.found_breach import FoundBreach
from .settlement import Settlement

if TYPE_CHECKING:
    from ....fleet.answers import Lease
    from ...contracts.tools import Asked
    from ..plan.tool_plan import Plan


class Admission(Settlement):
    """
    Judge the calls of one session, and let them through or refuse them.

    See `Settlement` for what becomes of a call that was let through.
    """

    _plans: Mapping[str, Plan]

    def reserve(
        self,
        tool: str,
        args: Mapping[str, Any] | None,
        started: bool,
        about: About | None = None,
        deferred: Collection[str] | Mapping[str, Any] = (),
        kind: type[Reservation] = Reservation,
    ) -> Reservation:
        """
        Judge a call, and let it through if every contract in force agrees; see `Session.reserve`.

        Args:
            tool: Name of the tool.
            args: Its arguments.
            started: Whether it runs as soon as it is let through, so that nobody says when it starts.
            about: Whose call it is, if not whose the session is.
            deferred: Arguments whose values are known only once the call has run.
            kind: With `gate.Gate`, as `precheck` gives it, a prerequisite counts from now.
        """
        if about is not None or deferred or not self._is_plain:
            began = 0.0 if self._meter is None else time.perf_counter()
            call = self._entered(tool, args, about, deferred, kind)
            return self._reserve_asking(call, began, started=started)
        if type(tool) is str and type(args) is dict:
            plan = self._plans.get(tool) or self.store.book.plan(tool)
            call = kind(self, plan.tool, plain_args(args), plan)
        else:
            call = self.enter(tool, args, kind)
            plan = call.plan
        if plan.fleet:
            return self._reserve_asking(call, 0.0, started=started)
        failed = None if plan.spec is None else plan.spec.before(self.view, call.args)
        breaches = self.store.reserve(call, None, False, failed)
        # What has failed is refused, so something is told of it.
        if breaches is not None or (call.extra is not None and call.extra.faults):
            self._judged(call, failed or [], breaches or [], 0.0)
        return call

    def _reserve_asking(self, call: Reservation, began: float, *, started: bool) -> Reservation:
        """Judge a call by more than the contracts of a session that nobody else knows of."""
        away = None if self._kept is None else self._kept.hold()
        spec = call.plan.spec
        failed = None if spec is None else spec.before(self.view, call.args)
        breaches = self._reserve(call, failed, away)
        if call.plan.fleet and call.admitted and self._fleet is not None:
            more = self._fleet.reserve(call, watching=self._watching, started=started)
            breaches = self._beside(call, breaches, more, reserving=True)
        if started and call.written is not None and self._kept is not None:
            breaches = self._unless_kept(call, breaches, self._kept.written(call))
        if breaches or failed or began or call.extra is not None:
            self._judged(call, failed or [], breaches or [], began)
        return call

    async def areserve(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        deferred: Collection[str] | Mapping[str, Any] = (),
        about: About | None = None,
        started: bool = False,
        lease: Lease | None = None,
    ) -> Reservation:
        """Do as `reserve`, and wait for conditions that have to be awaited. `lease` is reserved already."""
        began = 0.0 if self._meter is None else time.perf_counter()
        call = self._entered(tool, args, about, deferred)
        away = None if self._kept is None else await self._kept.ahold()
        spec = call.plan.spec
        failed = None if spec is None else await spec.abefore(self.view, call.args)
        breaches = self._reserve(call, failed, away)
        try:
            if call.plan.fleet and call.admitted and self._fleet is not None:
                more = await self._fleet.areserve(call, watching=self._watching, started=started, lease=lease)
                breaches = self._beside(call, breaches, more, reserving=True)
            if started and call.written is not None and self._kept is not None:
                breaches = self._unless_kept(call, breaches, await self._kept.awritten(call))
        except BaseException:
            # Cancelled: it never ran, and what the store may have is given back there.
            if not call.finished:
                call.claim()
                self.store.abort(call, ran=False)
            self._finish(call, "undo")
            raise
        if breaches or failed or began or call.extra is not None:
            self._judged(call, failed or [], breaches or [], began)
        return call

    def start(self, call: Reservation) -> bool:
        """Say that the tool of a reserved call runs now. Returns whether it may: if not, it is refused."""
        if call.written is not None and self._kept is not None:
            more = self._kept.written(call)
            if not self._is_kept(call, more):
                return False
        if call.lease is None or self._fleet is None:
            return call.admitted
        return self._started(call, self._fleet.start(call, watching=self._watching))

    async def astart(self, call: Reservation) -> bool:
        """Do as `start`, without blocking the event loop."""
        if call.written is not None and self._kept is not None:
            more = await self._kept.awritten(call)
            if not self._is_kept(call, more):
                return False
        if call.lease is None or self._fleet is None:
            return call.admitted
        return self._started(call, await self._fleet.astart(call, watching=self._watching))

    def would(
        self,
        tool: str,
        args: Mapping[str, Any] | None,
        *,
        deferred: Collection[str] | Mapping[str, Any] = (),
        about: About | None = None,
    ) -> Refusal | None:
        """Give the refusal that `reserve` would make of a call now, or None. Nothing moves."""
        away = [] if self._kept is None else self._kept.hold()
        call = self._entered(tool, args, about, deferred)
        spec = call.plan.spec
        failed = None if spec is None else spec.before(self.view, call.args)
        breaches = away or self.store.would(call)
        refused = failed or blocked_by(breaches)
        if call.plan.fleet and self._fleet is not None and not (refused or self._watching):
            breaches = [*breaches, *self._fleet.would(call)]
        found = self._found(call, failed or [], breaches)
        if self._watching:
            found = [finding for finding in found if finding.mode == "enforce"]
        broken = tuple(finding.broken for finding in found if finding.stops)
        return Refusal(tool=call.tool, step=call.step, broken=broken) if broken else None

    def recheck(self, call: Reservation) -> bool:
        """Judge a call again that has waited and is about to run. One that may not is refused."""
        breaches = self.store.recheck(call)
        if not breaches:
            return True
        said = call.violations
        if not call.watched and blocked_by(breaches):
            call.claim()
            self.store.abort(call, ran=False)
            self._finish(call, "undo")
            call.admitted = False
        self._changed()
        self._report(call, [], breaches)
        call.violations = (*said, *call.violations)
        return call.admitted

    async def arecheck(self, call: Reservation) -> bool:
        """Do as `recheck`, and ask the store of the fleet as well."""
        if not self.recheck(call):
            return False
        if call.lease is None or self._fleet is None:
            return True
        said = call.violations
        more = await self._fleet.arecheck(call, watching=self._watching)
        admitted = self._started(call, more)
        if more:
            call.violations = (*said, *call.violations)
        return admitted

    def enter(self, tool: Any, args: Any, kind: type[Reservation] = Reservation) -> Reservation:
        """Take in a call of any shape, before it is judged."""
        name = tool if type(tool) is str else str.__str__(tool) if isinstance(tool, str) else None
        own: dict[str, Any] | None = {}
        if args is not None:
            try:
                own = plain_args(args) if isinstance(args, Mapping) else None
            except Exception:  # noqa: BLE001 - a mapping whose own code raises is as good as none
                own = None
        plan = self.store.book.plan(type(tool).__name__ if name is None else name)
        call = kind(self, plan.tool, own or {}, plan)
        if name is None or own is None:
            # What a model sends may have any shape. It is refused like any other call, not raised.
            call.extra = plan.ask({}).also([NeverHolds(MALFORMED, Guard(kind="never"))])
        return call

    def _entered(
        self,
        tool: str,
        args: Any,
        about: About | None,
        deferred: Collection[str] | Mapping[str, Any],
        kind: type[Reservation] = Reservation,
    ) -> Reservation:
        call = self.enter(tool, args, kind)
        if about or self._about:
            call.about = about or self._about or NOBODY
        if deferred:
            call.deferred = read_deferred(deferred)
            call.special = True
        return call

    def _reserve(
        self, call: Reservation, failed: Asked | None, away: list[Breach] | None
    ) -> list[Breach] | None:
        """Judge a call by the contracts of the session; `away` is what stands against holding it."""
        refuse = None if self._watching else failed or away
        breaches = self.store.reserve(call, force=self._watching, refuse=refuse)
        if self._kept is None:
            return breaches
        if breaches or failed:
            # What was explained to somebody may be remembered as told.
            self._kept.changed()
        self._kept.judged(call)
        _note_unanswered(call, away)
        if away and not self._watching:
            # What is remembered here may be overtaken: what it breaks by that, says nothing.
            return away
        return [*away, *(breaches or ())] if away else breaches

    def _unless_kept(
        self, call: Reservation, breaches: list[Breach] | None, more: list[Breach]
    ) -> list[Breach] | None:
        """Put what stands against a call that is not kept beside the rest. It is taken back."""
        if not more or not call.admitted:
            return breaches
        _note_unanswered(call, more)
        if not self._watching:
            self.store.take_back(call, more)
            self._finish(call, "undo")
        return [*(breaches or ()), *more]

    def _is_kept(self, call: Reservation, more: list[Breach]) -> bool:
        said = call.violations
        if self._unless_kept(call, None, more):
            self._report(call, [], more)
            call.violations = (*said, *call.violations)
        return call.admitted

    def _judged(self, call: Reservation, failed: Asked, breaches: list[Breach], began: float) -> None:
        if self._meter is not None:
            self.records.measure(self._meter, time.perf_counter() - began)
        if call.extra is not None and call.extra.faults:
            call.faults = tuple(call.extra.faults.values())
        if breaches or failed:
            self._report(call, failed, breaches)

    def _beside(
        self, call: Reservation, local: list[Breach] | None, more: list[Breach], *, reserving: bool = False
    ) -> list[Breach] | None:
        """Put what the store says beside what the session says; what the store refuses is taken back."""
        if call.unanswered or (call.lease is not None and call.lease.local):
            self.records.count_outage("refuse" if call.unanswered else "local")
        self.store.hear(call, more)
        if not more:
            return local
        if not self._watching and blocked_by(more):
            if reserving:
                # Nobody else is asked about it, as about a call that the session refuses: nothing is hidden.
                call.shown = dict(call.args)
            self.store.take_back(call, more)
        else:
            self.store.note(more)
        return [*(local or ()), *more]

    def _started(self, call: Reservation, breaches: list[Breach]) -> bool:
        if breaches:
            self._beside(call, None, breaches)
            self._report(call, [], breaches)
        elif call.answer is not None:
            self.store.hear(call, [])
        return call.admitted

    def _report(self, call: Reservation, failed: Asked, breaches: list[Breach]) -> None:
        found = self._found(call, failed, breaches)
        if not call.admitted:
            broken = tuple(finding.broken for finding in found if finding.stops)
            call.refuse(Refusal(tool=call.tool, step=call.step, broken=broken))
        call.violations = self.records.record(call, found, blocked=not call.admitted)

    def _found(self, call: Reservation, failed: Asked, breaches: list[Breach]) -> list[FoundBreach]:
        found = found_breach.of_conditions(call.tool, "precondition", failed, self._mode)
        return found + [found_breach.of_breach(breach, self._mode) for breach in breaches]


def _note_unanswered(call: Reservation, breaches: list[Breach] | None) -> None:
    # Loaded here: the memory of most sessions is kept in no store.
    from .session_gate import is_unanswered

    call.unanswered |= is_unanswered(breaches)
