"""Nested I/O: openbox_core's hooks, asked over a real wire and answered by this package's adapter."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import requests
from openbox_core.conformance.instrumentation import LocalCountingServer
from openbox_core.context import activity_scope
from openbox_core.contracts.context import ActivityContext
from openbox_core.contracts.results import EvaluationResult
from openbox_core.instrumentation import shared

from openbox_agentrt._core.connection import Connection
from openbox_agentrt._core.hooks import context_store
from openbox_agentrt._core.hooks.adapter import HookAdapter, _answer
from openbox_agentrt._core.hooks.context_store import BoundedContextStore
from openbox_agentrt._core.hooks.ownership import InstrumentationWarning
from openbox_agentrt._core.hooks.payloads import _quiet_span, quiet_url
from openbox_agentrt.decision import Verdict
from openbox_agentrt.errors import (
    ApprovalRejectedError,
    GovernanceBlockedError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    OptionError,
)
from openbox_agentrt.testing import Fault, FaultyCore

pytestmark = pytest.mark.leaves_rows_open("nested I/O is sent without its activity")

Connecting = Callable[..., Connection]

CONTEXT = ActivityContext(
    workflow_id="wf",
    run_id="run",
    workflow_type="Agent",
    task_queue="agentrt",
    activity_id="act",
    activity_type="fetch",
)


@pytest.fixture(scope="module")
def counting() -> Iterator[LocalCountingServer]:
    server = LocalCountingServer()
    yield server
    server.stop()


@pytest.fixture
def target(counting: LocalCountingServer) -> LocalCountingServer:
    """Something that a tool calls; it counts the requests that arrive."""
    counting.hits = 0
    return counting


@pytest.fixture
def hooked(to: Connecting) -> Iterator[Connecting]:
    """Makes connections that own the hooks, one at a time."""
    made: list[Connection] = []

    def make(**options: Any) -> Connection:
        connection = to(**options)
        connection.hooks.install()
        made.append(connection)
        return connection

    yield make
    for connection in made:
        connection.hooks.uninstall()


async def fetch(connection: Connection, url: str) -> int:
    """What a tool does: an HTTP request, attributed to its activity."""
    with activity_scope(CONTEXT, store=connection.store):
        async with httpx.AsyncClient() as client:
            return (await client.get(url)).status_code


def fetch_sync(connection: Connection, url: str) -> int:
    with activity_scope(CONTEXT, store=connection.store):
        return requests.get(url, timeout=5).status_code


def spans(faulty: FaultyCore) -> list[dict[str, Any]]:
    asked = [seen.json() for seen in faulty.requests if seen.request.path.endswith("/evaluate")]
    return [one for one in asked if one.get("spans")]


async def test_an_allowed_request_is_made_and_carries_the_activity_s_ids(
    hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer
) -> None:
    """Core sees the start and the end of it, under the activity it belongs to."""
    assert await fetch(hooked(), target.url) == 200

    seen = spans(faulty)
    assert {(one["workflow_id"], one["run_id"], one["activity_id"]) for one in seen} == {("wf", "run", "act")}
    assert {one["spans"][0]["stage"] for one in seen} == {"started", "completed"}
    assert target.hits == 1


@pytest.mark.parametrize(
    ("decision", "error", "latches"),
    [("BLOCK", GovernanceBlockedError, False), ("HALT", GovernanceHaltError, True)],
)
async def test_a_refused_request_is_not_made_and_the_run_is_told(
    hooked: Connecting, policy: Any, recorder: Any, target: LocalCountingServer,
    decision: str, error: type[Exception], latches: bool,
) -> None:  # fmt: skip
    """Before the error is raised, which the tool may swallow."""
    policy.update(decision=decision, reason="not there")

    with pytest.raises(error, match="not there"):
        await fetch(hooked(), target.url)

    assert target.hits == 0
    ((told, told_latches, context),) = recorder.told
    assert (type(told), told_latches, told.ran) == (error, latches, False)
    assert context == CONTEXT


async def test_synchronous_requests_are_refused_too(
    hooked: Connecting, policy: Any, recorder: Any, target: LocalCountingServer
) -> None:
    """In a thread of the tool's."""
    policy.update(decision="BLOCK")
    connection = hooked()

    with pytest.raises(GovernanceBlockedError):
        await asyncio.to_thread(fetch_sync, connection, target.url)

    assert (target.hits, len(recorder.told)) == (0, 1)


