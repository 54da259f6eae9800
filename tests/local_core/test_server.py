"""A local Core over HTTP, and the clients that it is meant for."""

from __future__ import annotations

import asyncio
import base64
import pickle
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from openbox_core.approvals import ApprovalPoller
from openbox_core.client import EvaluationClient
from openbox_core.config import OpenBoxConfig
from openbox_core.context import ContextStore
from openbox_core.contracts import events
from openbox_core.contracts.results import Verdict
from openbox_core.errors import OpenBoxAuthError, OpenBoxSigningError
from openbox_core.identity import AgentIdentity
from openbox_core.runtime import OpenBoxRuntime
from openbox_core.wire.evaluate_payload import build_evaluate_payload

from openbox_agentrt.local_core import LocalCore, NotLoopbackError, running, serve

Make = Callable[..., Any]
DID = "did:aip:00000000-0000-4000-8000-000000000001"
IDS: Any = {"workflow_id": "wf", "run_id": "run", "workflow_type": "Agent"}


def client_of(url: str, core: LocalCore, **options: Any) -> EvaluationClient:
    return EvaluationClient(url, core.api_key, on_api_error="fail_closed", **options)


def started(**fields: Any) -> dict[str, Any]:
    ids = {**IDS, "activity_id": "a1", "activity_type": "refund", "activity_input": [{"amount": 5}], **fields}
    return events.activity_started(**ids).to_payload_dict()


def test_the_base_client_evaluates(make: Make) -> None:
    """The verdict of the policy arrives as the base SDK's own."""
    core = make(lambda event: {"decision": "BLOCK", "reason": "no", "patch": {"new_input": [1]}}).core
    with running(core) as url:
        client = client_of(url, core)
        result = client.evaluate(started())
        client.close()

    assert (result.verdict, result.reason, result.fallback_used) == (Verdict.BLOCK, "no", False)
    assert result.patch is not None
    assert result.patch.new_input == [1]


def test_the_key_is_validated(make: Make) -> None:
    """The right key is accepted, another one is an authentication error."""
    core = make().core
    with running(core) as url:
        good, bad = client_of(url, core), EvaluationClient(url, "obx_test_other")
        try:
            assert good.validate_api_key() is True
            with pytest.raises(OpenBoxAuthError):
                bad.validate_api_key()
            with pytest.raises(OpenBoxAuthError):
                bad.evaluate(started())
        finally:
            good.close()
            bad.close()


async def test_the_base_runtime_runs_a_whole_lifecycle(make: Make) -> None:
    """Start, prompt, tool, hook inside the tool, end: everything arrives and adds up."""
    core = make().core
    activity: Any = {**IDS, "activity_id": "a1", "activity_type": "refund"}
    span = {
        "span_id": "a" * 16,
        "trace_id": "b" * 32,
        "stage": "started",
        "hook_type": "http_request",
        "http_url": "http://example.test/",
    }
    hook = events.hook(activity_context=IDS, activity_id="a1", activity_type="refund", spans=[span])
    with running(core) as url:
        client = client_of(url, core)
        config = OpenBoxConfig.resolve(api_url=url, api_key=core.api_key)
        runtime = OpenBoxRuntime(config, client=client, context_store=ContextStore())
        for event in (
            events.workflow_started(**IDS),
            events.signal_received(**IDS, signal_name="user_prompt", extra={"signal_args": ["hello"]}),
            events.activity_started(**activity, activity_input=[{}]),
        ):
            await runtime.aevaluate_lifecycle(event)
        payload, _ = build_evaluate_payload(hook)
        assert (await client.aevaluate(payload)).verdict is Verdict.ALLOW
        for event in (
            events.activity_completed(**activity, extra={"activity_output": {"ok": True}}),
            events.workflow_completed(**IDS),
        ):
            await runtime.aevaluate_lifecycle(event)
        await runtime.aclose()

    assert core.orphans() == []
    assert core.open_workflows() == []
    assert core.refused() == []
    assert [e.get("hook_trigger", False) for e in core.events()] == [False, False, False, True, False, False]


async def test_the_base_poller_waits_for_a_person(make: Make) -> None:
    """An approval that is given while the base SDK polls lets it go on."""
    core = make(lambda event: "REQUIRE_APPROVAL").core
    with running(core) as url:
        client = client_of(url, core)
        result = await client.aevaluate(started())
        poller = ApprovalPoller(client, poll_interval_seconds=0.01, max_wait_seconds=10)
        waiting = asyncio.create_task(poller.await_decision("wf", "run", "a1"))
        core.approve(await core.await_approval(), note="fine")
        decision = await waiting
        await client.aclose()

    assert result.verdict is Verdict.REQUIRE_APPROVAL
    assert result.approval_id == decision.approval_id
    assert (decision.verdict, decision.reason, decision.expired) == (Verdict.ALLOW, "fine", False)


def test_signed_requests_verify(make: Make) -> None:
    """A request that is signed with the key of its DID is accepted, and the record names the agent."""
    private = Ed25519PrivateKey.generate()
    public = base64.b64encode(private.public_key().public_bytes_raw()).decode()
    seed = base64.b64encode(private.private_bytes_raw()).decode()
    core = make(agents={DID: public}).core
    with running(core) as url:
        client = client_of(url, core, identity=AgentIdentity.from_private_key(DID, seed))
        client.evaluate(started())
        handoff = client.emit_handoff("agent-2", "please go on")
        client.close()

    assert core.records()[0].caller["agent_did"] == DID
    assert (handoff["status"], handoff["target_agent_id"]) == ("accepted", "agent-2")


