"""Asking Core, over a real wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from openbox_core.config import OpenBoxConfig
from openbox_core.conformance.fake_core import FakeCore, fake_client
from openbox_core.context import ContextStore
from openbox_core.errors import OpenBoxAuthError, OpenBoxConfigError, OpenBoxNetworkError
from openbox_core.runtime import OpenBoxRuntime

from openbox_agentrt._core.attempt import stamped
from openbox_agentrt._core.connection import Connection
from openbox_agentrt._core.gate import MAX_ATTEMPTS, CoreGate
from openbox_agentrt._core.outbox import MOST_TRIES
from openbox_agentrt._errors.refusals import raise_for_answer
from openbox_agentrt.decision import Answer, Guardrails, Verdict
from openbox_agentrt.errors import (
    GovernanceBlockedError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    GuardrailsValidationError,
)
from openbox_agentrt.lifecycle_events import (
    EventEnvelope,
    RunIdentity,
    activity_completed,
    tool_started,
    workflow_completed,
)
from openbox_agentrt.testing import (
    Fault,
    FaultyCore,
    ManualClock,
    answers_that_are_no_answers,
    contradictions,
)

pytestmark = pytest.mark.leaves_rows_open("single events are sent, not runs")

MakeEvent = Callable[[], EventEnvelope]
Connecting = Callable[..., Connection]

OUTAGES: dict[str, Fault] = {
    "closed": Fault.close(),
    "reset": Fault.reset(),
    "lost answer": Fault.lost(),
    "half an answer": Fault.half_answer(),
    "408": Fault.respond(408),
    "429": Fault.respond(429),
    "500": Fault.respond(500),
    "502 page": Fault.html(status=502),
    "503": Fault.respond(503),
    "504": Fault.respond(504),
}
BLOCKED = b'{"verdict": "block", "action": "block", "reason": "no"}'
NOT_ONE_DOCUMENT: dict[str, Fault] = {
    "page": Fault.html(),
    "no content": Fault.respond(204, body=b""),
    "nothing": Fault.text(b""),
    "bytes": Fault.text(b"\xff\xfe\x00"),
    "half of JSON": Fault.text(b'{"verdict": "allow"'),
    "junk behind": Fault.text(BLOCKED + b"xx"),
    "two documents": Fault.text(BLOCKED + b"\n" + BLOCKED),
    "a bad byte": Fault.text(BLOCKED.replace(b"no", b"\xff")),
    "a cut end": Fault.text(BLOCKED[:-1]),
    "JSON in a page": Fault.text(b"<pre>" + BLOCKED + b"</pre>"),
    "a prefix": Fault.text(b")]}'\n" + BLOCKED),
}
OWN_MISTAKES = (301, 302, 307, 308, 400, 402, 404, 405, 409, 410, 413, 415, 418, 422, 451)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries wait a hundredth of the usual time, and an outage is one as soon."""
    monkeypatch.setattr("openbox_agentrt._core.gate.FIRST_BACKOFF", 0.001)
    monkeypatch.setattr("openbox_agentrt._breaker.SHORTEST_OUTAGE", 0.0)


def evaluations(faulty: FaultyCore) -> list[dict[str, Any]]:
    return [seen.json() for seen in faulty.requests if seen.request.path.endswith("/evaluate")]


@pytest.mark.parametrize(
    ("decision", "verdict"),
    [
        ("ALLOW", Verdict.ALLOW), ("CONTINUE", Verdict.ALLOW), ("CONSTRAIN", Verdict.CONSTRAIN),
        ("REQUIRE_APPROVAL", Verdict.REQUIRE_APPROVAL), ("BLOCK", Verdict.BLOCK), ("HALT", Verdict.HALT),
    ],
)  # fmt: skip
async def test_a_verdict_arrives(
    gate: CoreGate, event: MakeEvent, policy: dict[str, Any], decision: str, verdict: Verdict
) -> None:
    """Each of the five, as Core sent it."""
    policy.update(decision=decision, reason="because")

    answer = await gate.judge(event())

    assert (answer.verdict, answer.local, answer.unreachable) == (verdict, False, False)
    assert answer.result is not None


async def test_a_request_has_a_content_type_and_says_who_asks(
    gate: CoreGate, event: MakeEvent, faulty: FaultyCore
) -> None:
    """openbox_core's client leaves the content type out."""
    await gate.judge(event())

    headers = {name.lower(): value for name, value in faulty.requests[0].request.headers.items()}
    assert headers["content-type"] == "application/json"
    assert headers["x-openbox-sdk-version"].startswith("openbox-agentrt-python-v")


@pytest.mark.parametrize("name", OUTAGES)
async def test_an_outage_is_asked_again_with_the_same_ids(
    gate: CoreGate, event: MakeEvent, faulty: FaultyCore, policy: dict[str, Any], name: str
) -> None:
    """The second answer counts, and Core sees one question."""
    policy.update(decision="BLOCK")
    faulty.plan(OUTAGES[name])

    answer = await gate.judge(event())

    assert answer.verdict is Verdict.BLOCK
    first, second = evaluations(faulty)
    assert first == second
    assert gate.counts.retries == 1
    assert len({json.dumps(seen) for seen in faulty.core.events()}) == 1