async def asked_for(faulty: FaultyCore) -> Any:
    """The approval that is waited for, as soon as there is one."""
    for _ in range(1_000):
        if waiting := faulty.core.pending_approvals():
            return waiting[0]
        await asyncio.sleep(0.01)
    raise AssertionError("no approval was asked for")


STRICT = {
    "unknown verdict": Fault.value({"verdict": "quarantine"}),
    "empty object": Fault.value({}),
    "list": Fault.value([]),
    "blanks around": Fault.value({"verdict": " block "}),
    "action says block": Fault.value({"verdict": "allow", "action": "block"}),
    "guardrails failed": Fault.value(
        {
            "verdict": "allow",
            "guardrails_result": {"validation_passed": "false", "reasons": [{"reason": "pii"}]},
        }
    ),
    "sandbox": Fault.value({"verdict": "constrain", "constraints": ["run_in_sandbox"]}),
    "sandbox beside an approval": Fault.value(
        {"verdict": "require_approval", "constraints": ["run_in_sandbox"]}
    ),
    "a key that occurs twice": Fault.text(b'{"verdict": "block", "verdict": "allow"}'),
    "422": Fault.respond(422),
    "404": Fault.respond(404),
    "redirect": Fault.respond(302, body=b'{"verdict": "allow"}'),
    "nested too deeply": Fault.text(b"[" * 200_000 + b"]" * 200_000),
    "half a character": Fault.text(b'{"verdict": "block", "reason": "\\ud83d"}'),
    "half a character in an id": Fault.text(b'{"verdict": "block", "policy_id": "\\ud83d"}'),
    "a number that is none": Fault.text(b'{"verdict": "block", "risk_score": NaN}'),
    "a deep patch": Fault.text(
        b'{"verdict": "block", "patch": {"new_input": ' + b"[" * 600 + b"]" * 600 + b"}}"
    ),
}


@pytest.mark.parametrize("name", STRICT)
async def test_an_answer_that_openbox_core_would_take_for_an_allow_blocks(
    hooked: Connecting, faulty: FaultyCore, recorder: Any, target: LocalCountingServer, name: str
) -> None:
    """The gate does not see these answers, so the transport makes them plain."""
    connection = hooked(on_api_error="fail_open")
    faulty.plan(STRICT[name], path="/evaluate")

    with pytest.raises(GovernanceBlockedError):
        await fetch(connection, target.url)

    assert target.hits == 0
    assert [latches for _, latches, _ in recorder.told] == [False]


async def test_a_halt_that_stands_for_an_unknown_answer_does_not_latch(
    hooked: Connecting, faulty: FaultyCore, recorder: Any, target: LocalCountingServer
) -> None:
    """It is not Core's."""
    connection = hooked(on_unknown_verdict="halt")
    faulty.plan(Fault.value({"verdict": "quarantine"}), path="/evaluate")

    with pytest.raises(GovernanceHaltError):
        await fetch(connection, target.url)

    assert [latches for _, latches, _ in recorder.told] == [False]


@pytest.mark.parametrize(
    "fault", [Fault.respond(503), Fault.html(status=502), Fault.reset()], ids=["503", "page", "reset"]
)
async def test_an_outage_follows_the_fail_policy(
    to: Connecting, faulty: FaultyCore, recorder: Any, target: LocalCountingServer, fault: Fault
) -> None:
    """Fail-open passes, fail-closed refuses without halting the run for good."""
    opened, closed = to(on_api_error="fail_open"), to(on_api_error="fail_closed")
    opened.hooks.install()
    with faulty.always(fault):
        assert await fetch(opened, target.url) == 200
    opened.hooks.uninstall()

    closed.hooks.install()
    with faulty.always(fault), pytest.raises(GovernanceUnavailableError) as caught:
        await fetch(closed, target.url)
    assert await fetch(closed, target.url) == 200  # the outage is over, and the activity goes on
    closed.hooks.uninstall()

    assert caught.value.kind == "outage"
    assert target.hits == 2
    assert [latches for _, latches, _ in recorder.told] == [False]


@pytest.mark.parametrize(("posture", "passes"), [("fail_open", True), ("fail_closed", False)])
@pytest.mark.parametrize("verdict", ["constrain", "allow"])
async def test_a_constraint_that_nobody_knows_follows_the_fail_policy(
    hooked: Connecting,
    faulty: FaultyCore,
    target: LocalCountingServer,
    posture: str,
    passes: bool,
    verdict: str,
) -> None:
    """At nested requests nobody can put any in place."""
    connection = hooked(on_api_error=posture)

    with faulty.always(Fault.value({"verdict": verdict, "constraints": ["log_more"]}), path="/evaluate"):
        if passes:
            assert await fetch(connection, target.url) == 200
        else:
            with pytest.raises(GovernanceBlockedError, match="log_more"):
                await fetch(connection, target.url)

    assert target.hits == passes