def test_a_signature_with_another_key_is_refused(make: Make) -> None:
    """The base SDK explains the refusal, since it gets Core's own reason code."""
    public = base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    seed = base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()
    core = make(agents={DID: public}).core
    with running(core) as url:
        client = client_of(url, core, identity=AgentIdentity.from_private_key(DID, seed))
        with pytest.raises(OpenBoxSigningError) as caught:
            client.evaluate(started())
        client.close()

    assert caught.value.reason_code == "signature_invalid"
    assert core.events() == []


def test_a_workload_key_falls_back_when_core_has_no_such_authority(make: Make) -> None:
    """A client that is set up for v3 asks for a bootstrap document first, and goes on with v1."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    core = make().core
    with running(core) as url:
        client = client_of(url, core, workload_private_key=pem.decode())
        result = client.evaluate(started())
        client.close()

    assert result.verdict is Verdict.ALLOW


def test_every_method_and_path_gets_an_answer(make: Make) -> None:
    """What is not a route of Core is a 404 or a 405 with a body, over HTTP as well."""
    core = make().core
    with running(core) as url, httpx.Client(base_url=url) as client:
        codes = [
            client.request(method, path).status_code
            for method, path in [
                ("GET", "/"),
                ("GET", "/api/v1/governance/evaluate"),
                ("DELETE", "/api/v1/governance/evaluate"),
                ("OPTIONS", "/api/v1/governance/evaluate"),
                ("POST", "/api/v1/auth/validate"),
                ("GET", "/api/v1/auth/validate"),
                ("POST", "/api/v9/governance/evaluate"),
                ("GET", "/api/v1/../v1/auth/validate"),
            ]
        ]

    assert codes == [404, 405, 405, 405, 405, 401, 404, 401]


def test_a_body_that_is_too_large(make: Make) -> None:
    """The server stops reading and says 413."""
    core = make(max_body_bytes=1000).core
    with running(core) as url:
        response = httpx.post(
            f"{url}/api/v1/governance/evaluate",
            content=b"x" * 100_000,
            headers={"Authorization": f"Bearer {core.api_key}"},
        )

    assert response.status_code == 413


def test_a_body_that_is_too_large_is_not_collected(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused for its size takes no memory; the client gets its 413 all the same."""
    core = make(max_body_bytes=1000).core
    handle, sizes = core.ahandle, []

    async def spy(method: str, path: str, headers: Any, body: bytes) -> Any:
        sizes.append(len(body))
        return await handle(method, path, headers, body)

    monkeypatch.setattr(core, "ahandle", spy)
    with running(core) as url:
        response = httpx.post(
            f"{url}/api/v1/governance/evaluate",
            content=(b"x" * 65_536 for _ in range(200)),
            headers={"Authorization": f"Bearer {core.api_key}"},
        )

    assert response.status_code == 413
    assert 1000 < sizes[0] < 1_000_000


def test_half_a_request_is_none(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A client that goes away in the middle of its request leaves no trace, and no complaint."""
    core = make().core
    with running(core) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(b"POST /api/v1/governance/evaluate HTTP/1.1\r\nHost: x\r\n")
            connection.sendall(b"Content-Length: 100\r\n\r\n{")
        httpx.get(url)

    assert core.events() == []
    assert [seen.path for seen in core.refused()] == ["/"]
    assert caplog.text == ""


def test_the_thread_and_the_port_are_given_back(make: Make) -> None:
    """Leaving the block ends the server."""
    before = threading.active_count()
    with running(make().core) as url:
        httpx.get(url)

    assert threading.active_count() == before
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.test", ""])
def test_other_machines_are_not_served_by_accident(make: Make, host: str) -> None:
    """An address that others can reach has to be asked for explicitly."""
    with pytest.raises(NotLoopbackError) as caught:
        serve(make().core, host, 0)

    assert pickle.loads(pickle.dumps(caught.value)).host == host


def test_a_port_in_use_is_an_error(make: Make) -> None:
    """Not a server that runs elsewhere, and not a process that exits."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        serve(make().core, "127.0.0.1", taken.getsockname()[1])


async def test_a_server_survives_its_policy(make: Make, tmp_path: Path, event_of: Any) -> None:
    """What ends the process that evaluates blocks one event; while it dies, others are answered."""
    policy = tmp_path / "policy.rego"
    policy.write_text(
        'package p\nimport rego.v1\ndefault result := {"decision": "CONTINUE"}\n'
        'result := {"decision": "BLOCK", "reason": "found"} if { regex.match(`^.*secret`, input.x) }\n',
        encoding="utf-8",
    )
    core = make(policy).core
    with running(core) as url:
        async with httpx.AsyncClient(
            base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {core.api_key}"}, timeout=30
        ) as client:
            texts = ["a" * 5_000_000, "nothing", "a secret"]
            events = [event_of(activity_id=f"a{n}", x=text) for n, text in enumerate(texts)]
            asked = [client.post("/governance/evaluate", json=event) for event in events]
            answers = await asyncio.gather(*asked, client.get("/auth/validate"))

    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.json()["verdict"] for answer in answers[:3]] == ["block", "allow", "block"]
    assert core.policy_counts.deaths == 1