@pytest.mark.parametrize("name", OUTAGES)
async def test_a_lasting_outage_passes_under_fail_open_and_says_so(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, policy: dict[str, Any], name: str
) -> None:
    """Fail-open: the call passes, marked, counted and not mistaken for Core's ALLOW."""
    policy.update(decision="BLOCK")
    gate = to(on_api_error="fail_open", gate_budget_seconds=0.2 if name == "429" else 5.0).gate
    with faulty.always(OUTAGES[name]):
        answer = await gate.judge(event())

    assert answer.local
    assert gate.counts.outages == 1
    if name == "half an answer":  # somebody has judged, and what is not known
        assert (answer.verdict, answer.unreachable) == (Verdict.BLOCK, False)
        assert (gate.counts.fail_open, gate.counts.not_understood) == (0, 1)
    else:
        assert (answer.verdict, answer.unreachable) == (Verdict.ALLOW, True)
        assert (gate.counts.fail_open, gate.counts.fail_closed) == (1, 0)
    if name != "429":
        assert gate.counts.requests == MAX_ATTEMPTS


@pytest.mark.parametrize("name", OUTAGES)
async def test_a_lasting_outage_refuses_under_fail_closed(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, name: str
) -> None:
    """Fail-closed: the call does not run."""
    gate = to(on_api_error="fail_closed", gate_budget_seconds=0.2 if name == "429" else 5.0).gate
    with faulty.always(OUTAGES[name]), pytest.raises(GovernanceUnavailableError) as caught:
        await gate.judge(event())

    assert (caught.value.kind, caught.value.event, caught.value.ran) == ("outage", "refund", False)
    assert (gate.counts.fail_open, gate.counts.fail_closed) == (0, 1)


