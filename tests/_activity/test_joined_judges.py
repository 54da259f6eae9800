"""
Every way in which contracts, Core and the work itself can come together, from a table.

``tests/cases/joined_judges.csv`` has one row for each: what the contracts say, what Core answers or how it
fails, what the work does - and then whether it ran, whether what the contracts had reserved was kept, whether
the call now allows what depends on it, how Core's row was closed, what the caller and the model see, how many
violations are in the evidence, and what the decision says.
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt.acel import EvidenceLog, Session, at_most_n_times, at_most_total, must_precede
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Fault, FaultyCore

CASES = Path(__file__).parents[1] / "cases" / "joined_judges.csv"
TABLE = list(csv.DictReader(CASES.read_text(encoding="utf-8").splitlines()))

FAULTS = {
    "outage_open": Fault.respond(503),
    "outage_closed": Fault.respond(503),
    "unauthorized": Fault.respond(401),
    "unprocessable": Fault.respond(422),
    "unknown": Fault.altered(verdict="quarantine", action=...),
}
ANSWERS: Mapping[str, Any] = {
    "constrain": {"decision": "CONSTRAIN", "constraints": ["slowly"]},
    "approved": {"decision": "REQUIRE_APPROVAL"},
    "rejected": {"decision": "REQUIRE_APPROVAL"},
    "expired": {"decision": "REQUIRE_APPROVAL"},
    "block": {"decision": "BLOCK", "reason": "no"},
    "halt": {"decision": "HALT", "reason": "stop"},
}
SPENT = at_most_total("pay", "amount", 100)
FIRST = must_precede("pay", "ship")


def guard(core: str) -> Any:
    def guard(event: Mapping[str, Any]) -> Any:
        if event.get("activity_type") != "pay" or event["event_type"] != "ActivityStarted":
            return None
        if core == "redact":
            return {"input_type": "activity_input", "redacted_input": [{"amount": 30, "to": "***"}]}
        if core == "guardrail":
            return {"validation_passed": False, "reasons": [{"type": "t", "field": "to", "reason": "odd"}]}
        return None

    return guard


class World:
    """One governed `pay` tool, and everything that can be looked at afterwards."""

    def __init__(
        self, row: Mapping[str, str], on_tool_block: Literal["raise", "return_error"], kit: Any
    ) -> None:
        self.row = row
        self.ran: list[Mapping[str, Any]] = []
        self.log = EvidenceLog()
        self.session = Session(
            mode="shadow" if row["contracts"] == "shadow" else "enforce",
            evidence=self.log,
            contracts=[SPENT, FIRST] + ([] if row["contracts"] == "allowed" else [at_most_n_times("pay", 0)]),
        )
        self.session.register_tool("pay", postcondition=lambda state, result: result != "unsound")
        self.core = LocalCore(self.policy, guardrails=guard(row["core"]))
        self.registry = kit.registry({"pay": self.pay})
        self.call = kit.call("pay", {"amount": 30, "to": "ada"})
        self.on_tool_block = on_tool_block
        self.run: Any = None

    def policy(self, event: Mapping[str, Any]) -> Any:
        starts = event["event_type"] == "ActivityStarted" and event["activity_type"] == "pay"
        return ANSWERS.get(self.row["core"]) if starts else None

    async def pay(self, **arguments: Any) -> str:
        self.ran.append(arguments)
        if self.row["body"] == "raises":
            raise ValueError("the bank is closed")
        if self.row["body"] == "cancelled":
            raise asyncio.CancelledError
        return "unsound" if self.row["body"] == "unsound" else "paid"

    async def decide(self) -> None:
        decide = {"approved": self.core.approve, "rejected": self.core.reject, "expired": self.core.expire}
        decide[self.row["core"]](await self.core.await_approval())

    @asynccontextmanager
    async def person(self) -> AsyncIterator[None]:
        if self.row["core"] not in ("approved", "rejected", "expired") or self.row["contracts"] == "refused":
            yield
            return
        task = asyncio.create_task(self.decide())
        yield
        await task

    async def perform(self) -> Any:
        """What the caller of the tool gets: a value, or an error."""
        fault = FAULTS.get(self.row["core"])
        with FaultyCore(self.core) as server:
            governance = await create_openbox_agentrt(
                environ={},
                api_url=server.url,
                api_key=server.api_key,
                on_api_error="fail_closed" if self.row["core"] == "outage_closed" else "fail_open",
                gate_budget_seconds=0.2 if self.row["core"].startswith("outage") else 10,
                contracts=lambda: self.session,
                on_tool_block=self.on_tool_block,
                approval_poll_interval_ms=5,
                install_instrumentation=False,
            )
            async with governance:
                registry = governance.wrap_tool_registry(self.registry)
                with suppress(Exception):  # a halt ends the run as well; it is looked at below
                    async with governance.run_scope() as self.run:
                        with server.always(fault) if fault else nullcontext():
                            async with self.person():
                                try:
                                    outcome: Any = await registry.execute(self.call)
                                except BaseException as error:  # noqa: BLE001 - the subject of the test
                                    outcome = error
                        # Before the run, and with it the session, ends.
                        self.remaining = self.session.reserve("pay", {"amount": 71}).violations
                        self.ship = self.session.reserve("ship").violations
                        self.recorded = list(self.log.bundles)
        return outcome

    def rows(self) -> list[str]:
        closed = [
            event["status"]
            for event in self.core.events()
            if event["event_type"] == "ActivityCompleted" and event["activity_type"] == "pay"
        ]
        return closed or ["none"]


def rows_of_the_table() -> list[Any]:
    return [pytest.param(row, id=f"{row['contracts']}-{row['core']}-{row['body']}") for row in TABLE]


@pytest.mark.parametrize("row", rows_of_the_table())
async def test_the_judges_join_as_the_table_says(row: Mapping[str, str], kit: Any) -> None:
    """One cell: the caller's side, the contracts', Core's, and the record."""
    world = World(row, "raise", kit)

    outcome = await world.perform()

    broken = {violation.spec for violation in world.remaining}
    pays = [decision for decision in world.run.decisions if decision.event == "pay"]
    last = pays[-1] if pays else None
    seen = {
        "ran": "yes" if world.ran else "no",
        "reservation": "kept" if SPENT.spec in broken else "returned",
        "allows": "no" if FIRST.spec in {violation.spec for violation in world.ship} else "yes",
        # What is told in an outage may be lost, or arrive when it is over.
        "row": "unknown" if row["row"] == "unknown" else ",".join(world.rows()),
        "raises": type(outcome).__name__ if isinstance(outcome, BaseException) else "",
        "verdict": "" if last is None else first_verdict(pays),
        "source": "" if last is None else pays[0].source,
    }
    assert seen == {name: row[name] for name in seen}
    assert len([bundle for bundle in world.recorded if bundle.violation["step"] == 1 + 1]) == int(
        row["violations"]
    )
    if row["core"] == "redact" and world.ran:
        assert world.ran == [{"amount": 30, "to": "***"}]


def first_verdict(decisions: list[Any]) -> str:
    verdict: str = decisions[0].verdict.value
    return verdict


@pytest.mark.parametrize("row", rows_of_the_table())
async def test_the_model_sees_what_the_table_says(row: Mapping[str, str], kit: Any) -> None:
    """With ``on_tool_block="return_error"`` a refusal is a tool error, unless nobody may go on after it."""
    world = World(row, "return_error", kit)

    outcome = await world.perform()

    if isinstance(outcome, BaseException):
        assert row["model"] == "raises"
    elif isinstance(outcome, Mapping):
        assert outcome["error"]["type"] == row["model"]
    else:
        assert row["model"] == "result"


def test_the_table_has_every_cell() -> None:
    """Nothing was left out: each answer for contracts that agree, that only watch, and that refuse."""
    cells = {(row["contracts"], row["core"], row["body"]) for row in TABLE}
    cores = {row["core"] for row in TABLE}

    assert len(cells) == len(TABLE) == 72
    for contracts in ("allowed", "shadow", "refused"):
        assert {row["core"] for row in TABLE if row["contracts"] == contracts} == cores
