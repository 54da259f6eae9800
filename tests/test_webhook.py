"""A web hook hears of a call that waits: signed, again if it was away, and no run waits for it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt._webhook import ATTEMPTS, MOST_WAITING, Webhook, WebhookError
from openbox_agentrt.decision import ApprovalRequest
from openbox_agentrt.errors import OptionError
from openbox_agentrt.local_core import LocalCore


class _Receiver:
    """A server of our own that takes messages, or does not."""

    def __init__(self) -> None:
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.came = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.open.wait(20)
                status = receiver.answers.pop(0) if receiver.answers else 204
                receiver.taken.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()
                receiver.came.release()

            def log_message(self, *_: Any) -> None:
                """Nothing is printed."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/secret-part"

    def wait(self) -> None:
        assert self.came.acquire(timeout=20)

    def close(self) -> None:
        self.open.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[_Receiver]:
    receiver = _Receiver()
    yield receiver
    receiver.close()


def _asks(event: dict[str, Any]) -> Any:
    if event.get("activity_type") == "refund" and event["event_type"] == "ActivityStarted":
        return {"decision": "REQUIRE_APPROVAL", "reason": "refunds over 100 need a person"}
    return None


def test_what_is_sent_is_signed(receiver: _Receiver) -> None:
    """As Standard Webhooks says: whoever has the key can tell that it is ours, and of when."""
    hook = Webhook(receiver.url, secret="a key of ours")

    hook.send({"text": "hello"})
    hook.close(20)

    headers, body = receiver.taken[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(b"a key of ours", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    assert json.loads(body) == {"text": "hello"}
    assert headers["content-type"] == "application/json"


def test_a_secret_of_standard_webhooks_is_the_key_that_it_stands_for(receiver: _Receiver) -> None:
    """Their libraries take ``whsec_`` off and read the rest as Base64."""
    hook = Webhook(receiver.url, secret="whsec_" + base64.b64encode(b"a key of ours").decode())

    hook.send({"text": "hello"})
    hook.close(20)

    headers, body = receiver.taken[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(b"a key of ours", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"


def test_a_secret_that_is_none_is_refused_and_not_quoted() -> None:
    """Before anything is sent with a signature that nobody can check."""
    with pytest.raises(WebhookError, match="Base64") as refused:
        Webhook("https://example.com/hook", secret="whsec_not base64!")

    assert "not base64!" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_reached_through_no_proxy(receiver: _Receiver, host: str, dead_proxy: None) -> None:
    """Whatever is configured for the rest."""
    hook = Webhook(receiver.url.replace("127.0.0.1", host), pause=lambda seconds: None)

    hook.send({"text": "hello"})
    hook.close(20)

    assert len(receiver.taken) == 1


def test_it_tries_again_while_the_other_side_is_away(receiver: _Receiver) -> None:
    """With growing waits, and the same id."""
    pauses: list[float] = []
    receiver.answers = [503, 429, 500]
    hook = Webhook(receiver.url, pause=pauses.append)

    hook.send({"text": "hello"})
    hook.close(20)

    assert hook.sent == 1
    assert pauses == [1.0, 2.0, 4.0]
    assert len({headers["webhook-id"] for headers, _ in receiver.taken}) == 1


@pytest.mark.parametrize("status", [400, 404, 302], ids=["not taken", "not there", "elsewhere"])
def test_a_no_is_not_asked_again(receiver: _Receiver, status: int, caplog: pytest.LogCaptureFixture) -> None:
    """It is said in the log, without the part of the address that may be a secret."""
    receiver.answers = [status]
    hook = Webhook(receiver.url)

    hook.send({"text": "lost"})
    hook.send({"text": "kept"})
    hook.close(20)

    assert (hook.sent, hook.lost) == (1, 1)
    assert [json.loads(body)["text"] for _, body in receiver.taken] == ["lost", "kept"]
    assert f"HTTP {status}" in caplog.text
    assert "secret-part" not in caplog.text


def test_nobody_there_costs_the_sender_nothing() -> None:
    """It gives up after some attempts, in its own thread."""
    pauses: list[float] = []
    hook = Webhook("http://127.0.0.1:9/", pause=pauses.append)

    hook.send({"text": "hello"})
    hook.close(20)

    assert hook.lost == 1
    assert len(pauses) == ATTEMPTS - 1


def test_what_waits_is_bounded(receiver: _Receiver) -> None:
    """The oldest is dropped, and counted."""
    receiver.open.clear()
    hook = Webhook(receiver.url)
    for number in range(MOST_WAITING + 50):
        hook.send({"number": number})

    assert hook.lost >= 49
    receiver.open.set()
    hook.close(0)


def test_closing_a_full_one_keeps_nobody_waiting(receiver: _Receiver) -> None:
    """Neither whoever closes it, nor whoever sends meanwhile."""
    receiver.open.clear()
    hook = Webhook(receiver.url)
    for number in range(MOST_WAITING + 50):
        hook.send({"number": number})
    closed = threading.Thread(target=hook.close, args=(0.0,))
    closed.start()
    sent = threading.Thread(target=hook.send, args=({"number": -1},))
    sent.start()

    closed.join(20)
    sent.join(20)
    assert not closed.is_alive()
    assert not sent.is_alive()


def test_what_is_sent_after_it_was_closed_is_sent(receiver: _Receiver) -> None:
    """A run that goes on while its governance is closed may still have to ask somebody."""
    hook = Webhook(receiver.url)
    for number in range(2):
        hook.send({"number": number})
        hook.close(20)

    assert [json.loads(body)["number"] for _, body in receiver.taken] == [0, 1]


def test_a_password_in_the_address_is_refused_and_not_quoted() -> None:
    """It would not be sent, so nothing would ever arrive."""
    with pytest.raises(WebhookError, match="password") as refused:
        Webhook("https://me:hunter2@example.com/hook")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://example.com/hook", "ftp://example.com", "example.com", "https://"], ids=str
)
def test_only_an_encrypted_address_is_told(url: str) -> None:
    """Plain HTTP is for this machine."""
    with pytest.raises(WebhookError, match="https"):
        Webhook(url)


async def test_a_governance_tells_of_a_call_that_waits(receiver: _Receiver) -> None:
    """With a text, and nothing of what is to be approved."""
    with LocalCore(_asks) as core:
        governance = await create_openbox_agentrt(
            core=core, on_approval=receiver.url, on_approval_secret="k", approval_poll_interval_ms=20
        )
        async with governance, governance.run_scope("work", agent_name="desk", session_id="s-1"):
            waits = asyncio.create_task(_refund(governance))
            approval = await core.await_approval()
            await asyncio.to_thread(receiver.wait)
            core.approve(approval, by="ops-lead")
            await waits

    told = json.loads(receiver.taken[0][1])
    assert told["text"].startswith("desk waits for a person, refund: refunds over 100 need a person (until ")
    assert (told["approval_id"], told["session_id"]) == (approval.id, "s-1")
    assert "cus_3107" not in receiver.taken[0][1].decode()
    assert "webhook-signature" in receiver.taken[0][0]


async def test_a_reason_that_holds_a_secret_is_told_without_it(receiver: _Receiver) -> None:
    """A policy may quote what it was asked about."""
    key = "sk-ant-" + "a1B2" * 20

    def asks(event: dict[str, Any]) -> Any:
        said = _asks(event)
        return said and {**said, "reason": f"token={key} is refunded"}

    with LocalCore(asks) as core:
        governance = await create_openbox_agentrt(
            core=core, on_approval=receiver.url, redact_fields=["customer"], approval_poll_interval_ms=20
        )
        async with governance, governance.run_scope("work", agent_name="desk"):
            waits = asyncio.create_task(_refund(governance))
            approval = await core.await_approval()
            await asyncio.to_thread(receiver.wait)
            core.approve(approval)
            await waits

    told = receiver.taken[0][1].decode()
    assert "refunded" in told
    assert key not in told


def test_a_local_core_tells_a_reason_without_the_secret_in_it(receiver: _Receiver) -> None:
    """By what it looks like, and by the names that are given."""
    key = "sk-ant-" + "a1B2" * 20
    reason = f"token={key} iban=DE02120300000000202051 is refunded"
    event = {
        "event_type": "ActivityStarted",
        "workflow_id": "w",
        "run_id": "r",
        "workflow_type": "desk",
        "task_queue": "q",
        "source": "workflow-telemetry",
        "timestamp": "2027-02-11T03:01:18Z",
        "activity_id": "a",
        "activity_type": "refund",
    }
    with LocalCore(
        lambda _: {"decision": "REQUIRE_APPROVAL", "reason": reason},
        on_approval=receiver.url,
        redact_fields=["iban"],
    ) as core:
        headers = {"authorization": f"Bearer {core.api_key}"}
        status, _, _ = core.handle("POST", "/api/v1/governance/evaluate", headers, json.dumps(event).encode())
        receiver.wait()

    told = receiver.taken[0][1].decode()
    assert status == 200
    assert "is refunded" in told
    assert key not in told
    assert "DE0212" not in told


async def _refund(governance: Any) -> None:
    async with governance.activity("refund", {"customer": "cus_3107", "amount": 180}):
        pass


@pytest.mark.parametrize("fails", [False, True], ids=["well", "raises"])
async def test_a_callable_is_told_and_what_it_does_changes_nothing(fails: bool) -> None:
    """Once for each call, whatever it raises."""
    asked: list[ApprovalRequest] = []

    async def told(request: ApprovalRequest) -> None:
        asked.append(request)
        if fails:
            raise RuntimeError("the pager is broken")

    with LocalCore(_asks) as core:
        governance = await create_openbox_agentrt(core=core, on_approval=told, approval_poll_interval_ms=20)
        async with governance, governance.run_scope("work", agent_name="desk"):
            waits = asyncio.create_task(_refund(governance))
            core.approve(await core.await_approval())
            await waits

    assert [(one.event, one.agent, one.reason) for one in asked] == [
        ("refund", "desk", "refunds over 100 need a person")
    ]


async def test_a_hook_that_hangs_keeps_no_run_waiting(receiver: _Receiver) -> None:
    """The call goes on as soon as somebody has decided."""
    receiver.open.clear()
    with LocalCore(_asks, on_approval=receiver.url) as core:
        governance = await create_openbox_agentrt(
            core=core, on_approval=receiver.url, approval_poll_interval_ms=20
        )
        async with governance.run_scope("work"):
            waits = asyncio.create_task(_refund(governance))
            core.approve(await core.await_approval())
            await waits
        receiver.open.set()
        await governance.aclose()


async def test_an_address_that_cannot_be_told_is_a_wrong_option() -> None:
    """Before anything is sent."""
    with pytest.raises(OptionError, match="on_approval"):
        await create_openbox_agentrt(core="local", on_approval="http://example.com/hook")


def test_a_local_core_tells_too(receiver: _Receiver) -> None:
    """Of what any SDK asks."""
    with LocalCore(_asks, on_approval=receiver.url) as core:
        event = {
            "source": "workflow-telemetry",
            "event_type": "ActivityStarted",
            "workflow_id": "w",
            "run_id": "r",
            "workflow_type": "desk",
            "activity_id": "a",
            "activity_type": "refund",
            "activity_input": [{"customer": "cus_3107"}],
            "timestamp": "2027-02-11T03:01:18Z",
        }
        headers = {"authorization": f"Bearer {core.api_key}"}
        core.handle("POST", "/api/v1/governance/evaluate", headers, json.dumps(event).encode())
        receiver.wait()

    told = json.loads(receiver.taken[0][1])
    assert told["text"] == "desk waits for a person, refund: refunds over 100 need a person"
    assert "cus_3107" not in receiver.taken[0][1].decode()
