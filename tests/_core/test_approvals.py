"""Waiting for a person."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from openbox_core.conformance.fake_core import FakeCore, fake_client
from openbox_core.errors import OpenBoxAuthError

from openbox_agentrt._core.approvals import MAX_UNANSWERED, ApprovalKey, ApprovalState, parse_poll
from openbox_agentrt._core.connection import Connection
from openbox_agentrt._core.gate import CoreGate
from openbox_agentrt.decision import Answer, Verdict
from openbox_agentrt.errors import (
    ApprovalExpiredError,
    ApprovalRejectedError,
    ApprovalTimeoutError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
)
from openbox_agentrt.lifecycle_events import EventEnvelope
from openbox_agentrt.testing import Fault, FaultyCore, ManualClock

pytestmark = pytest.mark.leaves_rows_open("single events are sent, not runs")

Connecting = Callable[..., Connection]
MakeEvent = Callable[[], EventEnvelope]

NOW = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
ZERO = "0001-01-01T00:00:00Z"
PAST, FUTURE = "2024-01-02T03:04:04Z", "2024-01-02T03:04:06Z"
ASKED = Answer(verdict=Verdict.REQUIRE_APPROVAL, approval_id="ap-1")
IDS: dict[str, Any] = {"workflow_id": "wf", "run_id": "run", "activity_id": "act"}

POLLS: dict[str, tuple[Any, ApprovalState]] = {
    "allow": ({"action": "allow"}, ApprovalState.APPROVED),
    "allow as a verdict": ({"verdict": "allow"}, ApprovalState.APPROVED),
    "legacy continue": ({"action": " Continue "}, ApprovalState.APPROVED),
    "decided after the policy": ({"action": "allow", "verdict": "require_approval"}, ApprovalState.APPROVED),
    "allow until later": ({"action": "allow", "approval_expiration_time": FUTURE}, ApprovalState.APPROVED),
    "allow with go's zero time": (
        {"action": "allow", "approval_expiration_time": ZERO},
        ApprovalState.APPROVED,
    ),
    "block": ({"action": "block"}, ApprovalState.REJECTED),
    "allow, verdict block": ({"action": "allow", "verdict": "block"}, ApprovalState.REJECTED),
    "block, verdict allow": ({"action": "block", "verdict": "allow"}, ApprovalState.REJECTED),
    "halt": ({"action": "halt"}, ApprovalState.EXPIRED),
    "stop": ({"verdict": "stop"}, ApprovalState.EXPIRED),
    "allow, expired": ({"action": "allow", "expired": True}, ApprovalState.EXPIRED),
    "allow, expired as text": ({"action": "allow", "expired": "true"}, ApprovalState.EXPIRED),
    "allow, run out": ({"action": "allow", "approval_expiration_time": PAST}, ApprovalState.EXPIRED),
    "pending, run out": ({"approval_expiration_time": PAST}, ApprovalState.EXPIRED),
    "nothing": ({}, ApprovalState.PENDING),
    "not expired as text": ({"expired": "false"}, ApprovalState.PENDING),
    "pending": ({"action": "require_approval"}, ApprovalState.PENDING),
    "constrain": ({"action": "constrain"}, ApprovalState.PENDING),
    "approved is no word for it": ({"action": "approved"}, ApprovalState.PENDING),
    "an unknown action beside an allow": ({"action": "approved", "verdict": "allow"}, ApprovalState.PENDING),
    "a status": ({"status": "approved"}, ApprovalState.PENDING),
    "reject": ({"action": "reject"}, ApprovalState.REJECTED),
    "rejected": ({"action": " Rejected "}, ApprovalState.REJECTED),
    "denied": ({"action": "denied", "verdict": "require_approval"}, ApprovalState.REJECTED),
    "denied in a verdict": ({"action": "allow", "verdict": "deny"}, ApprovalState.REJECTED),
    "rejected in a status": ({"action": "allow", "status": "rejected"}, ApprovalState.REJECTED),
    "declined in a decision": ({"decision": "declined"}, ApprovalState.REJECTED),
    "expired in a status": ({"action": "allow", "status": "expired"}, ApprovalState.EXPIRED),
    "true": ({"action": True}, ApprovalState.PENDING),
    "a list": ([], ApprovalState.UNANSWERED),
    "null": (None, ApprovalState.UNANSWERED),
}


@pytest.mark.parametrize("name", POLLS)
def test_a_poll_is_read_strictly(name: str) -> None:
    """Only a clear yes is one; running out beats it."""
    raw, state = POLLS[name]

    assert parse_poll(raw, now=NOW).state is state


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def wired(to: Connecting, clock: ManualClock) -> Callable[..., CoreGate]:
    """Makes gates whose waiting takes no time, over openbox_core's scripted Core."""

    def make(
        *polls: Any, now: Callable[[], datetime] = lambda: NOW, **options: Any
    ) -> tuple[CoreGate, FakeCore]:
        core = FakeCore(*polls)
        connection = to(clock=clock.monotonic, sleep=clock.sleep, now=now, **options)
        client = fake_client(core)
        connection.gate.approvals._client = client
        return connection.gate, core

    return make  # type: ignore[return-value]  # a pair, unpacked by every test


