"""
Keep what the store of a fleet answered a hook in the log of its session, and give it again at its end.

Nobody can ask the store again what it said, and the steps of a session are written by another process than
those that asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from openbox_agentrt.acel.engine.journal.journaled_store import in_log_order
from openbox_agentrt.fleet import FleetError
from openbox_agentrt.fleet.answers import BrokenGuard, Finished, How, Lease, Measured, Reserved

if TYPE_CHECKING:
    from openbox_agentrt.acel.engine.fleet.fleet_gate import FleetStore
    from openbox_agentrt.acel.engine.fleet.fleet_question import FleetQuestion
    from openbox_agentrt.fleet.plan import FleetPlan

_NOTHING = asdict(BrokenGuard(guard=0))


def lease_line(lease: Lease) -> dict[str, Any]:
    """Give a lease as a line of the log holds it."""
    return {"id": lease.id, "worker": lease.worker, "cells": list(lease.cells)}


def lease_in(line: Mapping[str, Any]) -> Lease:
    """Read a lease that `lease_line` gave."""
    return Lease(id=line["id"], worker=line["worker"], cells=tuple(line["cells"]))


class HeardStore:
    """
    Ask a store, and remember what it answered.

    Args:
        store: The store.
    """

    def __init__(self, store: Any) -> None:
        self._store: FleetStore = store
        self._answer: Reserved | str | None = None
        self.halts = store.halts
        self.areserve = store.areserve
        self.would = store.would
        self.start = store.start
        self.astart = store.astart
        self.finish = store.finish
        self.record = store.record

    def reserve(self, plan: FleetPlan, *, started: bool = False, force: bool = False) -> Reserved:
        """Do as the store does."""
        try:
            answer = self._store.reserve(plan, started=started, force=force)
        except FleetError as error:
            self._answer = str(error)
            raise
        self._answer = answer
        return answer

    def line(self, question: FleetQuestion) -> Mapping[str, Any]:
        """Give what was answered to a question as a line of the log holds it; nothing if nobody asked."""
        answer = self._answer
        if answer is None:
            return {}
        if isinstance(answer, str):
            return {"answer": {"unavailable": answer}}
        # Guards are numbered as a log has their contracts: the rules may be written in another order by then.
        contracts = [contract for contract, _, _ in question.asked]
        places = {id(contract): place for place, contract in enumerate(in_log_order(contracts))}
        order = sorted(range(len(contracts)), key=lambda guard: places[id(contracts[guard])])
        told = [{**_told(broken), "guard": order.index(broken.guard)} for broken in answer.broken]
        return {"answer": {"now": answer.now, "generation": answer.generation, "broken": told}}


def _told(broken: BrokenGuard) -> dict[str, Any]:
    return {name: value for name, value in asdict(broken).items() if value != _NOTHING[name]}


class AnsweringStore:
    """
    Answer about each call as the store did, for a session whose contracts are in the order of a log.

    Attributes:
        line: The line of the call at hand.
    """

    def __init__(self) -> None:
        self.line: Mapping[str, Any] = {}

    def reserve(self, plan: FleetPlan, *, started: bool = False, force: bool = False) -> Reserved:
        """Give the answer of the line. One that was not asked about has none, and nothing in its way."""
        answer = self.line.get("answer", {})
        if "unavailable" in answer:
            raise FleetError(answer["unavailable"])
        lease = self.line.get("lease")
        return Reserved(
            lease=None if lease is None else lease_in(lease),
            broken=tuple(BrokenGuard(**each) for each in answer.get("broken", ())),
            now=answer.get("now", 0),
            generation=answer.get("generation", ""),
        )

    async def areserve(self, plan: FleetPlan, *, started: bool = False, force: bool = False) -> Reserved:
        """Do as `reserve`."""
        return self.reserve(plan, started=started, force=force)

    def would(self, plan: FleetPlan) -> Reserved:
        """Do as `reserve`."""
        return self.reserve(plan)

    def start(self, lease: Lease) -> bool:
        """Say that it may."""
        return True

    async def astart(self, lease: Lease) -> bool:
        """Say that it may."""
        return True

    def finish(self, lease: Lease, how: How, *, measured: Measured | None = None) -> Future[Finished]:
        """Take no note of it: the hook after the call has told the store."""
        done: Future[Finished] = Future()
        done.set_result(Finished(said="ok"))
        return done

    def record(self, plan: FleetPlan, how: How) -> None:
        """Take no note of it."""
