"""Connections: what is wired, under which identity, and how it is closed."""

from __future__ import annotations

import base64
import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from openbox_core.config import OpenBoxConfig
from openbox_core.conformance.fake_core import FakeCore, fake_client
from openbox_core.context import ContextStore, default_context_store
from openbox_core.errors import OpenBoxAuthError, OpenBoxConfigError, OpenBoxNetworkError
from openbox_core.runtime import OpenBoxRuntime

from openbox_agentrt._core.approvals import ApprovalKey
from openbox_agentrt._core.connection import Connection, connect
from openbox_agentrt.decision import Verdict
from openbox_agentrt.errors import ApprovalTimeoutError, GovernanceUnavailableError
from openbox_agentrt.lifecycle_events import EventEnvelope
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.options import GovernanceOptions
from openbox_agentrt.testing import Fault, FaultyCore

pytestmark = pytest.mark.leaves_rows_open("single events are sent, not runs")

Connecting = Callable[..., Connection]
MakeEvent = Callable[[], EventEnvelope]
DID = f"did:aip:{uuid.UUID(int=7)}"


def seed_of(key: Ed25519PrivateKey) -> str:
    raw = key.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )
    return base64.b64encode(raw).decode()


def public_of(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return base64.b64encode(raw).decode()


@pytest.fixture(scope="module")
def rsa_pem() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


async def test_nothing_is_sent_before_it_is_asked_for(to: Connecting, faulty: FaultyCore) -> None:
    """Wiring opens no connection and installs no hook."""
    connection = to()

    assert faulty.requests == []
    assert not connection.hooks.targets


async def test_a_key_is_validated(to: Connecting, faulty: FaultyCore) -> None:
    """With Core's answer, whichever it is."""
    await to().validate()
    with pytest.raises(OpenBoxAuthError):
        await to(api_key="obx_test_of_somebody_else").validate()
    with faulty.down(), pytest.raises(OpenBoxNetworkError):
        await to().validate()


async def test_a_signed_identity_signs_every_attempt_anew(event: MakeEvent) -> None:
    """Core refuses a nonce that it has seen, so a retry must not repeat one."""
    key = Ed25519PrivateKey.generate()
    with LocalCore(agents={DID: public_of(key)}) as core, FaultyCore(core) as faulty:
        options = GovernanceOptions.resolve(
            environ={},
            api_url=faulty.url,
            api_key=faulty.api_key,
            agent_did=DID,
            agent_private_key=seed_of(key),
        )
        connection = connect(options, _Deaf())
        faulty.plan(Fault.respond(503), Fault.lost())

        answer = await connection.gate.judge(event())
        await connection.validate()
        await connection.aclose()

    nonces = [seen.request.headers["x-openbox-agent-nonce"] for seen in faulty.requests]
    assert (answer.verdict, answer.local) == (Verdict.ALLOW, False)
    assert len(set(nonces)) == 4


async def test_a_wrong_signature_always_raises(event: MakeEvent) -> None:
    """Under fail_open too."""
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    with LocalCore(agents={DID: public_of(other)}) as core, FaultyCore(core) as faulty:
        options = GovernanceOptions.resolve(
            environ={},
            api_url=faulty.url,
            api_key=faulty.api_key,
            agent_did=DID,
            agent_private_key=seed_of(key),
        )
        connection = connect(options, _Deaf())

        with pytest.raises(OpenBoxAuthError):
            await connection.gate.judge(event())
        await connection.aclose()


async def test_an_okta_identity_asks_the_second_version(
    to: Connecting, faulty: FaultyCore, event: MakeEvent, rsa_pem: str
) -> None:
    """Fully configured, it signs an assertion per request."""
    connection = to(
        okta_agent_private_key=rsa_pem, okta_agent_id="o", okta_agent_key_id="k", openbox_agent_id="a",
        organization_id="org", deployment_id="d", agent_proof_audience="aud",
    )  # fmt: skip

    await connection.gate.judge(event())

    paths = [seen.request.path for seen in faulty.requests]
    # A key that could be a workload's is first asked about, as openbox_core does.
    assert paths[-1] == "/api/v2/governance/evaluate"
    assert "x-openbox-agent-assertion" in faulty.requests[-1].request.headers


UNFETCHED: dict[int, tuple[type[Exception], str | None]] = {
    503: (GovernanceUnavailableError, "outage"),
    401: (OpenBoxAuthError, None),
    418: (GovernanceUnavailableError, "refused"),
}


@pytest.mark.parametrize("status", UNFETCHED)
@pytest.mark.parametrize("version", ["v2", "v3"])
async def test_an_identity_that_cannot_be_fetched_is_told_apart_too(
    to: Connecting, faulty: FaultyCore, event: MakeEvent, rsa_pem: str, version: str, status: int
) -> None:
    """Under fail_closed: an outage is one, a rejection raises, the rest is our own mistake."""
    error, kind = UNFETCHED[status]
    gate = to(okta_agent_private_key=rsa_pem, on_api_error="fail_closed").gate
    if version == "v2":
        # Without a workload authority, openbox_core goes on to the second version.
        faulty.plan(*[Fault.respond(404)] * 8, path="/api/v3/auth/bootstrap")
    unfetched = faulty.always(Fault.respond(status), path=f"/api/{version}/auth/bootstrap")
    with unfetched, pytest.raises(error) as caught:
        await gate.judge(event())

    assert getattr(caught.value, "kind", None) == kind
    assert not [seen for seen in faulty.requests if seen.request.path.endswith("/evaluate")]


@pytest.mark.parametrize("path", ["/api/v3/auth/bootstrap", "/api/v2/auth/bootstrap"])
async def test_an_answer_about_the_identity_is_none_about_the_event(
    to: Connecting, faulty: FaultyCore, event: MakeEvent, rsa_pem: str, path: str
) -> None:
    """Whatever it says: neither a verdict nor an approval is taken from it."""
    gate = to(okta_agent_private_key=rsa_pem, approval_poll_interval_ms=1, approval_max_wait_ms=20).gate
    if "v2" in path:
        faulty.plan(*[Fault.respond(404)] * 8, path="/api/v3/auth/bootstrap")
    with faulty.always(Fault.value({"verdict": "allow", "action": "allow"}), path=path):
        with pytest.raises(GovernanceUnavailableError) as caught:
            await gate.judge(event())
        with pytest.raises(ApprovalTimeoutError):
            await gate.approve(ApprovalKey(workflow_id="w", run_id="r", activity_id="a"))

    assert caught.value.kind == "refused"


async def test_an_identity_that_cannot_be_fetched_is_an_outage_for_fail_open(
    to: Connecting, faulty: FaultyCore, event: MakeEvent, rsa_pem: str
) -> None:
    """openbox_core raises there, whatever the policy; the gate applies it."""
    gate = to(okta_agent_private_key=rsa_pem, on_api_error="fail_open").gate
    with faulty.always(Fault.respond(503), path="/auth/bootstrap"):
        assert (await gate.judge(event())).unreachable


@pytest.mark.parametrize(
    "identity",
    [
        {"agent_did": "x", "agent_private_key": "y"},
        {"agent_did": DID, "agent_private_key": "not base64!"},
        {"agent_did": DID},
        {"okta_agent_id": "o"},
    ],
)
def test_an_identity_that_cannot_be_used_is_refused_before_anything_is_sent(identity: Any) -> None:
    """With openbox_core's words, which do not repeat the key."""
    options = GovernanceOptions.resolve(
        environ={}, api_url="https://core.example", api_key="obx_test_x", **identity
    )

    with pytest.raises(OpenBoxConfigError) as caught:
        connect(options, _Deaf())

    assert "not base64!" not in str(caught.value)


async def test_a_core_in_this_process_needs_no_socket(
    recorder: Any, event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked, validated and polled through one function."""
    monkeypatch.setattr("socket.socket.connect", _no_socket)
    with LocalCore(policy=lambda event: "REQUIRE_APPROVAL", guardrails=False) as core:
        options = GovernanceOptions.resolve(environ={}, core=core, approval_poll_interval_ms=1)
        connection = connect(options, recorder)
        await connection.validate()
        asked = event()
        answer = await connection.gate.judge(asked)
        (pending,) = core.pending_approvals()
        core.approve(pending)
        await connection.gate.approve(
            ApprovalKey.of(
                answer,
                workflow_id=asked.payload["workflow_id"],
                run_id=asked.payload["run_id"],
                activity_id=str(asked.activity_id),
            )
        )
        await connection.aclose()

    assert answer.verdict is Verdict.REQUIRE_APPROVAL


def _no_socket(*args: Any) -> None:
    raise AssertionError("a socket was opened")


async def test_a_core_in_this_process_that_breaks_lets_nothing_pass(recorder: Any, event: MakeEvent) -> None:
    """A bug there is no outage, so fail_open does not apply."""

    class Broken:
        api_key = "obx_test_x"

        def handle(self, *args: Any) -> Any:
            raise ZeroDivisionError

    options = GovernanceOptions.resolve(environ={}, core=Broken(), on_api_error="fail_open")
    connection = connect(options, recorder)

    with pytest.raises(GovernanceUnavailableError) as caught:
        await connection.gate.judge(event())
    await connection.aclose()

    assert caught.value.kind == "unreadable"


def test_a_local_core_has_to_be_built_first(recorder: Any) -> None:
    """The name alone is for whoever builds it."""
    options = GovernanceOptions.resolve(environ={}, core="local")

    with pytest.raises(ValueError, match="has to be built"):
        connect(options, recorder)


async def test_the_key_and_address_of_a_local_core_are_its_own(recorder: Any, event: MakeEvent) -> None:
    """Those of the environment belong to another Core."""
    environ = {"OPENBOX_API_URL": "https://core.example", "OPENBOX_API_KEY": "obx_live_real"}
    with LocalCore() as core:
        connection = connect(GovernanceOptions.resolve(environ=environ, core=core), recorder)
        await connection.gate.judge(event())
        await connection.aclose()

        assert connection.runtime.config.api_url == "https://local-core.invalid"
        assert "obx_live_real" not in json.dumps(core.events())


async def test_an_injected_runtime_is_used_as_it_is(recorder: Any, event: MakeEvent) -> None:
    """Its adapter, its store and its client; closing the connection closes it."""
    core = FakeCore()
    runtime = OpenBoxRuntime(
        OpenBoxConfig(api_url="https://core.test", api_key="obx_test_x"),
        client=fake_client(core),
        context_store=ContextStore(),
    )
    connection = connect(GovernanceOptions.resolve(environ={}, runtime=runtime), recorder)

    await connection.gate.judge(event())
    await connection.aclose()

    assert connection.injected
    assert connection.runtime is runtime
    assert len(core.payloads) == 1


async def test_the_store_that_the_process_shares_is_left_alone(to: Connecting) -> None:
    """openbox_core clears it when any runtime that uses it closes."""
    connection = to()
    default_context_store().mark_activity_aborted("wf", "act")

    await connection.aclose()

    assert default_context_store().is_activity_aborted("wf", "act")
    default_context_store().clear_activity_aborted("wf", "act")


async def test_no_secret_is_logged(
    to: Connecting, faulty: FaultyCore, event: MakeEvent, caplog: pytest.LogCaptureFixture
) -> None:
    """At any level, by us or by openbox_core, in an outage or without one."""
    caplog.set_level(logging.DEBUG)
    connection = to()
    secret = replace(event(), payload={**event().payload, "activity_input": [{"card": "4111111111111111"}]})
    faulty.plan(Fault.respond(503), Fault.reset())
    await connection.gate.judge(secret)
    with faulty.down():
        await connection.gate.reports.outbox().send(secret)
    connection.hooks.install()
    connection.hooks.uninstall()

    assert faulty.api_key not in caplog.text
    assert "4111111111111111" not in caplog.text


async def test_closing_leaves_no_connection_open(
    to: Connecting, faulty: FaultyCore, event: MakeEvent
) -> None:
    """Also where httpx was never asked."""
    connection = to()
    await connection.gate.judge(event())
    client: Any = connection.runtime.client
    assert len(client.line._connections) == 1

    await connection.aclose()

    assert len(client.line._connections) == 0


class _Deaf:
    def refused(self, error: Any, *, latches: bool, context: Any) -> None: ...

    def cancelled(self, context: Any) -> None:
        return None