@pytest.mark.parametrize("name", ["reason", "decided_by", "halted"])
def test_what_is_said_of_a_decision_can_be_printed(name: str) -> None:
    """JSON may hold half a character, and the text becomes the message of an error."""
    answer = parse_poll({"action": "block", name: "no \ud800"}, now=NOW)

    told = answer.decided_by if name == "decided_by" else answer.reason
    assert told is not None
    assert told.encode().startswith(b"no ")


async def test_it_returns_when_a_person_says_yes(wired: Any, clock: ManualClock) -> None:
    """Polled at the interval by the three ids, whether or not there is an approval id."""
    gate, core = wired(
        {}, {"action": "require_approval"}, {"action": "allow"}, approval_poll_interval_ms=5_000
    )

    await gate.approve(ApprovalKey.of(Answer(verdict=Verdict.REQUIRE_APPROVAL), **IDS))

    assert core.approval_requests == [IDS] * 3
    assert sum(clock.sleeps) == pytest.approx(10.0)
    assert core.payloads == [], "asking again would reset what the person decided"


@pytest.mark.parametrize(
    ("poll", "error"),
    [
        ({"action": "block", "reason": "too much"}, ApprovalRejectedError),
        ({"action": "halt"}, ApprovalExpiredError),
        ({"action": "allow", "expired": True}, ApprovalExpiredError),
    ],
)
async def test_it_raises_when_a_person_says_no(wired: Any, poll: Any, error: type[Exception]) -> None:
    """With the reason, and the id of the approval."""
    gate, _ = wired({}, poll)

    with pytest.raises(error) as caught:
        await gate.approve(ApprovalKey.of(ASKED, event="refund", **IDS))

    assert caught.value.approval_id == "ap-1"  # type: ignore[attr-defined]  # of both classes
    assert caught.value.reason == poll.get("reason")  # type: ignore[attr-defined]  # of both classes


async def test_a_replacement_that_the_person_proposes_is_on_the_error(wired: Any) -> None:
    """It is surfaced and never applied."""
    gate, _ = wired({"action": "block", "id": "e1", "patch": {"new_input": {"amount": 5}}})

    with pytest.raises(ApprovalRejectedError) as caught:
        await gate.approve(ApprovalKey.of(ASKED, **IDS))

    assert caught.value.patch is not None
    assert caught.value.patch.new_input == {"amount": 5}


async def test_silence_is_a_no(wired: Any, clock: ManualClock) -> None:
    """After the configured wait, and not much later."""
    gate, core = wired(*[{}] * 1_000, approval_poll_interval_ms=5_000, approval_max_wait_ms=12_000)

    with pytest.raises(ApprovalTimeoutError) as caught:
        await gate.approve(ApprovalKey.of(ASKED, **IDS))

    assert caught.value.max_wait_ms == 12_000
    assert clock.monotonic() == pytest.approx(12.0)
    assert len(core.approval_requests) == 4