async def test_a_200_that_is_not_one_document_stops_nested_io(
    hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer
) -> None:
    """Somebody has judged, and what is not known: no outage, also under fail_open."""
    connection = hooked(on_api_error="fail_open")

    with faulty.always(Fault.html()), pytest.raises(GovernanceBlockedError):
        await fetch(connection, target.url)

    assert target.hits == 0


async def test_in_an_outage_a_nested_request_is_one_short_try(
    hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The breaker is the gate's: what is told after the fact waits for nobody."""
    connection = hooked(timeout_seconds=0.3, on_api_error="fail_open")
    breaker = connection.gate.breaker
    monkeypatch.setattr(breaker, "_first_limit", 0.01)
    monkeypatch.setattr("openbox_agentrt._breaker.SHORTEST_OUTAGE", 0.0)
    with faulty.always(Fault.black_hole()):
        for _ in range(3):  # each asks before and tells after
            await fetch(connection, target.url)
        assert breaker.is_open
        before = len(spans(faulty))
        for _ in range(10):
            await fetch(connection, target.url)

    assert target.hits == 13
    assert len(spans(faulty)) - before <= 11  # one of them may tell, as the probe


async def test_a_nested_request_can_end_an_outage_and_can_be_given_up(
    hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer, policy: Any
) -> None:
    """A cancelled one says nothing about Core, and the first that is answered ends the outage."""
    policy.update(decision="BLOCK")
    connection = hooked(timeout_seconds=0.3, on_api_error="fail_open")
    breaker = connection.gate.breaker
    breaker._open_until = float("inf")
    with faulty.always(Fault.black_hole()):
        probe = asyncio.create_task(fetch(connection, target.url))
        for _ in range(1_000):
            await asyncio.sleep(0.01)
            if spans(faulty):
                break
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
    assert breaker.is_open

    with pytest.raises(GovernanceBlockedError):
        await fetch(connection, target.url)

    assert not breaker.is_open


@pytest.mark.parametrize("status", [422, 503])
async def test_a_report_that_core_does_not_take_stops_nothing(
    hooked: Connecting, faulty: FaultyCore, recorder: Any, target: LocalCountingServer, status: int
) -> None:
    """The request has been made; a lost report about it must not block the next one."""
    connection = hooked()
    faulty.plan(Fault.altered(), Fault.respond(status), path="/evaluate")

    assert await fetch(connection, target.url) == 200
    assert await fetch(connection, target.url) == 200
    assert recorder.told == []


async def test_a_halt_on_what_has_happened_stops_what_comes_next(
    hooked: Connecting, faulty: FaultyCore, recorder: Any, target: LocalCountingServer
) -> None:
    """Nothing is raised, and the error says that it ran."""
    connection = hooked()
    faulty.plan(Fault.altered(), Fault.altered(verdict="halt", action=...), path="/evaluate")

    assert await fetch(connection, target.url) == 200

    ((told, latches, context),) = recorder.told
    assert isinstance(told, GovernanceHaltError)
    assert (told.ran, latches, context) == (True, True, CONTEXT)


async def test_secrets_of_a_request_are_not_told_to_core(
    hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer
) -> None:
    """Keys in headers and URLs are for whoever is called; what is asked stays."""
    connection = hooked()
    headers = {
        "x-goog-api-key": "hunter2",
        "authorization": "Bearer hunter2",
        "x-openbox-x": "hunter2",
        "x-id": "7",
    }
    url = target.url.replace("127.0.0.1", "hunter2:hunter2@127.0.0.1")
    with activity_scope(CONTEXT, store=connection.store):
        async with httpx.AsyncClient() as client:
            await client.post(
                f"{url}?q=shoes&key=hunter2&access_token=hunter2", headers=headers, json={"n": 1}
            )
        await asyncio.to_thread(requests.get, f"{target.url}?sig=hunter2&q=shoes", timeout=5)

    told = [seen.request.body.decode() for seen in faulty.requests]
    assert target.hits == 2
    assert not [body for body in told if "hunter2" in body]
    assert "q=shoes" in told[0]
    assert '"x-id":"7"' in told[0]
    assert '{\\"n\\":1}' in told[0].replace(" ", "")
    assert len(told) == 4


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/x", "https://a.example/x"),
        ("https://a.example/x?q=1&page=2", "https://a.example/x?q=1&page=2"),
        ("https://a.example/x?api_key=1&q=2#f", "https://a.example/x?api_key=[hidden]&q=2#f"),
        ("https://me@a.example:8/x", "https://[hidden]@a.example:8/x"),
        ("https://a.example/?X-Amz-Signature=1&flag", "https://a.example/?X-Amz-Signature=[hidden]&flag"),
        ("https://[::1", "https://[::1"),
    ],
)
def test_a_url_is_kept_but_for_its_secrets(url: str, expected: str) -> None:
    """Policies match on the rest of it."""
    assert quiet_url(url) == expected


