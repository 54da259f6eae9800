"""A run that waits for a person outlives its process: whichever worker resumes it uses the yes, once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError, GovernanceHaltError, GovernanceUnavailableError
from openbox_agentrt.acel import Session, at_most_n_times, at_most_total
from openbox_agentrt.fleet import Fleet, RedisFleet
from openbox_agentrt.fleet.survey import survey
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.local_core.server import running
from openbox_agentrt.testing import Call, ScriptedProvider
from tests.fleet.redis_server import RedisServer
from tests.fleet.runs.pausing import loaded, rules, saved


def asks(event: Any) -> Any:
    return "REQUIRE_APPROVAL" if event.get("activity_type") == "refund" else None


class Agent:
    """A governance with a worker of the store, and a loop."""

    def __init__(self, stage: Any, kit: Any, tools: Mapping[str, Callable[..., Any]], *steps: Any) -> None:
        self.stage, self.kit = stage, kit
        self.provider = ScriptedProvider(*steps)
        loop = AgentLoop(self.provider, tool_registry=kit.registry(tools))
        self.loop = stage.governance.govern_loop(loop)

    async def begin(self, said: str = "Refund 300.") -> str:
        """Run until a person is asked, and give the checkpoint as text."""
        result = await self.loop.run(self.kit.agent("Support"), [self.kit.user(said)])
        assert result.termination_reason == "waiting_for_approval"
        return saved(result.messages)

    async def resume(self, checkpoint: str) -> Any:
        return await self.loop.run(self.kit.agent("Support"), [], resume_checkpoint=loaded(checkpoint))


class Worker(Agent):
    """One that pays back."""

    def __init__(self, stage: Any, kit: Any, paid: list[int], *steps: Any) -> None:
        def refund(amount: int) -> str:
            paid.append(amount)
            return "refunded"

        super().__init__(stage, kit, {"refund": refund}, *steps)


@pytest.fixture
def paid() -> list[int]:
    return []


@pytest.fixture
def core() -> LocalCore:
    return LocalCore(asks)


@pytest.fixture
def worker(make_stage: Any, kit: Any, paid: list[int], core: LocalCore) -> Any:
    """Makes workers that ask one Core."""

    async def make(fleet: Fleet, *steps: Any, **options: Any) -> Worker:
        options = {"contracts": rules(), "approval_mode": "pause", "fleet": fleet, **options}
        stage = await make_stage(core=core, **options)
        return Worker(stage, kit, paid, *(steps or (Call(name="refund", arguments={"amount": 300}), "done")))

    return make


def left(fleet: Fleet, amount: int) -> bool:
    """Tell whether so much is left in the store."""
    reservation = Session(contracts=rules(), fleet=fleet).reserve("refund", {"amount": amount})
    if reservation.allowed:
        reservation.abort()
    return reservation.allowed


def approve(core: LocalCore, count: int = 1) -> None:
    """Approve all that waits."""
    waiting = core.pending_approvals()
    assert len(waiting) == count
    for each in waiting:
        core.approve(each)


async def test_another_worker_goes_on_with_the_yes(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Under the same ids, on what was reserved when the person was asked: 300 of 500 are never free."""
    first, second = await worker(fleet), await worker(other, "done")
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    fleet.close()
    assert not left(other, 300)
    approve(core)

    result = await second.resume(checkpoint)

    assert result.termination_reason == "completed"
    assert paid == [300]
    assert left(other, 200)
    assert not left(other, 201)
    assert first.stage.story() == [
        "WorkflowStarted",
        "SignalReceived user_prompt",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "ActivityStarted refund",
        "ActivityCompleted refund completed",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "WorkflowCompleted completed",
    ]
    assert len({event["run_id"] for event in first.stage.events()}) == 1