async def test_a_wait_without_a_limit_has_none(wired: Any, clock: ManualClock) -> None:
    """By explicit choice only."""
    gate, _ = wired(
        *[{}] * 2_000, {"action": "allow"}, approval_poll_interval_ms=5_000, approval_max_wait_ms=None
    )

    await gate.approve(ApprovalKey.of(ASKED, **IDS))

    assert clock.monotonic() >= 10_000


async def test_an_approval_that_runs_out_ends_the_wait(wired: Any, clock: ManualClock) -> None:
    """By the time that came with the verdict, even if Core goes on saying that it is pending."""
    gate, _ = wired(*[{}] * 100, now=lambda: NOW + timedelta(seconds=clock.monotonic()))
    answer = Answer(verdict=Verdict.REQUIRE_APPROVAL, approval_expires_at=NOW + timedelta(seconds=7))

    with pytest.raises(ApprovalExpiredError):
        await gate.approve(ApprovalKey.of(answer, **IDS))

    assert clock.monotonic() < 15


async def test_a_yes_after_the_approval_ran_out_is_a_no(wired: Any, clock: ManualClock) -> None:
    """Expiry beats allow."""
    gate, _ = wired({"action": "allow"})
    answer = Answer(verdict=Verdict.REQUIRE_APPROVAL, approval_expires_at=NOW - timedelta(seconds=1))

    with pytest.raises(ApprovalExpiredError):
        await gate.approve(ApprovalKey.of(answer, **IDS))


async def test_go_s_zero_time_does_not_expire_what_another_transport_polled(wired: Any) -> None:
    """openbox_core takes it for a time long past."""
    gate, _ = wired({"action": "allow", "approval_expiration_time": ZERO})

    await gate.approve(ApprovalKey.of(ASKED, **IDS))


async def test_a_run_that_ended_waits_no_longer(wired: Any, clock: ManualClock) -> None:
    """Within about a second, and whatever the interval."""
    gate, core = wired(*[{}] * 100, approval_poll_interval_ms=60_000)
    halted = GovernanceHaltError("over")

    def cancelled() -> GovernanceError | None:
        return halted if clock.monotonic() > 3 else None

    with pytest.raises(GovernanceHaltError):
        await gate.approve(ApprovalKey.of(ASKED, **IDS), cancelled=cancelled)

    assert clock.monotonic() < 6
    assert len(core.approval_requests) == 1


async def test_a_run_that_is_over_does_not_even_ask(wired: Any) -> None:
    """Nobody is to decide about what cannot happen any more."""
    gate, core = wired({"action": "allow"})

    with pytest.raises(GovernanceHaltError):
        await gate.approve(ApprovalKey.of(ASKED, **IDS), cancelled=lambda: GovernanceHaltError("over"))

    assert core.approval_requests == []


async def test_a_late_yes_does_not_start_work_of_a_run_that_ended(wired: Any) -> None:
    """The run is looked at again after the decision."""
    gate, core = wired({"action": "allow"})
    halted = GovernanceHaltError("over")

    with pytest.raises(GovernanceHaltError):
        await gate.approve(
            ApprovalKey.of(ASKED, **IDS), cancelled=lambda: halted if core.approval_requests else None
        )


async def test_one_question_is_enough_to_resume(wired: Any) -> None:
    """A paused run asks once, and waits no longer."""
    gate, _ = wired({}, {"action": "allow"}, {"action": "block"})

    assert await gate.approvals.asked_once(ApprovalKey.of(ASKED, **IDS)) is None
    assert await gate.approvals.asked_once(ApprovalKey.of(ASKED, **IDS)) is not None
    with pytest.raises(ApprovalRejectedError):
        await gate.approvals.asked_once(ApprovalKey.of(ASKED, **IDS))