async def test_a_core_that_is_not_there_is_an_outage(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """A refused connection, in both directions."""
    opened, closed = to(on_api_error="fail_open").gate, to(on_api_error="fail_closed").gate
    with faulty.down():
        assert (await opened.judge(event())).unreachable
        with pytest.raises(GovernanceUnavailableError):
            await closed.judge(event())


@pytest.mark.parametrize(("flag", "passes"), [(False, True), (True, False)])
async def test_destructive_tools_stay_closed_when_asked_for(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, flag: bool, passes: bool
) -> None:
    """Under fail_open, a refund waits for Core and a lookup does not."""
    gate = to(on_api_error="fail_open", fail_closed_destructive=flag).gate
    with faulty.always(Fault.respond(503)):
        assert (await gate.judge(event())).unreachable
        if passes:
            assert (await gate.judge(event(), destructive=True)).unreachable
        else:
            with pytest.raises(GovernanceUnavailableError):
                await gate.judge(event(), destructive=True)


@pytest.mark.parametrize("status", OWN_MISTAKES)
@pytest.mark.parametrize("policy_name", ["fail_open", "fail_closed"])
async def test_our_own_mistake_is_never_an_allow(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, status: int, policy_name: str
) -> None:
    """A 4xx or a redirect is refused under any policy, and not asked again."""
    gate = to(on_api_error=policy_name).gate
    faulty.plan(Fault.respond(status, body=b'{"verdict": "allow"}'))

    with pytest.raises(GovernanceUnavailableError) as caught:
        await gate.judge(event())

    assert (caught.value.kind, caught.value.status) == ("refused", status)
    assert len(evaluations(faulty)) == 1
    assert (gate.counts.refused, gate.counts.fail_open) == (1, 0)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("policy_name", ["fail_open", "fail_closed"])
async def test_a_rejected_key_always_raises(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, status: int, policy_name: str
) -> None:
    """openbox_core's error is raised as it is."""
    gate = to(on_api_error=policy_name).gate
    faulty.plan(Fault.respond(status))

    with pytest.raises(OpenBoxAuthError):
        await gate.judge(event())

    assert len(evaluations(faulty)) == 1


@pytest.mark.parametrize("name", sorted(set(answers_that_are_no_answers()) - {"half"}))
@pytest.mark.parametrize("policy_name", ["fail_open", "fail_closed"])
async def test_an_answer_that_is_none_is_on_the_strict_side(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, name: str, policy_name: str
) -> None:
    """A 200 that nobody understands has been judged by somebody: it is no outage under either policy."""
    gate = to(on_api_error=policy_name).gate
    with faulty.always(answers_that_are_no_answers()[name]):
        answer = await gate.judge(event())

    assert (answer.verdict, answer.local, answer.unreachable) == (Verdict.BLOCK, True, False)


@pytest.mark.parametrize("name", NOT_ONE_DOCUMENT)
@pytest.mark.parametrize("policy_name", ["fail_open", "fail_closed"])
async def test_a_200_that_is_not_one_document_is_not_understood(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, name: str, policy_name: str
) -> None:
    """A readable BLOCK may stand in it. It is not asked again, and it does not pass."""
    gate = to(on_api_error=policy_name).gate
    with faulty.always(NOT_ONE_DOCUMENT[name]):
        answer = await gate.judge(event())

    assert (answer.verdict, answer.local, answer.unreachable) == (Verdict.BLOCK, True, False)
    assert (gate.counts.requests, gate.counts.not_understood, gate.counts.fail_open) == (1, 1, 0)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("word", ["block", "halt"])
async def test_a_no_that_comes_with_an_error_is_no_yes(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, status: int, word: str
) -> None:
    """Under fail_open an outage passes; one that says BLOCK does not. It stops this call only."""
    gate = to(on_api_error="fail_open", gate_budget_seconds=1.0 if status == 429 else 5.0).gate
    with faulty.always(Fault.respond(status, body=BLOCKED.replace(b"block", word.encode()))):
        answer = await gate.judge(event())

    assert (answer.verdict.value, answer.latches, answer.unreachable) == (word, False, False)
    assert answer.reason == "no"


async def test_an_error_that_says_no_is_asked_again(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """What Core answers when it is well counts."""
    gate = to(on_api_error="fail_open").gate
    faulty.plan(Fault.respond(503, body=BLOCKED))

    assert (await gate.judge(event())).verdict is Verdict.ALLOW


@pytest.mark.parametrize("name", contradictions())
async def test_of_a_contradiction_the_stricter_half_counts(
    gate: CoreGate, event: MakeEvent, faulty: FaultyCore, name: str
) -> None:
    """Whichever half it is."""
    faulty.plan(contradictions()[name])

    with pytest.raises((GovernanceBlockedError, GovernanceHaltError, GuardrailsValidationError)):
        raise_for_answer(await gate.judge(event()))


async def test_a_halt_can_be_what_an_unknown_answer_counts_as(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """It stops this call and does not latch."""
    gate = to(on_unknown_verdict="halt").gate
    faulty.plan(Fault.value({"verdict": "quarantine"}))

    answer = await gate.judge(event())

    assert (answer.verdict, answer.latches) == (Verdict.HALT, False)
    assert gate.counts.not_understood == 1


async def test_a_huge_answer_is_not_read_to_its_end(
    gate: CoreGate, event: MakeEvent, faulty: FaultyCore
) -> None:
    """Fifty megabytes are no answer, and cost neither the memory nor a second try."""
    faulty.plan(Fault.huge())

    answer = await gate.judge(event())

    assert (answer.verdict, answer.local) == (Verdict.BLOCK, True)
    assert "too large" in str(answer.reason)
    assert gate.counts.requests == 1


async def test_deeply_nested_json_is_not_understood(
    gate: CoreGate, event: MakeEvent, faulty: FaultyCore
) -> None:
    """It is JSON, so it is no outage that fail_open would let pass."""
    faulty.plan(Fault.text(b"[" * 200_000 + b"]" * 200_000))

    assert (await gate.judge(event())).verdict is Verdict.BLOCK


async def test_a_fallback_that_core_claims_is_no_fallback(
    gate: CoreGate, event: MakeEvent, faulty: FaultyCore
) -> None:
    """`fallback_used` in an answer is just data."""
    faulty.plan(Fault.altered(verdict="block", action=..., fallback_used=True))

    answer = await gate.judge(event())

    assert (answer.verdict, answer.unreachable, answer.local) == (Verdict.BLOCK, False, False)


@pytest.mark.parametrize("policy_name", ["fail_open", "fail_closed"])
async def test_one_slow_answer_is_not_an_outage(
    to: Connecting, faulty: FaultyCore, run: RunIdentity, policy: dict[str, Any], policy_name: str
) -> None:
    """Core is slow for one event. The next is put to it, and what it blocks does not run."""
    gate = to(on_api_error=policy_name, gate_budget_seconds=0.3).gate
    faulty.plan(Fault.late(0.6))
    with contextlib.suppress(GovernanceUnavailableError):
        assert (await gate.judge(tool_started(run, "1", "lookup", {}))).unreachable
    policy.update(decision="BLOCK")

    answer = await gate.judge(tool_started(run, "2", "delete", {}))

    assert (answer.verdict, answer.local) == (Verdict.BLOCK, False)
    assert not gate.breaker.is_open


async def test_in_an_outage_a_question_is_one_short_try(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Core takes everything and answers nothing: nobody waits for long, and everybody has asked."""
    gate = to(on_api_error="fail_open", gate_budget_seconds=0.3).gate
    monkeypatch.setattr(gate.breaker, "_first_limit", 0.01)
    with faulty.always(Fault.black_hole()):
        for _ in range(5):
            assert (await gate.judge(event())).unreachable
        assert gate.breaker.is_open
        began = time.monotonic()
        for _ in range(10):
            assert (await gate.judge(event())).unreachable
        waited = time.monotonic() - began

    assert waited < 1.5
    assert gate.counts.requests == 15
    assert gate.counts.breaker_skipped == 0


async def test_an_outage_ends_with_the_first_answer(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, policy: dict[str, Any]
) -> None:
    """However long it was: a question that comes after it is not refused or passed unasked."""
    policy.update(decision="BLOCK")
    clock = ManualClock()
    gate = to(on_api_error="fail_open", clock=clock.monotonic, sleep=clock.sleep).gate
    with faulty.down():
        for _ in range(20):
            assert (await gate.judge(event())).unreachable
            clock.advance(30)
        assert (await gate.judge(event())).unreachable

    assert (await gate.judge(event())).verdict is Verdict.BLOCK
    assert not gate.breaker.is_open


async def test_the_budget_holds_over_all_attempts(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """Retries share it; a slow failure does not buy more time."""
    gate = to(on_api_error="fail_open", gate_budget_seconds=0.5).gate
    with faulty.always(replace(Fault.respond(503), wait_seconds=0.3)):
        began = time.monotonic()
        assert (await gate.judge(event())).unreachable

    assert time.monotonic() - began < 3.0
    assert gate.counts.requests < MAX_ATTEMPTS


async def test_a_wait_that_took_longer_than_it_should_is_the_end(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """A busy loop may sleep past the budget; then there is no time for another attempt."""
    clock = ManualClock()

    async def oversleep(seconds: float) -> None:
        clock.advance(100)

    gate = to(on_api_error="fail_open", clock=clock.monotonic, sleep=oversleep).gate
    with faulty.always(Fault.respond(503)):
        assert (await gate.judge(event())).unreachable

    assert len(evaluations(faulty)) == 1
    assert gate.counts.requests == 1


async def test_many_at_once_try_once_while_core_is_down(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """The breaker is shared by all runs of a governance: nobody retries, and nobody waits."""
    clock = ManualClock()
    gate = to(on_api_error="fail_open", clock=clock.monotonic, sleep=clock.sleep).gate
    with faulty.down():
        for _ in range(3):
            await gate.judge(event())
        before, slept = gate.counts.requests, len(clock.sleeps)
        await asyncio.gather(*(gate.judge(event()) for _ in range(50)))

    assert gate.breaker.is_open
    assert gate.counts.requests == before + 50
    assert len(clock.sleeps) == slept


async def test_a_burst_with_faults_loses_nothing(
    to: Connecting,
    event: MakeEvent,
    faulty: FaultyCore,
    policy: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many runs that start together, and a Core that fails now and then: every question gets its answer."""
    monkeypatch.undo()  # the real waits: what fails at once is not an outage yet
    policy.update(decision="BLOCK")
    gate = to(timeout_seconds=30.0, on_api_error="fail_open").gate
    for fault in [Fault.reset(), Fault.respond(503), Fault.half_answer(), Fault.lost()] * 3:
        faulty.plan(fault, *[Fault.altered()] * 4)

    answers = await asyncio.gather(*(gate.judge(event()) for _ in range(300)))

    assert {(answer.verdict, answer.unreachable) for answer in answers} == {(Verdict.BLOCK, False)}
    assert not gate.breaker.is_open


async def test_an_outage_is_logged_once_and_so_is_its_end(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand reports of an outage are not a thousand warnings. A call that passed is one line."""
    clock = ManualClock()
    gate = to(on_api_error="fail_open", clock=clock.monotonic, sleep=clock.sleep).gate
    caplog.set_level(logging.INFO, logger="openbox_agentrt")
    with faulty.down():
        for _ in range(10):
            await gate.judge(event())
            await gate.reports.outbox().send(event())
    await gate.judge(event())

    ours = [record.message for record in caplog.records if record.name.startswith("openbox_agentrt")]
    assert "on_api_error is fail_open" in ours[0]
    passed = [line.split(":")[0] for line in ours[1:-1]]
    assert passed == ["'refund' of agent 'AgentRTRun' passed ungoverned"] * 10
    assert "answers again" in ours[-1]


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_honoured(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, form: str
) -> None:
    """As seconds or as a date."""
    clock = ManualClock()
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    gate = to(clock=clock.monotonic, sleep=clock.sleep, now=lambda: moment).gate
    later = format_datetime(moment + timedelta(seconds=2), usegmt=True)
    faulty.plan(Fault.respond(429, retry_after=2 if form == "seconds" else later))

    assert not (await gate.judge(event())).unreachable
    assert clock.sleeps == [2.0]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("wait", ["60", "1e9", "99999999999999999999", "soon", "-5"])
async def test_a_wait_beyond_the_budget_is_waited_for_within_it(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, wait: str, status: int
) -> None:
    """Core is there and asks for patience: that is no reason to pass at once. One more try ends it."""
    clock = ManualClock()
    gate = to(on_api_error="fail_open", clock=clock.monotonic, sleep=clock.sleep).gate
    with faulty.always(Fault.respond(status, retry_after=wait)):
        assert (await gate.judge(event())).unreachable

    assert sum(clock.sleeps) < 5.0
    if wait == "60":
        assert clock.sleeps == [4.0]
        assert gate.counts.requests == 2


async def test_a_429_is_asked_again_until_the_budget_ends(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """Then it is an outage, and none that keeps others from being asked."""
    clock = ManualClock()
    gate = to(on_api_error="fail_open", clock=clock.monotonic, sleep=clock.sleep, timeout_seconds=30.0).gate
    with faulty.always(Fault.respond(429)):
        assert (await gate.judge(event())).unreachable

    assert 28.0 < sum(clock.sleeps) <= 30.0
    assert gate.counts.requests > MAX_ATTEMPTS
    assert not gate.breaker.is_open


async def test_a_report_does_not_wait_as_long(to: Connecting, event: MakeEvent, faulty: FaultyCore) -> None:
    """It is kept, and told later: the work has been done."""
    clock = ManualClock()
    gate = to(clock=clock.monotonic, sleep=clock.sleep).gate
    with faulty.always(Fault.respond(429, retry_after=60)):
        assert await gate.reports.outbox().send(event()) is None

    assert clock.sleeps == []
    assert gate.reports.pending == 1


async def test_a_cancelled_question_ends_at_once(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """A slow Core does not hold the caller, and the line is as good as before."""
    gate = to().gate
    with faulty.always(Fault.black_hole()):
        task = asyncio.create_task(gate.judge(event()))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert time.monotonic() - began < 2.0
    assert not gate.breaker.is_open
    assert not (await gate.judge(event())).unreachable


async def test_a_late_answer_is_not_taken_for_the_next_one(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, policy: dict[str, Any]
) -> None:
    """The connection of a question that was given up is not used again."""
    gate = to(on_api_error="fail_open", gate_budget_seconds=0.3).gate
    faulty.plan(Fault.late(0.6))
    assert (await gate.judge(event())).unreachable
    policy.update(decision="BLOCK")
    await asyncio.sleep(1.1)

    assert (await gate.judge(event())).verdict is Verdict.BLOCK


async def test_a_timestamp_is_the_same_in_every_attempt(
    gate: CoreGate, event: MakeEvent, faulty: FaultyCore
) -> None:
    """It says when something happened, not when it was told again."""
    faulty.plan(Fault.respond(503), Fault.respond(503))

    await gate.judge(event())

    assert len({seen["timestamp"] for seen in evaluations(faulty)}) == 1


async def test_an_event_that_cannot_be_put_is_refused_before_it_is_sent(
    to: Connecting, event: MakeEvent, faulty: FaultyCore
) -> None:
    """openbox_core's strict check is our own mistake, whatever the policy."""
    gate = to(on_api_error="fail_open").gate
    broken = replace(event(), payload={})

    with pytest.raises(GovernanceUnavailableError) as caught:
        await gate.judge(broken)

    assert caught.value.kind == "refused"
    assert evaluations(faulty) == []


@pytest.mark.parametrize("policy_name", ["fail_open", "fail_closed"])
@pytest.mark.parametrize("answer", ["ALLOW", "REQUIRE_APPROVAL", "CONSTRAIN"])
async def test_what_core_was_shown_in_part_is_refused(
    to: Connecting,
    faulty: FaultyCore,
    run: RunIdentity,
    policy: dict[str, Any],
    policy_name: str,
    answer: str,
) -> None:
    """It is asked, with everything that can be shown, and an ALLOW of a part is none of the whole."""
    policy.update(decision=answer)
    gate = to(on_api_error=policy_name).gate
    arguments = {"content": "x" * 2_000_000, "path": "/etc/shadow"}
    event = tool_started(run, "1", "write", arguments, side_effect="destructive")

    with pytest.raises(GovernanceUnavailableError) as caught:
        await gate.judge(event)

    assert (caught.value.kind, caught.value.event) == ("unreadable", "write")
    assert "max_payload_bytes" in str(caught.value.remedy)
    (asked,) = evaluations(faulty)
    assert asked["activity_input"][0]["path"] == "/etc/shadow"
    assert asked["activity_input"][1] == {"__openbox": {"side_effect": "destructive"}}
    assert gate.counts.refused == 1


async def test_a_no_to_a_part_is_core_s_no(gate: CoreGate, run: RunIdentity, policy: dict[str, Any]) -> None:
    """It saw enough."""
    policy.update(decision="BLOCK", reason="not there")

    answer = await gate.judge(tool_started(run, "1", "write", {"content": "x" * 2_000_000}))

    assert (answer.verdict, answer.local, answer.reason) == (Verdict.BLOCK, False, "not there")


@pytest.mark.parametrize("asks", [True, False], ids=["unsigned", "signed"])
async def test_an_error_inside_openbox_core_is_on_the_strict_side(
    to: Connecting, event: MakeEvent, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """Not raised as it is, and not an outage that fail_open would let pass."""
    connection = to(on_api_error="fail_open")

    async def broken(payload: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    def broken_check(event: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(connection.runtime.client, "asks", asks)
    monkeypatch.setattr(connection.runtime.client, "aevaluate", broken)
    monkeypatch.setattr("openbox_agentrt._core.transport.direct.validate_lifecycle", broken_check)

    with pytest.raises(GovernanceUnavailableError) as caught:
        await connection.gate.judge(event())

    assert caught.value.kind == "unreadable"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("asks", [True, False], ids=["unsigned", "signed"])
async def test_a_request_that_cannot_be_made_is_our_own_mistake(
    to: Connecting, event: MakeEvent, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """Such as a key that cannot stand in a header; no retry would make it one."""
    connection = to(on_api_error="fail_open")
    client: Any = connection.runtime.client
    monkeypatch.setattr(client, "asks", asks)
    monkeypatch.setattr(client, "_api_key", "obx_test_x\n")
    monkeypatch.setitem(client._headers, "Authorization", "Bearer obx_test_x\n")

    with pytest.raises(GovernanceUnavailableError) as caught:
        await connection.gate.judge(event())

    assert caught.value.kind == "refused"
    assert connection.gate.counts.to_dict()["requests"] == 1


class TestReports:
    """Telling Core what has happened."""

    async def test_a_report_is_told_again_after_an_outage(
        self, gate: CoreGate, event: MakeEvent, faulty: FaultyCore
    ) -> None:
        """One fault in a hundred loses no row."""
        faulty.plan(Fault.reset(), Fault.lost())

        answer = await gate.reports.outbox().send(event())

        assert answer is not None
        assert len({json.dumps(seen) for seen in faulty.core.events()}) == 1

    @pytest.mark.parametrize(
        "fault", [Fault.respond(503), Fault.respond(422), Fault.respond(401)], ids=["503", "422", "401"]
    )
    @pytest.mark.parametrize("policy_name", ["fail_open", "fail_closed"])
    async def test_a_report_never_fails_its_caller(
        self, to: Connecting, event: MakeEvent, faulty: FaultyCore, fault: Fault, policy_name: str
    ) -> None:
        """Also under fail_closed: the work has been done. It is counted and logged."""
        gate = to(on_api_error=policy_name).gate
        with faulty.always(fault):
            assert await gate.reports.outbox().send(event()) is None
            await gate.settle(seconds=1.0)

        assert gate.counts.reports_lost == 1

    async def test_what_an_outage_kept_from_core_is_told_after_it(
        self, gate: CoreGate, event: MakeEvent, faulty: FaultyCore
    ) -> None:
        """A short outage leaves no row open: the next answer of Core says that it is over."""
        late = event()
        with faulty.down():
            assert await gate.reports.outbox().send(late) is None
        assert gate.counts.to_dict()["reports_late"] == 1

        await gate.judge(event())
        for _ in range(200):
            if not gate.reports.pending:
                break
            await asyncio.sleep(0.02)

        assert evaluations(faulty)[-1]["activity_id"] == late.activity_id
        assert gate.counts.reports_lost == gate.reports.pending == 0

    async def test_what_comes_later_waits_behind_what_core_has_not_heard(
        self, gate: CoreGate, event: MakeEvent, faulty: FaultyCore
    ) -> None:
        """Core seals a workflow at its last event, so the order within one is kept over an outage."""
        outbox, first, second = gate.reports.outbox(), event(), event()
        with faulty.down():
            await outbox.send(first)
        assert await outbox.send(second) is not None

        told = [seen["activity_id"] for seen in evaluations(faulty)]
        assert told == [first.activity_id, second.activity_id]

    async def test_what_an_outage_kept_is_told_before_the_next_question(
        self, gate: CoreGate, event: MakeEvent, faulty: FaultyCore
    ) -> None:
        """A policy that looks back would miss it."""
        outbox, kept, asked = gate.reports.outbox(), event(), event()
        with faulty.down():
            await outbox.send(kept)

        await outbox.catch_up()
        await gate.judge(asked)

        assert [seen["activity_id"] for seen in evaluations(faulty)] == [kept.activity_id, asked.activity_id]

    async def test_where_nobody_asks_a_pause_ends_the_wait(
        self, gate: CoreGate, event: MakeEvent, faulty: FaultyCore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An idle process finds out by itself that Core is back."""
        monkeypatch.setattr(gate.reports, "_pause", 0.05)
        with faulty.down():
            await gate.reports.outbox().send(event())
        for _ in range(200):
            if not gate.reports.pending:
                break
            await asyncio.sleep(0.02)

        assert len(faulty.core.events()) == 1

    async def test_what_an_outage_kept_is_bounded(
        self, gate: CoreGate, event: MakeEvent, faulty: FaultyCore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Beyond the bound, a report is lost and counted: memory does not grow as long as Core is away."""
        monkeypatch.setattr("openbox_agentrt._core.reports.MOST_KEPT", 2)
        with faulty.down():
            for _ in range(4):
                await gate.reports.outbox().send(event())

        assert gate.counts.reports_late == 2
        assert gate.counts.reports_lost == 2

    async def test_one_that_core_never_takes_keeps_nothing_from_it(
        self,
        to: Connecting,
        run: RunIdentity,
        faulty: FaultyCore,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Neither the reports behind it nor the end of the run; it is given up and counted."""
        monkeypatch.setattr("openbox_agentrt._core.outbox.TRY_SECONDS", 0.0)
        monkeypatch.setattr("openbox_agentrt._breaker.SHORTEST_OUTAGE", 0.5)
        gate = to().gate
        outbox = gate.reports.outbox()
        with faulty.always(Fault.respond(500), holding=b"poison"):
            await outbox.send(activity_completed(run, "poison", "refund"))
            for number in range(MOST_TRIES):
                await outbox.send(activity_completed(run, f"later {number}", "refund"))
            outbox.post(workflow_completed(run))
            await outbox.settle()

        assert [seen.get("activity_id") for seen in faulty.core.events()] == [
            *(f"later {number}" for number in range(MOST_TRIES)), None,
        ]  # fmt: skip
        assert (gate.counts.reports_lost, gate.reports.pending) == (1, 0)

    async def test_where_nobody_asks_the_end_of_a_run_gets_past_one_that_core_never_takes(
        self, to: Connecting, run: RunIdentity, faulty: FaultyCore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also when all that it was told lately failed, so that it does not seem to be there."""
        monkeypatch.setattr("openbox_agentrt._core.outbox.TRY_SECONDS", 0.0)
        gate = to().gate
        monkeypatch.setattr(gate.breaker, "_first_pause", 0.01)
        monkeypatch.setattr(gate.breaker, "_pause", 0.01)
        monkeypatch.setattr(gate.reports, "_pause", 0.02)
        outbox = gate.reports.outbox()
        with faulty.always(Fault.respond(500), holding=b"poison"):
            await outbox.send(activity_completed(run, "poison", "refund"))
            outbox.post(workflow_completed(run))
            await outbox.settle()
            assert gate.breaker.is_open
            for _ in range(200):
                if not gate.reports.pending:
                    break
                await asyncio.sleep(0.02)

        assert [seen["event_type"] for seen in faulty.core.events()] == ["WorkflowCompleted"]
        assert gate.counts.reports_lost == 1

    @pytest.mark.parametrize("fault", [Fault.respond(500), Fault.black_hole()], ids=["500", "black hole"])
    async def test_closing_tells_what_stands_behind_one_that_core_never_takes(
        self, to: Connecting, run: RunIdentity, faulty: FaultyCore, fault: Fault
    ) -> None:
        """It has no more time than half of what is left."""
        gate = to().gate
        outbox = gate.reports.outbox()
        with faulty.always(fault, holding=b"poison"):
            outbox.post(activity_completed(run, "poison", "refund"))
            outbox.post(workflow_completed(run))
            assert await gate.settle(seconds=1.0) == 0

        assert [seen["event_type"] for seen in faulty.core.events()] == ["WorkflowCompleted"]
        assert gate.counts.reports_lost == 1

    async def test_what_core_says_to_a_report_is_returned(
        self, gate: CoreGate, event: MakeEvent, policy: dict[str, Any]
    ) -> None:
        """A HALT is remembered by the run, and nothing is raised."""
        policy.update(decision="HALT")

        answer = await gate.reports.outbox().send(event())

        assert answer is not None
        assert answer.latches

    async def test_a_report_can_be_cancelled(
        self, gate: CoreGate, event: MakeEvent, faulty: FaultyCore
    ) -> None:
        """Cancellation is the one thing that it raises."""
        with faulty.always(Fault.black_hole()):
            task = asyncio.create_task(gate.reports.outbox().send(event()))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


class TestInjectedRuntime:
    """A runtime whose client has a transport that is not ours."""

    def runtime(self, core: FakeCore, **config: Any) -> OpenBoxRuntime:
        settings = OpenBoxConfig(api_url="https://core.test", api_key="obx_test_x", **config)
        client = fake_client(core, on_api_error=settings.on_api_error)
        return OpenBoxRuntime(settings, client=client, context_store=ContextStore())

    @pytest.mark.parametrize("word", ["block", "BLOCK", " block "])
    async def test_its_answers_are_read_strictly_too(
        self, to: Connecting, event: MakeEvent, word: str
    ) -> None:
        """openbox_core reads ` block ` as ALLOW."""
        gate = to(runtime=self.runtime(FakeCore({"verdict": word}))).gate

        assert (await gate.judge(event())).verdict is Verdict.BLOCK

    async def test_a_fallback_that_core_claims_is_none(self, to: Connecting, event: MakeEvent) -> None:
        """Here the reason is all there is to go by, and an answer is not a fallback because it says so."""
        gate = to(runtime=self.runtime(FakeCore({"verdict": "block", "fallback_used": True}))).gate

        assert (await gate.judge(event())).verdict is Verdict.BLOCK

    @pytest.mark.parametrize("answer", [{}, {"verdict": "quarantine"}, [], "allow", {"verdict": 3}], ids=repr)
    async def test_an_answer_that_is_none_blocks(self, to: Connecting, event: MakeEvent, answer: Any) -> None:
        """Also those on which openbox_core raises a bare error."""
        gate = to(runtime=self.runtime(FakeCore(answer))).gate

        assert (await gate.judge(event())).verdict is Verdict.BLOCK

    @pytest.mark.parametrize("on_api_error", ["fail_open", "fail_closed"])
    @pytest.mark.parametrize(("status", "outage"), [(503, True), (429, True), (422, False), (404, False)])
    async def test_statuses_are_told_apart_by_what_is_said_of_them(
        self, to: Connecting, event: MakeEvent, on_api_error: str, status: int, outage: bool
    ) -> None:
        """A 422 is no outage, under either policy of the runtime."""
        import httpx

        core = FakeCore()
        core.handler = lambda request: httpx.Response(status)  # type: ignore[method-assign]  # a double
        gate = to(runtime=self.runtime(core, on_api_error=on_api_error), on_api_error=on_api_error).gate

        if outage and on_api_error == "fail_open":
            assert (await gate.judge(event())).unreachable
            return
        with pytest.raises(GovernanceUnavailableError) as caught:
            await gate.judge(event())
        assert caught.value.kind == ("outage" if outage else "refused")

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (OpenBoxConfigError("no identity"), "refused"),
            (OpenBoxNetworkError("no line"), "outage"),
            (TimeoutError(), "outage"),
            (LookupError("secret"), "unreadable"),
        ],
        ids=["configuration", "network", "time", "bug"],
    )
    async def test_what_its_client_raises_is_told_apart(
        self, to: Connecting, event: MakeEvent, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str
    ) -> None:
        """Nothing of it is raised as it is, and only an outage is one."""
        runtime = self.runtime(FakeCore())

        async def broken(payload: Any) -> Any:
            raise error

        monkeypatch.setattr(runtime.client, "aevaluate", broken)
        gate = to(runtime=runtime, on_api_error="fail_closed").gate

        with pytest.raises(GovernanceUnavailableError) as caught:
            await gate.judge(event())

        assert caught.value.kind == kind
        assert "secret" not in str(caught.value)

    async def test_the_stricter_of_two_policies_counts(self, to: Connecting, event: MakeEvent) -> None:
        """An option that is open does not open a runtime that is closed."""
        import httpx

        def down(request: Any) -> httpx.Response:
            raise httpx.ConnectError("refused")

        core = FakeCore()
        core.handler = down  # type: ignore[method-assign]  # a double
        gate = to(runtime=self.runtime(core, on_api_error="fail_closed"), on_api_error="fail_open").gate

        with pytest.raises(GovernanceUnavailableError, match="unreachable"):
            await gate.judge(event())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(verdict=Verdict.HALT), GovernanceHaltError),
        (
            Answer(verdict=Verdict.BLOCK, guardrails=Guardrails(validation_passed=False)),
            GovernanceBlockedError,
        ),
        (
            Answer(verdict=Verdict.REQUIRE_APPROVAL, guardrails=Guardrails(validation_passed=False)),
            GuardrailsValidationError,
        ),
        (
            Answer(verdict=Verdict.ALLOW, guardrails=Guardrails(validation_passed=False)),
            GuardrailsValidationError,
        ),
        (Answer(verdict=Verdict.REQUIRE_APPROVAL), None),
        (Answer(verdict=Verdict.CONSTRAIN), None),
        (Answer(verdict=Verdict.ALLOW), None),
    ],
)
def test_an_answer_raises_by_priority(answer: Answer, error: type[Exception] | None) -> None:
    """HALT before BLOCK before the guardrails; the rest is the caller's."""
    if error is None:
        raise_for_answer(answer)
    else:
        with pytest.raises(error):
            raise_for_answer(answer, event="refund")


@pytest.mark.parametrize("status", [401, 422])
async def test_a_probe_that_is_turned_away_has_found_core(
    to: Connecting, event: MakeEvent, faulty: FaultyCore, status: int
) -> None:
    """A Core that says no is there: what comes after it is asked, and not kept from it."""
    clock = ManualClock()
    gate = to(on_api_error="fail_open", clock=clock.monotonic, sleep=clock.sleep).gate
    with faulty.down():
        for _ in range(3):
            await gate.judge(event())
    assert gate.breaker.is_open
    clock.advance(60)
    faulty.plan(Fault.respond(status))

    with pytest.raises((OpenBoxAuthError, GovernanceUnavailableError)):
        await gate.judge(event())

    assert not gate.breaker.is_open
    assert gate.counts.refused == (status == 422)
    assert not (await gate.judge(event())).unreachable


def test_an_event_keeps_the_time_that_it_has(event: MakeEvent) -> None:
    """A stamp says when it happened, and only once."""
    first = stamped(event(), "2026-01-02T03:04:05.678Z")

    assert first.timestamp == "2026-01-02T03:04:05.678Z"
    assert stamped(first, "2027-01-02T03:04:05.678Z") is first
