"""
Two hundred runs at once, against an oracle that takes their events one after the other.

Half of the runs share sessions. Calls succeed, fail, are cancelled, are refused by Core or by a person, or
have results that must not be used, as a seeded plan says; whole runs are cancelled too. What really happened
is written down where it happens: in the bodies of the calls, and by the callers. The oracle knows the order
in which the contracts saw reservations and settlements, and nothing else of the engine: it counts by hand.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import (
    ApprovalRejectedError,
    ContractRefusedError,
    GovernanceBlockedError,
    create_openbox_agentrt,
)
from openbox_agentrt.acel import (
    Check,
    Metrics,
    Session,
    at_most_n_times,
    at_most_total,
    must_precede,
    required_before_session_end,
)
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.evidence import read_entries, verify_file
from openbox_agentrt.local_core import LocalCore

RUNS = 200
SHARED = 10
BUDGET, MAILS = 100, 4

TOTAL = at_most_total("pay", "amount", BUDGET)
COUNT = at_most_n_times("mail", MAILS)
ORDER = must_precede("backup", "delete")
DUTY = required_before_session_end("backup")
SOUND = Check(lambda state, result: result != "unsound", "the backup is sound")

PLANS = ("fine", "fine", "fine", "raises", "unsound", "cancelled", "blocked", "approved", "rejected")


class Call:
    """One call of the plan, and what became of it."""

    def __init__(self, number: int, dice: random.Random) -> None:
        self.tool = dice.choice(("pay", "mail", "backup", "delete"))
        self.plan = dice.choice(PLANS)
        self.amount = dice.randrange(1, 40)
        self.arguments = {"id": number, "plan": self.plan, "amount": self.amount}
        self.ran = False
        self.ended = ""
        self.seen = "not started"


class Oracle:
    """One session, by hand."""

    def __init__(self) -> None:
        self.spent = self.mails = 0
        self.backed_up = False

    def broken_by(self, call: Call) -> set[str]:
        broken = {
            "pay": self.spent + call.amount > BUDGET and TOTAL.spec,
            "mail": self.mails + 1 > MAILS and COUNT.spec,
            "delete": not self.backed_up and ORDER.spec,
        }.get(call.tool)
        return {broken} if isinstance(broken, str) else set()

    def count(self, call: Call, sign: int) -> None:
        self.spent += sign * call.amount * (call.tool == "pay")
        self.mails += sign * (call.tool == "mail")

    def settle(self, call: Call) -> None:
        if not call.ran:
            self.count(call, -1)
        elif call.tool == "backup" and call.ended == "fine":
            self.backed_up = True


class Watched(Session):
    """A session that writes down in which order it was asked what."""

    def __init__(self, name: str, metrics: Metrics) -> None:
        super().__init__(
            contracts=[TOTAL, COUNT, ORDER, DUTY], session_id=name, metrics=metrics, max_trace=50
        )
        self.register_tool("backup", postcondition=[SOUND])
        self.log: list[tuple[str, int, set[str]]] = []
        self.unsound = 0
        engine: Any = engine_of(self)
        settle, give_up = engine.asettle, engine.give_up

        async def asettle(call: Any, result: Any) -> Any:
            violation = await settle(call, result)
            self.unsound += violation is not None
            self._settled(call)
            return violation

        def gave_up(call: Any, *, ran: bool) -> None:
            give_up(call, ran=ran)
            self._settled(call)

        engine.asettle, engine.give_up = asettle, gave_up

    async def areserve(self, tool: str, args: Any = None, **kwargs: Any) -> Any:
        reservation = await super().areserve(tool, args, **kwargs)
        if args and "id" in args:
            refusal = reservation.refusal
            broken = set() if refusal is None else {broken.contract for broken in refusal.broken}
            self.log.append(("reserve", args["id"], broken))
        return reservation

    def _settled(self, call: Any) -> None:
        if "id" in call.args:
            self.log.append(("settle", call.args["id"], set()))


class World:
    def __init__(self, seed: int, evidence: Path) -> None:
        self.dice = random.Random(seed)
        self.calls: dict[int, Call] = {}
        self.sessions: dict[str, Watched] = {}
        self.metrics = Metrics()
        self.told: list[Any] = []
        self.evidence = evidence
        self.core = LocalCore(self.policy)
        self.owners: dict[str, Any] = {}

    def policy(self, event: Mapping[str, Any]) -> Any:
        if event["event_type"] != "ActivityStarted":
            return None
        plan = event["activity_input"][0]["plan"]
        return {"blocked": "BLOCK", "approved": "REQUIRE_APPROVAL", "rejected": "REQUIRE_APPROVAL"}.get(plan)

    def session(self, name: str) -> Watched:
        assert name not in self.sessions
        self.sessions[name] = Watched(name, self.metrics)
        return self.sessions[name]

    def new_call(self) -> Call:
        call = Call(len(self.calls), self.dice)
        self.calls[len(self.calls)] = call
        return call

    async def person(self) -> None:
        """Decides as planned, whatever comes up."""
        decided: set[str] = set()
        while True:
            for approval in self.core.pending_approvals():
                plan = approval.event["activity_input"][0]["plan"]
                if approval.activity_id not in decided:
                    decided.add(approval.activity_id)
                    (self.core.approve if plan == "approved" else self.core.reject)(approval)
            await asyncio.sleep(0.05)

    async def perform(self, call: Call) -> None:
        """One call. What the caller sees is in `seen`, what the body did in `ran` and `ended`."""
        call.seen = "interrupted"
        try:
            async with self.governance.activity(call.tool, call.arguments) as activity:
                call.ran = True
                call.ended = "interrupted"
                await asyncio.sleep(self.nap)
                if call.plan == "raises":
                    call.ended = "failed"
                    raise ValueError("it failed")
                if call.plan == "cancelled":
                    call.ended = "failed"
                    raise asyncio.CancelledError
                call.ended = activity.output = "unsound" if call.plan == "unsound" else "fine"
            call.seen = "fine"
        except ContractRefusedError as error:
            call.seen = "unsound" if error.ran else "refused"
        except ApprovalRejectedError:
            call.seen = "rejected"
        except GovernanceBlockedError:
            call.seen = "blocked"
        except ValueError:
            call.seen = "raised"
        except asyncio.CancelledError:
            call.seen = "cancelled"
            if call.ended != "failed":
                raise  # the run was cancelled, not the body

    @property
    def nap(self) -> float:
        return self.dice.random() * 0.01

    async def one_run(self, number: int) -> None:
        session_id = f"shared-{number % SHARED}" if number % 2 else None
        batches = [[self.new_call() for _ in range(self.dice.randrange(1, 4))] for _ in range(3)]
        fails = self.dice.random() < 0.1
        await asyncio.sleep(self.nap * 5)
        async with self.governance.run_scope(session_id=session_id) as run:
            self.owners[session_id or run.workflow_id] = run
            for batch in batches:
                await asyncio.gather(*(self.perform(call) for call in batch))
            if fails:
                raise LookupError("the run fails")

    async def play(self) -> None:
        self.governance = await create_openbox_agentrt(
            core=self.core,
            environ={},
            contracts=self.session,
            evidence=self.evidence,
            record="all",
            metrics=self.metrics,
            on_decision=self.told.append,
            approval_poll_interval_ms=50,
            install_instrumentation=False,
        )
        person = asyncio.create_task(self.person())
        async with self.governance:
            runs = [asyncio.create_task(self.one_run(number)) for number in range(RUNS)]
            for run in self.dice.sample(runs, RUNS // 10):
                asyncio.get_running_loop().call_later(self.dice.random() * 0.4, run.cancel)
            outcomes = await asyncio.gather(*runs, return_exceptions=True)
        person.cancel()
        with suppress(asyncio.CancelledError):
            await person
        wrong = [o for o in outcomes if o and not isinstance(o, LookupError | asyncio.CancelledError)]
        assert wrong == []


@pytest.fixture(scope="module", params=[1, 2], ids=lambda seed: f"seed-{seed}")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(request.param, tmp_path_factory.mktemp("runs") / "evidence.jsonl")
    asyncio.run(world.play())
    yield world
    world.core.close()


def replayed(world: World) -> tuple[dict[str, Oracle], Counter[str]]:
    """Every session as the oracle sees it, and how often each contract was broken. It checks each answer."""
    oracles: dict[str, Oracle] = {}
    broken: Counter[str] = Counter()
    for name, session in world.sessions.items():
        oracle = oracles[name] = Oracle()
        for what, number, said in session.log:
            call = world.calls[number]
            if what == "settle":
                oracle.settle(call)
                continue
            expected = oracle.broken_by(call)
            assert said == expected, (name, call.tool, call.arguments)
            broken.update(expected)
            if not expected:
                oracle.count(call, 1)
    return oracles, broken


def unsound(world: World) -> int:
    """Count results that were found unsound; a run that is cancelled then may not show it to its caller."""
    seen = sum(call.seen == "unsound" for call in world.calls.values())
    interrupted = sum(
        call.ended == "unsound" and call.seen in ("cancelled", "interrupted") for call in world.calls.values()
    )
    found = sum(session.unsound for session in world.sessions.values())
    assert seen <= found <= seen + interrupted
    return found


def undone(world: World, oracles: Mapping[str, Oracle]) -> int:
    """Sessions that ended without a backup. A run that was cancelled before it began ends none."""
    ended = {name for name, session in world.sessions.items() if session.closed is not None}
    assert all(not world.sessions[name].log for name in oracles.keys() - ended)
    return sum(not oracles[name].backed_up for name in oracles.keys() & ended)


def test_the_plan_has_everything_in_it(world: World) -> None:
    """Or the tests below would compare nothing with nothing."""
    seen = Counter(call.seen for call in world.calls.values())
    assert {"fine", "refused", "unsound", "rejected", "blocked", "raised", "cancelled"} <= set(seen)
    assert len(world.sessions) > RUNS / 4
    assert sum(seen.values()) > 2 * RUNS


def test_every_answer_of_the_contracts_is_the_oracles(world: World) -> None:
    """In the order in which they were asked; and every call that was let through was settled once."""
    replayed(world)
    for session in world.sessions.values():
        admitted = Counter(number for what, number, broken in session.log if what == "reserve" and not broken)
        settled = Counter(number for what, number, _ in session.log if what == "settle")
        assert admitted == settled
        assert max(admitted.values(), default=1) == 1


def test_totals_are_those_of_the_calls_that_ran(world: World) -> None:
    """Nothing is left in flight, and what is counted is what bodies did - not what was asked for."""
    oracles, _ = replayed(world)
    for name, session in world.sessions.items():
        mine = {number for _, number, _ in session.log}
        ran = [call for number, call in world.calls.items() if number in mine and call.ran]
        assert session.in_flight == 0
        assert oracles[name].spent == sum(call.amount for call in ran if call.tool == "pay")
        assert oracles[name].spent <= BUDGET
        assert oracles[name].mails == sum(call.tool == "mail" for call in ran) <= MAILS


def test_what_was_refused_did_not_run(world: World) -> None:
    """Whoever refused it."""
    for call in world.calls.values():
        assert call.ran is (call.seen in ("fine", "unsound", "raised")) or call.seen in (
            "cancelled", "interrupted",
        ), call.__dict__  # fmt: skip


def test_the_evidence_agrees(world: World) -> None:
    """Each broken contract once, under its session, in a log that verifies; and every decision."""
    oracles, broken = replayed(world)
    entries = list(read_entries(world.evidence))
    violations = [entry for entry in entries if entry.type == "violation"]

    assert verify_file(world.evidence).ok
    assert Counter(entry.data["spec"] for entry in violations) == broken + Counter(
        {SOUND.description: unsound(world), DUTY.spec: undone(world, oracles)}
    )
    for entry in violations:
        number = entry.data["args"].get("id")
        assert number is None or any(n == number for _, n, _ in world.sessions[str(entry.session_id)].log)
    assert sum(entry.type == "decision" for entry in entries) == len(world.told)


def test_the_metrics_agree(world: World) -> None:
    """With the oracle for violations, and with what callers saw for decisions."""
    oracles, broken = replayed(world)
    counted = world.metrics.snapshot()
    seen = Counter(call.seen for call in world.calls.values())

    assert counted["violations_by_contract"] == dict(
        broken + Counter({SOUND.description: unsound(world), DUTY.spec: undone(world, oracles)})
    )
    decisions = counted["decisions"]
    assert decisions["block by contracts"] == seen["refused"] + unsound(world)
    # A run that is cancelled while Core hears of a refusal does not show it to its caller.
    unseen = decisions["block by core"] - seen["blocked"] - seen["rejected"]
    assert 0 <= unseen <= seen["cancelled"] + seen["interrupted"]
    approved = [call for call in world.calls.values() if call.plan == "approved" and call.ran]
    assert decisions["require_approval by core"] == len(approved)
    plain = [c for c in world.calls.values() if c.ran and c.plan != "approved"]
    # An allowed call whose run was cancelled before its body began has a decision and no body.
    allowed = decisions["allow by core"] - len(plain)
    assert 0 <= allowed <= seen["cancelled"] + seen["interrupted"]
    assert decisions["allow by contracts"] == undone(world, oracles)
    assert sum(decisions.values()) == len(world.told)
    assert counted["core_retries"] == 0
    assert counted["core_unreachable"] == {}


def test_core_saw_every_call_that_was_not_refused_here(world: World) -> None:
    """One row each, and none for a local refusal, of which there is a signal."""
    told = [record.event for record in world.core.records() if record.same_as is None]
    rows = Counter(
        event["activity_input"][0]["id"] for event in told if event["event_type"] == "ActivityStarted"
    )
    refused = {number for number, call in world.calls.items() if call.seen == "refused"}
    assert not refused & set(rows)
    assert max(rows.values()) == 1
    assert {n for n, c in world.calls.items() if c.ran} <= set(rows)
    signals = [event for event in told if event.get("signal_name") == "contract_violation"]
    enforced = [signal for signal in signals if signal["contract_violation"]["enforced"]]
    assert len(enforced) == len(refused)


def test_every_row_and_every_run_is_closed(world: World, balance: Callable[[LocalCore], list[str]]) -> None:
    """Once, whatever happened in it."""
    assert balance(world.core) == []