async def test_it_works_over_the_wire(
    to: Connecting, faulty: FaultyCore, event: MakeEvent, policy: dict[str, Any]
) -> None:
    """An event, a person, a poll."""
    policy.update(decision="REQUIRE_APPROVAL")
    gate = to(approval_poll_interval_ms=20).gate
    asked = event()
    answer = await gate.judge(asked)
    ids = {
        "workflow_id": asked.payload["workflow_id"],
        "run_id": asked.payload["run_id"],
        "activity_id": str(asked.activity_id),
    }
    waiting = asyncio.create_task(gate.approve(ApprovalKey.of(answer, **ids)))
    await asyncio.sleep(0.1)
    assert not waiting.done()

    (pending,) = faulty.core.pending_approvals()
    faulty.core.approve(pending)

    await waiting


@pytest.mark.parametrize(
    "fault",
    [Fault.respond(404), Fault.respond(503), Fault.reset(), Fault.html(), Fault.value([]), Fault.value(None)],
    ids=["404", "503", "reset", "page", "list", "null"],
)
async def test_a_poll_without_an_answer_is_no_answer(
    to: Connecting, faulty: FaultyCore, event: MakeEvent, policy: dict[str, Any], fault: Fault
) -> None:
    """It is polled again, neither approved nor rejected by it."""
    policy.update(decision="REQUIRE_APPROVAL")
    gate = to(approval_poll_interval_ms=10).gate
    asked = event()
    answer = await gate.judge(asked)
    (pending,) = faulty.core.pending_approvals()
    faulty.core.approve(pending)
    faulty.plan(fault, fault, path="/approval")

    await gate.approve(
        ApprovalKey.of(
            answer,
            workflow_id=asked.payload["workflow_id"],
            run_id=asked.payload["run_id"],
            activity_id=str(asked.activity_id),
        )
    )


@pytest.mark.parametrize("status", [401, 403])
async def test_a_rejected_key_ends_the_wait(to: Connecting, faulty: FaultyCore, status: int) -> None:
    """The call does not run, and the reason is not taken for pending."""
    gate = to().gate
    with faulty.always(Fault.respond(status), path="/approval"), pytest.raises(OpenBoxAuthError):
        await gate.approve(ApprovalKey.of(ASKED, **IDS))


@pytest.mark.parametrize("status", [302, 400, 413, 422])
async def test_our_own_mistake_ends_the_wait(to: Connecting, faulty: FaultyCore, status: int) -> None:
    """Asking the same again would not help."""
    gate = to().gate
    with faulty.always(Fault.respond(status), path="/approval"), pytest.raises(GovernanceUnavailableError):
        await gate.approve(ApprovalKey.of(ASKED, **IDS))


async def test_a_core_that_is_gone_ends_the_wait(to: Connecting, faulty: FaultyCore) -> None:
    """Also a wait without a limit."""
    clock = ManualClock()
    gate = to(clock=clock.monotonic, sleep=clock.sleep, approval_max_wait_ms=None).gate
    with faulty.down(), pytest.raises(ApprovalTimeoutError, match="could not be asked"):
        await gate.approve(ApprovalKey.of(ASKED, **IDS))

    assert clock.monotonic() >= (MAX_UNANSWERED - 1) * 5


async def test_a_cancelled_wait_ends_at_once(to: Connecting, faulty: FaultyCore) -> None:
    """Whether it is polling or sleeping."""
    gate = to(approval_poll_interval_ms=60_000).gate
    with faulty.always(Fault.black_hole(), path="/approval"):
        task = asyncio.create_task(gate.approve(ApprovalKey.of(ASKED, **IDS)))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert time.monotonic() - began < 2.0


def test_a_no_counts_although_its_patch_cannot_be_read() -> None:
    """openbox_core fails on what is nested deeply; the person has decided all the same."""
    deep: Any = 1
    for _ in range(600):
        deep = [deep]

    answer = parse_poll({"action": "block", "patch": {"new_input": deep}}, now=NOW)

    assert (answer.state, answer.patch) == (ApprovalState.REJECTED, None)