def test_headers_among_the_attributes_of_a_span_are_hidden_too() -> None:
    """OpenTelemetry can be told to capture them."""
    span = {"attributes": {"http.request.header.x-api-key": "hunter2", "http.request.header.x-id": "7"}}

    assert _quiet_span(span, 1_000)[0]["attributes"] == {
        "http.request.header.x-api-key": "[hidden]",
        "http.request.header.x-id": "7",
    }


class TestApprovals:
    """I/O that a person has to allow."""

    @pytest.fixture(autouse=True)
    def asked(self, policy: dict[str, Any]) -> None:
        policy.update(decision="REQUIRE_APPROVAL")

    async def test_an_asynchronous_request_waits_for_the_person(
        self, hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer
    ) -> None:
        """Without stopping the loop."""
        connection = hooked(approval_poll_interval_ms=20)
        waiting = asyncio.create_task(fetch(connection, target.url))
        pending = await asked_for(faulty)
        assert not waiting.done()
        assert target.hits == 0

        faulty.core.approve(pending)

        assert await waiting == 200

    async def test_a_rejected_request_is_not_made(
        self, hooked: Connecting, faulty: FaultyCore, recorder: Any, target: LocalCountingServer
    ) -> None:
        """And the run is told."""
        connection = hooked(approval_poll_interval_ms=20)
        waiting = asyncio.create_task(fetch(connection, target.url))
        faulty.core.reject(await asked_for(faulty))

        with pytest.raises(ApprovalRejectedError):
            await waiting

        assert (target.hits, len(recorder.told)) == (0, 1)

    async def test_a_run_that_was_halted_meanwhile_makes_no_request(
        self, hooked: Connecting, faulty: FaultyCore, recorder: Any, target: LocalCountingServer
    ) -> None:
        """openbox_core does not look again after an approval."""
        connection = hooked(approval_poll_interval_ms=20)
        waiting = asyncio.create_task(fetch(connection, target.url))
        await asked_for(faulty)
        recorder.over = GovernanceHaltError("over")

        with pytest.raises(GovernanceHaltError):
            await waiting

        assert target.hits == 0

    async def test_a_synchronous_request_in_a_thread_waits(
        self, hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer
    ) -> None:
        """There it stops nobody else."""
        connection = hooked(approval_poll_interval_ms=20)
        waiting = asyncio.create_task(asyncio.to_thread(fetch_sync, connection, target.url))
        pending = await asked_for(faulty)
        assert not waiting.done()
        faulty.core.approve(pending)

        assert await waiting == 200

    async def test_a_synchronous_request_on_the_loop_is_refused(
        self, hooked: Connecting, faulty: FaultyCore, recorder: Any, target: LocalCountingServer
    ) -> None:
        """Waiting would stop every other run, and the answer to this one."""
        with pytest.raises(ApprovalRejectedError, match="cannot wait"):
            fetch_sync(hooked(), target.url)

        assert not [seen for seen in faulty.requests if "approval" in seen.request.path]
        assert (target.hits, len(recorder.told)) == (0, 1)


async def test_without_a_gate_or_ids_nobody_can_be_asked(to: Connecting, recorder: Any) -> None:
    """Then the answer is no."""
    result = EvaluationResult.from_dict({"verdict": "require_approval"})
    adapter = HookAdapter(BoundedContextStore(), recorder)
    with pytest.raises(ApprovalRejectedError):
        await adapter.handle_approval(result, CONTEXT)
    adapter.use(to().gate)
    with pytest.raises(ApprovalRejectedError):
        await adapter.handle_approval(result, None)
    with pytest.raises(ApprovalRejectedError):
        await adapter.handle_approval(result, ActivityContext(workflow_id="wf"))

    assert len(recorder.told) == 3