@pytest.mark.leaves_rows_open
async def test_a_yes_is_used_once(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Two resume at the same time, twice in one worker and in the one that still lives: one of them pays."""
    first = await worker(fleet)
    second, third = await worker(other, "done"), await worker(other, "done")
    checkpoint = await first.begin()
    approve(core)

    results = await asyncio.gather(
        *(each.resume(checkpoint) for each in (second, third, first)), return_exceptions=True
    )

    assert paid == [300]
    completed = [r for r in results if getattr(r, "termination_reason", None) == "completed"]
    assert len(completed) == 1


@pytest.mark.leaves_rows_open
async def test_who_still_lives_goes_on_itself(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """The lease is taken back from the store, so nobody else can."""
    first, second = await worker(fleet), await worker(other, "done", contracts=rules(1000))
    checkpoint = await first.begin()
    approve(core)

    assert (await first.resume(checkpoint)).termination_reason == "completed"
    again = await second.resume(checkpoint)

    assert again.termination_reason == "waiting_for_approval"
    assert paid == [300]


async def test_too_early_waits_again_anywhere(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Nobody has decided: it is parked once more, and the question is not put a second time."""
    first, second = await worker(fleet), await worker(other, "done")
    checkpoint = await first.begin()

    result = await second.resume(checkpoint)
    assert result.termination_reason == "waiting_for_approval"
    await second.stage.governance.aclose()
    third = await worker(fleet, "done")
    approve(core)

    assert (await third.resume(saved(result.messages))).termination_reason == "completed"
    assert paid == [300]


@pytest.mark.leaves_rows_open
async def test_what_another_program_parked_stays_parked(worker: Any, fleet: Fleet, other: Fleet) -> None:
    """A note that is not understood, as of another version, is somebody's who can go on with it."""
    first, second = await worker(fleet), await worker(other, "done", contracts=rules(1000))
    checkpoint = await first.begin()
    with closing(survey(fleet.url)) as store:
        parked = store.leases()[0].id
    taken = fleet.adopt(parked)
    assert taken is not None
    assert fleet.park(taken, 60, note="of another program")

    result = await second.resume(checkpoint)
    theirs = fleet.adopt(parked)

    assert result.termination_reason == "waiting_for_approval"
    assert theirs is not None
    assert theirs.note == "of another program"


@pytest.mark.leaves_rows_open
async def test_a_call_without_contracts_is_kept_too(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Its lease holds nothing and is there to be taken once."""
    first, second = await worker(fleet, contracts=None), await worker(other, "done", contracts=None)
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    approve(core)

    assert (await second.resume(checkpoint)).termination_reason == "completed"
    again = await second.resume(checkpoint)

    assert again.termination_reason == "waiting_for_approval"
    assert paid == [300]


@pytest.mark.leaves_rows_open
async def test_other_arguments_are_judged_afresh(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """What was judged is kept as a hash in the store: who changes the checkpoint has no yes."""
    first, second = await worker(fleet), await worker(other, "done", contracts=rules(1000))
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    approve(core)

    result = await second.resume(checkpoint.replace('"amount": 300', '"amount": 400'))

    assert result.termination_reason == "waiting_for_approval"
    assert paid == []


@pytest.mark.leaves_rows_open
async def test_somebody_elses_conversation_does_not_take_it(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Whoever quotes the lease's name in other words gets nothing, and takes nothing from its owner."""
    first, second = await worker(fleet), await worker(other, "done", "done", contracts=rules(1000))
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    approve(core)

    stolen = await second.resume(checkpoint.replace("Refund 300.", "Refund me."))
    assert stolen.termination_reason == "waiting_for_approval"
    assert paid == []

    assert (await second.resume(checkpoint)).termination_reason == "completed"
    assert paid == [300]


SECRET = "4111-1111-1111-1111"


def redacts(event: Any) -> Any:
    """Take the card's number out of whatever is shown; a refund needs a person."""
    what, given = event.get("activity_type"), event.get("activity_input") or event.get("signal_args")
    if "status" in event or SECRET not in json.dumps(given):
        return "REQUIRE_APPROVAL" if what == "refund" and "status" not in event else None
    clean = json.loads(json.dumps(given).replace(SECRET, "[card]"))
    verdict = "require_approval" if what == "refund" else "allow"
    return {
        "verdict": verdict,
        "guardrails_result": {"input_type": "activity_input", "redacted_input": clean},
    }


class CardWorker(Agent):
    """One whose user and model name a card."""

    def __init__(self, stage: Any, kit: Any, given: list[Any], *steps: Any) -> None:
        def refund(card: str, amount: int) -> str:
            given.append((card, amount))
            return f"refunded to {SECRET}"

        super().__init__(stage, kit, {"refund": refund}, *steps)

    async def begin(self, said: str = SECRET) -> str:
        return await super().begin(f"Refund 300 to {said}.")


CARD_RULES = [at_most_total("refund", "amount", 500, key="card", scope="fleet", per="month")]


@pytest.fixture
def card_worker(make_stage: Any, kit: Any) -> Any:
    """Makes workers whose Core takes out the card's number."""
    core = LocalCore(redacts)

    async def make(fleet: Fleet, given: list[Any], *steps: Any, **options: Any) -> CardWorker:
        options = {"contracts": CARD_RULES, "approval_mode": "pause", "fleet": fleet, **options}
        stage = await make_stage(core=core, **options)
        steps = steps or (Call(name="refund", arguments={"card": SECRET, "amount": 300}), "done")
        return CardWorker(stage, kit, given, *steps)

    return make


@pytest.mark.parametrize("gated", [True, False], ids=["every model call is judged", "prompts only"])
@pytest.mark.parametrize(
    ("said", "judged"), [(SECRET, "[card]"), ("my card", SECRET)], ids=["in the prompt", "in the call"]
)
async def test_what_was_redacted_stays_so_in_another_process(
    card_worker: Any, fleet: Fleet, other: Fleet, gated: bool, said: str, judged: str
) -> None:
    """The call runs with what a person was shown, on what was reserved; neither model nor Core sees more."""
    given: list[Any] = []
    gates = {"send_llm_start_event": gated, "send_llm_end_event": gated}
    first = await card_worker(fleet, given, **gates)
    second = await card_worker(other, given, "done", **gates)
    checkpoint = await first.begin(said)
    await first.stage.governance.aclose()
    assert not _left_for(other, judged, 201)
    shown = len(first.stage.events())
    approve(first.stage.core)

    result = await second.resume(checkpoint)

    assert result.termination_reason == "completed"
    assert given == [("[card]", 300)]
    assert SECRET not in repr(second.provider.requests)
    if not gated:  # else Core is shown the conversation again, and takes it out again
        assert SECRET not in json.dumps(first.stage.events()[shown:])
    assert not _left_for(other, judged, 201)


def _left_for(fleet: Fleet, card: str, amount: int) -> bool:
    """Tell whether so much is left for a card."""
    arguments = {"card": card, "amount": amount}
    reservation = Session(contracts=CARD_RULES, fleet=fleet).reserve("refund", arguments)
    if reservation.allowed:
        reservation.abort()
    return reservation.allowed


@pytest.mark.leaves_rows_open
async def test_neither_store_nor_checkpoint_tells_what_was_redacted(card_worker: Any, fleet: Fleet) -> None:
    """The store keeps hashes. The checkpoint names what was put in the place of the raw text it holds."""
    first = await card_worker(fleet, [])
    checkpoint = json.loads(await first.begin())
    with closing(survey(fleet.url)) as store:
        (lease,) = store.leases()
        notes = await fleet.aadopt(lease.id)
    assert notes is not None
    placeholder = json.dumps(checkpoint[-1])

    assert "openbox_redacted" in placeholder
    assert SECRET not in placeholder
    assert SECRET not in notes.note
    assert "[card]" not in notes.note


OTHER = "078-05-1120"


def redacts_both(event: Any) -> Any:
    """Take the card's number out of everything, and another one out of refunds."""
    shown = (
        json.loads(json.dumps(event).replace(OTHER, SECRET))
        if event.get("activity_type") == "refund"
        else event
    )
    return redacts(shown)


@pytest.mark.parametrize("open_one", ["sqlite"], indirect=True)
async def test_what_was_redacted_before_and_in_a_call_stands_in_the_place_of_neither(
    make_stage: Any, kit: Any, fleet: Fleet, other: Fleet
) -> None:
    """The checkpoint has the raw texts where they were said, and nowhere else; the call runs without them."""
    core, given = LocalCore(redacts_both), list[Any]()
    asked = Call(name="refund", arguments={"card": f"{SECRET} of {OTHER}", "amount": 300})
    options = {"contracts": CARD_RULES, "approval_mode": "pause", "core": core}
    first = CardWorker(await make_stage(fleet=fleet, **options), kit, given, asked, "done")
    second = CardWorker(await make_stage(fleet=other, **options), kit, given, "done")

    checkpoint = await first.begin()

    placeholder = json.dumps(json.loads(checkpoint)[-1])
    assert SECRET not in placeholder
    assert OTHER not in placeholder
    await first.stage.governance.aclose()
    assert not _left_for(other, f"[card] of {OTHER}", 201)
    approve(core)
    assert (await second.resume(checkpoint)).termination_reason == "completed"
    assert given == [("[card] of [card]", 300)]


@pytest.mark.leaves_rows_open
@pytest.mark.parametrize("open_one", ["sqlite"], indirect=True)
@pytest.mark.parametrize("changed", ["what is used", "what is redacted", "left out"])
async def test_a_changed_redaction_is_judged_afresh(
    card_worker: Any, fleet: Fleet, other: Fleet, changed: str
) -> None:
    """The store knows the hash of what the checkpoint carries."""
    given: list[Any] = []
    first = await card_worker(fleet, given)
    second = await card_worker(other, given, "done", contracts=None)
    checkpoint = json.loads(await first.begin())
    await first.stage.governance.aclose()
    approve(first.stage.core)
    told = checkpoint[-1]["content"][0]["data"]["error"]
    if changed == "left out":
        del told["openbox_redacted"]
    elif changed == "what is used":
        (row,) = told["openbox_redacted"]["inputs"]
        told["openbox_redacted"]["inputs"][row][1] = {"card": "[card]", "amount": 3000}
    else:
        told["openbox_redacted"]["redacted"] = {}

    assert (await second.resume(json.dumps(checkpoint))).termination_reason == "waiting_for_approval"
    assert given == []


@pytest.mark.leaves_rows_open
async def test_a_store_that_is_away_loses_no_yes(
    worker: Any, core: LocalCore, server: RedisServer, paid: list[int]
) -> None:
    """The run is not resumed, with the reason, and can be when the store is back."""
    with closing(RedisFleet(server.url)) as one, closing(RedisFleet(server.url)) as another:
        one.timeout_seconds = 20
        first, second = await worker(one), await worker(another, "done")
        checkpoint = await first.begin()
        approve(core)

        server.stop()
        one.timeout_seconds = 0.2
        for each in (first, second):
            with pytest.raises(GovernanceUnavailableError, match="does not answer"):
                await each.resume(checkpoint)
        server.go_on()
        one.timeout_seconds = 20

        assert (await first.resume(checkpoint)).termination_reason == "completed"
    assert paid == [300]


@pytest.mark.leaves_rows_open
@pytest.mark.parametrize("heard", [True, False], ids=["heard of it", "has not heard"])
async def test_a_yes_outlives_the_data_of_the_store_where_the_run_was_paused(
    worker: Any, core: LocalCore, server: RedisServer, paid: list[int], heard: bool
) -> None:
    """Its worker tells the store again what it waits with; nothing is reserved twice, and no yes is."""
    with (
        closing(RedisFleet(server.url, timeout_seconds=20)) as one,
        closing(RedisFleet(server.url, timeout_seconds=20)) as another,
    ):
        first, second = await worker(one), await worker(another, "done")
        checkpoint = await first.begin()
        server.ask("FLUSHALL")
        if heard:
            assert not left(one, 300)
        approve(core)

        assert (await first.resume(checkpoint)).termination_reason == "completed"
        assert paid == [300]
        assert left(another, 200)
        assert not left(another, 201)
        with pytest.raises(ContractRefusedError, match="200 left of 500"):
            await second.resume(checkpoint)
    assert paid == [300]


@pytest.mark.leaves_rows_open
async def test_another_process_has_no_yes_that_the_store_has_lost(
    worker: Any, core: LocalCore, server: RedisServer, paid: list[int]
) -> None:
    """The call is judged afresh there, and takes what the first worker does not find reserved any more."""
    with (
        closing(RedisFleet(server.url, timeout_seconds=20)) as one,
        closing(RedisFleet(server.url, timeout_seconds=20)) as another,
    ):
        first, second = await worker(one), await worker(another)
        checkpoint = await first.begin()
        server.ask("FLUSHALL")
        approve(core)

        assert (await second.resume(checkpoint)).termination_reason == "waiting_for_approval"
        with pytest.raises(ContractRefusedError, match="200 left of 500"):
            await first.resume(checkpoint)
    assert paid == []


async def test_a_wait_that_is_over_closes_the_run_unless_another_has_it(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """The worker that paused reports an end only of what nobody else went on with."""
    first = await worker(fleet, approval_max_wait_ms=1_000_000)
    second = await worker(other, "done")
    checkpoint = await first.begin()
    approve(core)
    assert (await second.resume(checkpoint)).termination_reason == "completed"
    suspended = first.stage.governance._runs.suspended
    (run_id,) = suspended._suspended

    suspended._close(run_id)
    await asyncio.gather(*first.stage.governance._runs.parking._ending)

    assert [each for each in first.stage.story() if each.startswith("Workflow")] == [
        "WorkflowStarted",
        "WorkflowCompleted completed",
    ]
    assert paid == [300]


async def test_a_wait_that_is_over_gives_back_what_was_reserved(
    worker: Any, fleet: Fleet, other: Fleet
) -> None:
    """And the run is closed at Core, by the one process that has it."""
    first = await worker(fleet, approval_max_wait_ms=1_000_000)
    await first.begin()
    suspended = first.stage.governance._runs.suspended
    (run_id,) = suspended._suspended

    suspended._close(run_id)
    await asyncio.gather(*first.stage.governance._runs.parking._ending)

    await first.stage.governance.aclose()
    assert first.stage.story()[-1].startswith("Workflow")
    for _ in range(600):
        if left(other, 500):
            return
        await asyncio.sleep(0.02)
    pytest.fail("what was reserved for the call is not free")


@pytest.fixture
def begun(open_one: Callable[[], Fleet], core: LocalCore, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a worker in a process of its own, which asks Core over HTTP; it ends with the test."""
    with running(core) as core_url:
        command = [sys.executable, "-m", "tests.fleet.runs.pausing", open_one().url, core_url, str(tmp_path)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with child:
            yield child
            child.kill()


@pytest.mark.leaves_rows_open
async def test_a_worker_that_is_killed_loses_no_yes(
    worker: Any,
    core: LocalCore,
    fleet: Fleet,
    other: Fleet,
    begun: subprocess.Popen[str],
    tmp_path: Path,
    paid: list[int],
) -> None:
    """What it reserved outlives it, and one of two that resume at once pays it."""
    assert begun.stdout is not None
    assert begun.stdout.readline().strip() == "waiting_for_approval"
    begun.kill()
    begun.wait()
    approve(core)
    checkpoint = (tmp_path / "checkpoint").read_text()
    workers = [await worker(each, "done", contracts=rules(1000)) for each in (fleet, other)]

    results = await asyncio.gather(*(each.resume(checkpoint) for each in workers))

    assert sorted(each.termination_reason for each in results) == ["completed", "waiting_for_approval"]
    assert paid == [300]
    (done,) = [e for e in core.records() if e.event.get("activity_type") == "refund" and "status" in e.event]
    assert done.event["status"] == "completed"


class Nested(Agent):
    """An agent that asks another one, whose refund needs a person, and then needs one itself."""

    def __init__(self, stage: Any, kit: Any, paid: list[str], *, resumes: bool = False) -> None:
        self.kept = ""

        def pay(whose: str) -> str:
            paid.append(whose)
            return "paid"

        tools = kit.registry({"refund": pay})
        steps: list[Any] = ["inner done"] if resumes else [Call(name="refund", arguments={"whose": "inner"})]
        self.inner = stage.governance.govern_loop(AgentLoop(ScriptedProvider(*steps), tool_registry=tools))

        async def ask() -> str:
            return await (self.resume_inner() if self.kept else self.ask())

        outer: dict[str, Callable[..., Any]] = {"ask": ask, "refund": pay}
        first = [Call(name="ask"), Call(name="refund", arguments={"whose": "outer"})]
        steps = [Call(name="ask"), "done"] if resumes else first
        super().__init__(stage, kit, outer, *steps)

    async def ask(self) -> str:
        result = await self.inner.run(self.kit.agent("Clerk"), [self.kit.user("Refund.")])
        self.kept = saved(result.messages)
        return str(result.termination_reason)

    async def resume_inner(self) -> str:
        agent = self.kit.agent("Clerk")
        result = await self.inner.run(agent, [], resume_checkpoint=loaded(self.kept, "Clerk"))
        return str(result.termination_reason)


@pytest.fixture
def nested(make_stage: Any, kit: Any, core: LocalCore) -> Any:
    """Makes workers with an agent inside another one."""

    async def make(fleet: Fleet, done: list[str], *, resumes: bool = False, **options: Any) -> Nested:
        options = {"core": core, "approval_mode": "pause", "fleet": fleet, **options}
        stage = await make_stage(**options)
        return Nested(stage, kit, done, resumes=resumes)

    return make


async def test_a_nested_run_and_the_one_around_it_go_on_in_another_process(
    nested: Any, core: LocalCore, fleet: Fleet, other: Fleet
) -> None:
    """Both under their ids, the one inside the other as before; each yes is used once."""
    done: list[str] = []
    first = await nested(fleet, done)
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    approve(core, 2)
    second = await nested(other, done, resumes=True)
    second.kept = first.kept

    assert (await second.resume(checkpoint)).termination_reason == "completed"

    assert done == ["outer", "inner"]
    events = first.stage.events()
    assert len({event["run_id"] for event in events}) == 2
    (inner,) = {e["workflow_id"] for e in events if e.get("agent_name") == "Clerk"}
    (outer,) = {e["workflow_id"] for e in events if e.get("agent_name") == "Support"}
    assert {e.get("parent_workflow_id") for e in events if e["workflow_id"] == inner} >= {outer}


@pytest.mark.leaves_rows_open
async def test_a_nested_run_goes_on_where_the_one_around_it_does_not(
    nested: Any, core: LocalCore, fleet: Fleet, other: Fleet
) -> None:
    """The process of the outer one is gone: the yes for the inner call is used all the same, once."""
    done: list[str] = []
    first = await nested(fleet, done)
    await first.begin()
    await first.stage.governance.aclose()
    approve(core, 2)
    second, third = await nested(other, done, resumes=True), await nested(other, done, resumes=True)
    second.kept = third.kept = first.kept

    assert await second.resume_inner() == "completed"
    assert await third.resume_inner() == "waiting_for_approval"  # under an approval of its own
    assert done == ["inner"]


async def test_a_nested_run_ends_with_the_one_around_it_in_another_process_too(
    nested: Any, core: LocalCore, fleet: Fleet, other: Fleet, make_stage: Any, kit: Any
) -> None:
    """What waits inside is closed, and a yes that comes later lets nothing run."""
    done: list[str] = []
    first = await nested(fleet, done)
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    approve(core, 2)

    async def pay(whose: str) -> str:
        done.append(whose)
        return "paid"

    stage = await make_stage(core=core, approval_mode="pause", fleet=other)
    second = Agent(stage, kit, {"refund": pay}, "done")
    assert (await second.resume(checkpoint)).termination_reason == "completed"
    await second.stage.governance.aclose()

    assert done == ["outer"]
    ends = {e["workflow_id"]: e["status"] for e in first.stage.events("WorkflowCompleted")}
    assert sorted(ends.values()) == ["completed", "waiting_for_approval"]


@pytest.mark.parametrize("taken", [True, False], ids=["taken over", "waiting"])
async def test_the_run_around_it_closes_a_nested_one_unless_another_process_has_it(
    nested: Any, core: LocalCore, fleet: Fleet, other: Fleet, taken: bool
) -> None:
    """Where the outer run ends, the inner one ends once, as whoever went on with it says."""
    done: list[str] = []
    first, second = await nested(fleet, done), await nested(other, done, resumes=True)
    async with first.stage.governance.run_scope("Refund.", session_id="c-1"):
        await first.ask()
        (waiting,) = core.pending_approvals()
        core.approve(waiting)
        second.kept = first.kept
        if taken:
            assert await second.resume_inner() == "completed"
    await first.stage.governance.aclose()

    assert done == (["inner"] if taken else [])
    (end,) = (e for e in first.stage.events("WorkflowCompleted") if e["workflow_id"] == waiting.workflow_id)
    assert end["status"] == ("completed" if taken else "waiting_for_approval")


def halts_ends(event: Any) -> Any:
    """Ask a person about refunds, and halt with the answer to the end of a run that waited for one."""
    return "HALT" if event.get("status") == "waiting_for_approval" else asks(event)


def halts_unused_calls(event: Any) -> Any:
    """Halt with the answer to the end of a call that was never made."""
    return "HALT" if "AbandonedActivity" in repr(event) else asks(event)


class SlowAtEnds(LocalCore):
    """One that answers to the end of what waited when it is asked about "next", or that is not asked for."""

    def __init__(self) -> None:
        super().__init__(halts_ends)
        self.next_is_asked = asyncio.Event()

    async def ahandle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        if b'"next"' in body:
            self.next_is_asked.set()
        elif b"waiting_for_approval" in body:
            with anyio.move_on_after(0.2):
                await self.next_is_asked.wait()
        return await super().ahandle(method, path, headers, body)


@pytest.mark.parametrize("kept", [True, False], ids=["in the store", "in this process"])
async def test_a_halt_at_the_end_of_what_waited_inside_stops_the_runs_around(
    nested: Any, fleet: Fleet, kept: bool
) -> None:
    """Core answers so when the run around it ends; what is around that one starts nothing more."""
    ran: list[str] = []
    first = await nested(fleet if kept else None, ran, core=SlowAtEnds())
    governance = first.stage.governance

    async def outermost() -> None:
        async with governance.run_scope("Refund.") as run:
            runs.append(run)
            async with governance.activity("hand over", [1]), governance.run_scope("Refund."):
                await first.ask()
            async with governance.activity("next", [1]):
                ran.append("next")

    runs: list[Any] = []
    with pytest.raises(GovernanceHaltError):
        await outermost()

    assert ran == []
    assert (runs[0].halted.event, runs[0].halted.source) == ("run_ended", "core")


@pytest.mark.parametrize(
    ("policy", "event"),
    [
        pytest.param(halts_ends, "run_ended", id="end of the run"),
        pytest.param(halts_unused_calls, "refund", id="end of its call"),
    ],
)
async def test_a_halt_at_the_end_of_what_another_process_left_waiting_stops_the_runs_around(
    nested: Any, policy: Any, event: str, fleet: Fleet, other: Fleet
) -> None:
    """Whoever took over the run around it closes it, and hears the answer as its first process would."""
    ran: list[str] = []
    core = LocalCore(policy)
    first = await nested(fleet, ran, core=core)
    async with first.stage.governance.run_scope("Refund."):
        checkpoint = await first.begin()
        await first.stage.governance.aclose()
    approve(core, 2)
    second = await nested(other, ran, core=core, resumes=True)
    governance = second.stage.governance

    async def outermost() -> None:
        async with governance.run_scope("Refund.") as run:
            runs.append(run)
            async with governance.activity("hand over", [1]):
                await second.resume(checkpoint)
            async with governance.activity("next", [1]):
                ran.append("next")

    runs: list[Any] = []
    with pytest.raises(GovernanceHaltError):
        await outermost()

    assert ran == ["outer"]
    assert (runs[0].halted.event, runs[0].halted.source) == (event, "core")


@pytest.mark.leaves_rows_open
@pytest.mark.parametrize("open_one", ["sqlite"], indirect=True)
async def test_a_nested_call_that_waits_takes_nothing_of_a_durable_session(
    nested: Any, core: LocalCore, fleet: Fleet, other: Fleet
) -> None:
    """Whoever resumes it is judged by the session of the runs around it, and is not in its own way."""
    done: list[str] = []
    options = {"sessions": "durable", "contracts": [at_most_n_times("refund", 1)]}
    first = await nested(fleet, done, **options)
    second = await nested(other, done, resumes=True, **options)
    third = await nested(other, done, resumes=True, **options)
    async with first.stage.governance.run_scope("Refund.", session_id="c-1"):
        await first.ask()
        fleet.close()  # as a process that dies tells nothing more; what was told stands
    core.approve(core.pending_approvals()[0])
    second.kept = third.kept = first.kept

    assert await second.resume_inner() == "completed"
    governance = third.stage.governance
    async with governance.run_scope("Again.", session_id="c-1"):
        with pytest.raises(ContractRefusedError, match="at_most_n_times"):
            async with governance.activity("refund"):
                done.append("again")

    assert done == ["inner"]


@pytest.mark.leaves_rows_open
@pytest.mark.parametrize("open_one", ["sqlite"], indirect=True)
async def test_more_redactions_than_are_kept_refuse_the_run_and_leave_its_session(
    card_worker: Any, fleet: Fleet, other: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgetting one would undo it: the run is not gone on with, and nobody counts it as one under way."""
    given: list[Any] = []
    first, second = await card_worker(fleet, given), await card_worker(other, given, "done")
    agent, said = first.kit.agent("Support"), first.kit.user(f"Refund 300 to {SECRET}.")
    context = {"session_id": "c-1"}
    result = await first.loop.run(agent, [said], tool_context=context)
    await first.stage.governance.aclose()
    monkeypatch.setattr("openbox_agentrt._run.redaction.redactions.MAX_REDACTIONS", 0)

    checkpoint = loaded(saved(result.messages))
    with pytest.raises(GovernanceUnavailableError, match="too many redactions"):
        await second.loop.run(agent, [], resume_checkpoint=checkpoint, tool_context=context)

    (shared,) = second.stage.governance._runs.services.sessions._open.values()
    assert shared.runs == 0
    assert given == []
