"""A Core that misbehaves when it is told to."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Fault, FaultyCore, answers_that_are_no_answers, contradictions

EVALUATE = "/api/v1/governance/evaluate"


@pytest.fixture
def faulty() -> Iterator[FaultyCore]:
    with FaultyCore() as server:
        yield server


def event(number: int = 1) -> dict[str, Any]:
    return {
        "event_type": "ActivityStarted",
        "workflow_id": "wf",
        "run_id": "run",
        "workflow_type": "Agent",
        "activity_id": f"a{number}",
        "activity_type": "refund",
        "activity_input": [{}],
    }


def ask(server: FaultyCore, number: int = 1, timeout: float = 5.0) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return httpx.post(server.url + EVALUATE, json=event(number), headers=headers, timeout=timeout)


def test_without_a_fault_it_answers_like_core(faulty: FaultyCore) -> None:
    """Requests that nothing is planned for reach the local Core."""
    response = ask(faulty)

    assert (response.status_code, response.json()["verdict"]) == (200, "allow")
    assert faulty.core.events() == [event()]
    assert faulty.requests[0].json() == event()
    assert faulty.requests[0].fault is None


def test_each_planned_fault_meets_one_request(faulty: FaultyCore) -> None:
    """Faults are used up in order; then the server answers properly again."""
    faulty.plan(Fault.respond(503), Fault.respond(429, retry_after=7))

    responses = [ask(faulty) for _ in range(3)]

    assert [r.status_code for r in responses] == [503, 429, 200]
    assert [r.headers.get("retry-after") for r in responses] == [None, "7", None]
    assert [seen.fault.name if seen.fault else None for seen in faulty.requests] == [
        "status 503",
        "status 429",
        None,
    ]


def test_a_fault_can_be_meant_for_one_path(faulty: FaultyCore) -> None:
    """A fault for approvals does not meet an evaluation."""
    faulty.plan(Fault.respond(500), path="/approval")

    assert ask(faulty).status_code == 200


def test_a_standing_fault_can_be_meant_for_one_path(faulty: FaultyCore) -> None:
    """Other paths are answered."""
    with faulty.always(Fault.respond(500), path="/approval"):
        assert ask(faulty).status_code == 200


def test_a_fault_keeps_the_refusal_of_core(faulty: FaultyCore) -> None:
    """An error of Core is not made into an answer by changing its fields."""
    faulty.plan(Fault.altered(verdict="allow"))

    response = httpx.post(faulty.url + EVALUATE, json=event())

    assert response.status_code == 401
    assert "verdict" not in response.json()


def test_a_standing_fault_meets_every_request(faulty: FaultyCore) -> None:
    """Until its block is left; planned faults come first."""
    with faulty.always(Fault.respond(500)):
        faulty.plan(Fault.respond(418))
        codes = [ask(faulty).status_code for _ in range(3)]

    assert [*codes, ask(faulty).status_code] == [418, 500, 500, 200]


def test_a_fault_can_be_rare(faulty: FaultyCore) -> None:
    """Some requests meet it, always the same ones; the others meet what is around the block."""
    with faulty.always(Fault.respond(429)), faulty.always(Fault.respond(503), chance=0.3):
        codes = [ask(faulty).status_code for _ in range(40)]
    with FaultyCore() as other, other.always(Fault.respond(503), chance=0.3):
        again = [ask(other).status_code for _ in range(40)]

    assert {429, 503} == set(codes)
    assert 4 < codes.count(503) < 22
    assert [code == 503 for code in codes] == [code == 503 for code in again]


def test_it_can_forget() -> None:
    """Under load only the latest requests are kept."""
    with FaultyCore(keep=2) as faulty:
        for number in range(4):
            ask(faulty, number)

        assert [seen.json()["activity_id"] for seen in faulty.requests] == ["a2", "a3"]


def test_refused_connections(faulty: FaultyCore) -> None:
    """While it is down nobody can connect; afterwards it is back on the same port."""
    url = faulty.url
    with faulty.down(), pytest.raises(httpx.ConnectError):
        ask(faulty)

    assert (ask(faulty).status_code, faulty.url) == (200, url)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(Fault.close(), httpx.RemoteProtocolError, id="closed"),
        pytest.param(Fault.reset(), httpx.ReadError, id="reset"),
        pytest.param(Fault.half_answer(), httpx.RemoteProtocolError, id="half"),
        pytest.param(Fault.black_hole(), httpx.ReadTimeout, id="black hole"),
        pytest.param(Fault.slow(10), httpx.ReadTimeout, id="slow"),
        pytest.param(Fault.late(10), httpx.ReadTimeout, id="late"),
    ],
)
def test_faults_of_the_connection(faulty: FaultyCore, fault: Fault, error: type[Exception]) -> None:
    """What a client sees is the real thing."""
    faulty.plan(fault)

    with pytest.raises(error):
        ask(faulty, timeout=0.3)


@pytest.mark.parametrize("fault", [Fault.late(10), Fault.lost(), Fault.half_answer()], ids=lambda f: f.name)
def test_the_core_has_decided_although_nobody_heard(faulty: FaultyCore, fault: Fault) -> None:
    """A retry of a lost answer meets the memory of the Core."""
    faulty.plan(fault)
    with pytest.raises(httpx.HTTPError):
        ask(faulty, timeout=0.3)

    assert ask(faulty).status_code == 200
    assert [record.same_as for record in faulty.core.records()] == [None, 1]


def test_a_black_hole_does_not_reach_the_core(faulty: FaultyCore) -> None:
    """The request was seen, but nothing was decided."""
    faulty.plan(Fault.black_hole())
    with pytest.raises(httpx.ReadTimeout):
        ask(faulty, timeout=0.2)

    assert len(faulty.requests) == 1
    assert faulty.core.events() == []


async def test_latency_does_not_hold_up_other_requests(faulty: FaultyCore) -> None:
    """One slow request is one slow request."""
    faulty.plan(Fault.slow(30))
    headers = {"Authorization": f"Bearer {faulty.api_key}"}
    async with httpx.AsyncClient(base_url=faulty.url, headers=headers) as client:
        slow = asyncio.create_task(client.post(EVALUATE, json=event(1)))
        while not faulty.requests:  # noqa: ASYNC110 - the server is in another thread
            await asyncio.sleep(0)

        assert (await client.post(EVALUATE, json=event(2))).status_code == 200
        assert not slow.done()
        slow.cancel()
        await asyncio.wait([slow])


@pytest.mark.parametrize("status", [204, 301, 307, 400, 404, 500, 502])
def test_statuses(faulty: FaultyCore, status: int) -> None:
    """Any status can be answered."""
    faulty.plan(Fault.respond(status))

    assert ask(faulty).status_code == status


def test_a_huge_answer(faulty: FaultyCore) -> None:
    """50 MB that begin like an ALLOW."""
    faulty.plan(Fault.huge())

    response = ask(faulty, timeout=30)

    assert len(response.content) == 50 * 1024 * 1024
    assert response.json()["verdict"] == "allow"


def test_nan_is_written_as_it_should_not_be(faulty: FaultyCore) -> None:
    """The body is what a careless server writes: no JSON, but many decoders take it."""
    faulty.plan(Fault.altered(risk_score=float("nan")))

    assert '"risk_score": NaN' in ask(faulty).text


def test_the_own_answer_can_be_altered(faulty: FaultyCore) -> None:
    """Fields of a proper answer are overwritten or removed, the rest stays."""
    faulty.plan(Fault.altered(verdict="quarantine", action=...))

    answer = ask(faulty).json()

    assert answer["verdict"] == "quarantine"
    assert "action" not in answer
    assert "governance_event_id" in answer


@pytest.mark.parametrize("name", answers_that_are_no_answers())
def test_no_answer_in_the_catalogue_is_an_allow(faulty: FaultyCore, name: str) -> None:
    """Each has a status of success, or breaks off, and none says ``allow`` where Core says it."""
    faulty.plan(answers_that_are_no_answers()[name])

    try:
        response = ask(faulty)
    except httpx.RemoteProtocolError:
        return
    assert 200 <= response.status_code < 300
    try:
        answer = response.json()
    except ValueError:
        return
    assert not isinstance(answer, dict) or answer.get("verdict") != "allow"


@pytest.mark.parametrize("name", contradictions())
def test_contradictions_contradict(faulty: FaultyCore, name: str) -> None:
    """Each says ``allow`` or ``continue``, and something else that forbids it."""
    faulty.plan(contradictions()[name])

    answer = ask(faulty).json()

    permits = answer["verdict"] == "allow" or answer.get("action") == "continue"
    forbids = (
        answer["verdict"] == "block"
        or answer.get("action") in ("block", "stop")
        or answer.get("guardrails_result", {}).get("validation_passed") is False
    )
    assert permits
    assert forbids


async def test_it_can_be_used_from_async_code(faulty: FaultyCore) -> None:
    """The server runs in a thread of its own, so the loop of a test stays free."""
    headers = {"Authorization": f"Bearer {faulty.api_key}"}
    async with httpx.AsyncClient(base_url=faulty.url, headers=headers) as client:
        responses = await asyncio.gather(*(client.post(EVALUATE, json=event(n)) for n in range(20)))

    assert {r.status_code for r in responses} == {200}
    assert len(faulty.core.events()) == 20


def test_a_connection_is_used_again(faulty: FaultyCore) -> None:
    """Keep-alive works, as with a real Core."""
    headers = {"Authorization": f"Bearer {faulty.api_key}"}
    with httpx.Client(base_url=faulty.url, headers=headers) as client:
        assert [client.post(EVALUATE, json=event(n)).status_code for n in range(3)] == [200] * 3


def test_what_is_no_http_is_hung_up_on(faulty: FaultyCore) -> None:
    """Garbage on the port does not stop the server."""
    host, port = faulty.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        assert connection.recv(100) == b""

    assert ask(faulty).status_code == 200


def test_a_given_core_stays_open() -> None:
    """Who brings a Core closes it."""
    with LocalCore() as core:
        with FaultyCore(core) as faulty:
            ask(faulty)
        assert len(core.events()) == 1


def test_stopping_ends_everything() -> None:
    """Also with a request that is never answered: no thread and no socket is left."""
    before = threading.active_count()
    faulty = FaultyCore().start()
    faulty.plan(Fault.black_hole())
    with pytest.raises(httpx.ReadTimeout):
        ask(faulty, timeout=0.1)

    faulty.stop()
    faulty.stop()

    assert threading.active_count() == before
    with pytest.raises(httpx.ConnectError):
        ask(faulty)


def test_a_stopped_server_can_be_started_again() -> None:
    """On the same port, as a service that was restarted."""
    faulty = FaultyCore(LocalCore())
    with faulty:
        url = faulty.url
    with faulty:
        assert (ask(faulty).status_code, faulty.url) == (200, url)
    faulty.core.close()


def test_the_address_is_known_once_it_runs() -> None:
    """Asking too early is a mistake with a name, and so is starting twice."""
    faulty = FaultyCore()
    with pytest.raises(RuntimeError, match="not started"):
        _ = faulty.url
    with pytest.raises(RuntimeError, match="not started"):
        faulty.refuse_connections()
    with faulty, pytest.raises(RuntimeError, match="started already"):
        faulty.start()


def test_the_body_reader_of_a_record(faulty: FaultyCore) -> None:
    """A request without JSON can still be looked at."""
    httpx.post(faulty.url + "/x", content=b"plain")

    assert faulty.requests[0].request.body == b"plain"
    with pytest.raises(json.JSONDecodeError):
        faulty.requests[0].json()