def test_a_refusal_is_one_whatever_the_result_says(recorder: Any) -> None:
    """openbox_core asks for an error; returning would let the operation run."""
    adapter = HookAdapter(BoundedContextStore(), recorder)
    for verdict in Verdict:
        with pytest.raises(GovernanceError):
            adapter.raise_hook_blocked(EvaluationResult(verdict=verdict, raw={"verdict": "allow"}))
        with pytest.raises(GovernanceError):
            adapter.raise_lifecycle_blocked(EvaluationResult(verdict=verdict))


def test_a_result_that_openbox_core_made_up_is_kept() -> None:
    """It says that Core was not asked; the error carries it."""
    made_up = EvaluationResult(verdict=Verdict.HALT, reason="unreachable", fallback_used=True)

    answer = _answer(made_up)

    assert (answer.verdict, answer.local, answer.latches) == (Verdict.HALT, True, False)
    assert answer.result is made_up


class TestOwnership:
    """One owner of the hooks per process."""

    def test_a_second_governance_warns_and_takes_nothing(self, hooked: Connecting, to: Connecting) -> None:
        """The first one keeps its hooks, also when the second closes."""
        first = hooked()
        owner = shared.get_hook_runtime()
        second = to()

        with pytest.warns(InstrumentationWarning, match="another governance"):
            second.hooks.install()
        second.hooks.uninstall()

        assert (bool(first.hooks.targets), bool(second.hooks.targets)) == (True, False)
        assert shared.get_hook_runtime() is owner

    def test_a_second_strict_governance_raises(self, hooked: Connecting, to: Connecting) -> None:
        """And takes nothing either."""
        hooked()
        owner = shared.get_hook_runtime()

        with pytest.raises(OptionError, match="another governance"):
            to(instrumentation_strict=True).hooks.install()

        assert shared.get_hook_runtime() is owner

    def test_the_next_governance_can_own_them(self, to: Connecting) -> None:
        """After the owner has closed."""
        first, second = to(), to()
        first.hooks.install()
        first.hooks.uninstall()

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            second.hooks.install()
        second.hooks.uninstall()

        assert shared.get_hook_runtime() is None

    async def test_closing_removes_only_one_s_own(self, hooked: Connecting, to: Connecting) -> None:
        """A connection without hooks can be closed at any time."""
        hooked()
        owner = shared.get_hook_runtime()

        await to().aclose()

        assert shared.get_hook_runtime() is owner

    def test_switched_off_there_are_none(self, to: Connecting) -> None:
        """Neither a warning."""
        connection = to(install_instrumentation=False)

        connection.hooks.install()

        assert not connection.hooks.targets
        assert connection.hooks.targets == ()

    @pytest.mark.parametrize("files", [False, True])
    def test_file_hooks_are_there_only_when_asked_for(self, hooked: Connecting, files: bool) -> None:
        """They replace `open()` with something that is no `io.IOBase`."""
        assert ("file" in hooked(instrument_files=files).hooks.targets) is files

    def test_a_missing_instrumentation_is_not_silent(
        self, to: Connecting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """openbox_core only mentions it in an INFO line."""
        from openbox_core.instrumentation import http

        monkeypatch.setattr(http, "install_requests", lambda: False)
        lenient, strict = to(), to(instrumentation_strict=True)

        with pytest.warns(InstrumentationWarning, match="requests of requests are not governed"):
            lenient.hooks.install()
        lenient.hooks.uninstall()
        with pytest.raises(OptionError):
            strict.hooks.install()

        assert not strict.hooks.targets
        assert shared.get_hook_runtime() is None

    async def test_questions_of_another_governance_are_not_put_to_the_owner_s_core(
        self, hooked: Connecting, to: Connecting, faulty: FaultyCore, event: Any
    ) -> None:
        """Its address is unknown to the hooks, so they would."""
        owner = hooked()
        with FaultyCore() as other:
            connection = to(api_url=other.url, api_key=other.api_key, install_instrumentation=False)
            with activity_scope(CONTEXT, store=owner.store):
                await connection.gate.judge(event())
                await connection.validate()
                await connection.gate.approvals.poll(_key())

        assert faulty.requests == []

    async def test_another_path_on_core_s_host_is_governed(
        self, hooked: Connecting, faulty: FaultyCore
    ) -> None:
        """openbox_core ignores every URL that begins like Core's address."""
        connection = hooked()

        await fetch(connection, f"{faulty.url}/admin")

        assert [seen["spans"][0]["stage"] for seen in spans(faulty)] == ["started", "completed"]


def _key() -> Any:
    from openbox_agentrt._core.approvals import ApprovalKey

    return ApprovalKey(workflow_id="wf", run_id="run", activity_id="act")


class TestContextStore:
    """What is remembered of traces."""

    def test_traces_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The span processor registers every trace and takes none out."""
        monkeypatch.setattr(context_store, "MAX_TRACES", 100)
        store = BoundedContextStore()
        for number in range(1, 1_001):
            store.register_trace(number, CONTEXT)

        assert store.trace_map_size() == 100
        assert store.context_for_trace(1_000) is CONTEXT
        assert store.context_for_trace(1) is None

    def test_it_behaves_like_openbox_core_s(self) -> None:
        """Hexadecimal ids, unregistering and clearing."""
        store = BoundedContextStore()
        store.register_trace("ff", CONTEXT)
        assert store.context_for_trace(255) is CONTEXT
        store.unregister_trace(255)
        assert store.trace_map_size() == 0
        store.register_trace(1, CONTEXT)
        store.clear()
        assert store.context_for_trace(1) is None

    def test_the_context_of_an_activity_is_made_when_it_is_asked_for(self) -> None:
        """Most activities do no I/O that is governed."""
        made: list[ActivityContext] = []

        class Activity:
            @property
            def context(self) -> ActivityContext:
                made.append(CONTEXT)
                return CONTEXT

        store = BoundedContextStore()
        token = store.bind_activity(Activity())
        assert made == []
        assert store.current_activity_context() is CONTEXT

        store.reset(token)

        assert store.current_activity_context() is None

    def test_a_connection_never_uses_the_shared_store(self, to: Connecting) -> None:
        """Closing one governance must not clear another's."""
        first, second = to(), to()

        assert first.store is not second.store
        assert isinstance(first.store, BoundedContextStore)


def send(connection: Connection, url: str, body: str, *, how: str, activity: str = "look") -> Any:
    """A tool that sends something large."""
    context = replace(CONTEXT, activity_type=activity)

    async def asynchronously() -> int:
        with activity_scope(context, store=connection.store):
            async with httpx.AsyncClient() as client:
                return (await client.post(url, content=body)).status_code

    def synchronously() -> int:
        with activity_scope(context, store=connection.store):
            return requests.post(url, data=body, timeout=5).status_code

    return asynchronously() if how == "asynchronous" else asyncio.to_thread(synchronously)


@pytest.mark.parametrize("posture", ["fail_open", "fail_closed"])
@pytest.mark.parametrize("how", ["asynchronous", "synchronous"])
async def test_what_core_was_shown_in_part_is_not_sent(
    hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer, how: str, posture: str
) -> None:
    """The end of a body may be what Core would have stopped. What fits is shown whole."""
    connection = hooked(max_payload_bytes=100_000, on_api_error=posture)

    assert await send(connection, target.url, "x" * 90_000 + "the end", how=how) == 200
    with pytest.raises(GovernanceBlockedError, match="only a part"):
        await send(connection, target.url, "x" * 110_000 + "the end", how=how)

    told = [one["spans"][0] for one in spans(faulty)]
    first, second = [span["request_body"] for span in told if span["stage"] == "started"]
    assert first.endswith("the end")
    assert "[cut: 110007 bytes" in second
    assert target.hits == 1


async def test_the_request_of_a_model_call_may_be_large(
    hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer
) -> None:
    """Core has been shown what reaches the model, and is shown the beginning of how it is sent."""
    connection = hooked(max_payload_bytes=10_000)

    assert await send(connection, target.url, "x" * 110_000, how="asynchronous", activity="llm_call") == 200

    assert len(spans(faulty)[0]["spans"][0]["request_body"]) < 70_000


async def test_a_constraint_without_a_name_follows_the_fail_policy(
    hooked: Connecting, faulty: FaultyCore, target: LocalCountingServer
) -> None:
    """There is something to put in place, and nobody knows what."""
    opened = hooked(on_api_error="fail_open")
    with faulty.always(Fault.value({"verdict": "constrain"}), path="/evaluate"):
        assert await fetch(opened, target.url) == 200
        opened.hooks.uninstall()
        with pytest.raises(GovernanceBlockedError, match="names no constraint"):
            await fetch(hooked(on_api_error="fail_closed"), target.url)

    assert target.hits == 1
