"""Signed requests."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from openbox_core.identity import AgentIdentity, prepare_signed_request

from openbox_agentrt.local_core import DEFAULT_API_KEY, LocalCore

Make = Callable[..., Any]
DID = "did:aip:00000000-0000-4000-8000-000000000001"
PATH = "/api/v1/governance/evaluate"
EVENT = {"event_type": "WorkflowStarted", "workflow_id": "wf", "run_id": "run", "workflow_type": "Agent"}
PRIVATE = Ed25519PrivateKey.from_private_bytes(b"1" * 32)
PUBLIC = base64.b64encode(PRIVATE.public_key().public_bytes_raw()).decode()
IDENTITY = AgentIdentity.from_private_key(DID, base64.b64encode(b"1" * 32).decode())


def signed(timestamp: str | None = None, nonce: str | None = None) -> tuple[dict[str, str], bytes]:
    return prepare_signed_request(
        "POST", PATH, EVENT, api_key=DEFAULT_API_KEY, identity=IDENTITY, _timestamp=timestamp, _nonce=nonce
    )


def send(core: LocalCore, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
    status, _, answer = core.handle("POST", PATH, headers, body)
    return status, json.loads(answer)


@pytest.mark.parametrize("agents", [None, {DID: PUBLIC}], ids=["unverified", "verified"])
def test_a_signed_request_is_accepted(make: Make, agents: Any) -> None:
    """With or without a public key to verify it by."""
    core = make(agents=agents).core

    assert send(core, *signed())[0] == 200
    assert core.records()[0].caller["agent_did"] == DID
    assert core.records()[0].caller["sdk"].startswith("openbox-")


@pytest.mark.parametrize("agents", [None, {DID: PUBLIC}], ids=["unverified", "verified"])
@pytest.mark.parametrize(
    ("change", "reason_code"),
    [
        pytest.param({"X-OpenBox-Agent-Signature": ""}, "signature_invalid", id="no signature"),
        pytest.param({"X-OpenBox-Agent-Nonce": ""}, "signature_invalid", id="no nonce"),
        pytest.param({"X-OpenBox-Body-SHA256": "0" * 64}, "signature_invalid", id="another body"),
        pytest.param({"X-OpenBox-Agent-Timestamp": "now"}, "timestamp_outside_window", id="no time"),
        pytest.param(
            {"X-OpenBox-Agent-Timestamp": "2026-01-01T00:00:00"}, "timestamp_outside_window", id="no zone"
        ),
    ],
)
def test_a_broken_signature_is_refused(
    make: Make, agents: Any, change: dict[str, str], reason_code: str
) -> None:
    """What can be seen without the key is seen without it."""
    headers, body = signed()

    status, answer = send(make(agents=agents).core, {**headers, **change}, body)

    assert (status, answer["reason_code"]) == (401, reason_code)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_an_old_signature_is_refused(make: Make, seconds: int) -> None:
    """A signature is good for five minutes, before and after."""
    at = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()

    status, answer = send(make().core, *signed(timestamp=at))

    assert (status, answer["reason_code"]) == (401, "timestamp_outside_window")


def test_a_nonce_is_used_once(make: Make) -> None:
    """The very same request cannot be sent again by someone who has overheard it."""
    core = make().core
    request = signed()

    assert send(core, *request)[0] == 200
    assert send(core, *request)[1]["reason_code"] == "nonce_replayed"


def test_a_refused_request_does_not_use_up_its_nonce(make: Make) -> None:
    """Otherwise anyone could spoil a nonce with a wrong signature."""
    core = make(agents={DID: PUBLIC}).core
    headers, body = signed()
    wrong = {**headers, "X-OpenBox-Agent-Signature": base64.b64encode(b"x" * 64).decode()}

    assert send(core, wrong, body)[1]["reason_code"] == "signature_invalid"
    assert send(core, headers, body)[0] == 200


@pytest.mark.parametrize("signature", ["", "é", "!!!", "AAAA"])
def test_nonsense_is_not_a_signature(make: Make, signature: str) -> None:
    """Whatever the text, it is a refusal and not an error."""
    headers, body = signed()

    status, _ = send(
        make(agents={DID: PUBLIC}).core, {**headers, "X-OpenBox-Agent-Signature": signature}, body
    )

    assert status == 401


def test_an_unknown_agent_is_turned_away(make: Make) -> None:
    """With a list of agents, only those on it."""
    status, answer = send(make(agents={}).core, *signed())

    assert (status, answer["reason_code"]) == (401, "did_agent_mismatch")
