"""An event is judged once, whoever asks, and however often; and nobody waits who need not."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.local_core.records import RunEnd

Make = Callable[..., Any]


class Policy:
    """A policy that counts, and takes its time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.asked: list[str] = []

    def __call__(self, event: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(event.get("activity_id", ""))
        time.sleep(self.seconds)
        return {"decision": "ALLOW", "number": len(self.asked)}


def test_two_cores_on_one_file_judge_an_event_once(make: Make, tmp_path: Path) -> None:
    """As two servers would, asked by a client that gave up on one and asks the other."""
    policy = Policy(0.1)
    talks = [make(policy, path=tmp_path / "shared.sqlite3") for _ in range(2)]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: talks[number % 2].send(), range(8)))

    assert policy.asked == ["a1"]
    assert [answer["number"] for answer in answers] == [1] * 8
    assert [record.same_as for record in talks[0].core.records()] == [None] + [1] * 7


def test_an_event_of_a_server_that_died_is_judged_by_another(make: Make, tmp_path: Path) -> None:
    """After a minute: what was begun and never ended holds nothing up for ever."""
    now = [1000.0]
    free = threading.Event()
    path = tmp_path / "shared.sqlite3"
    dead = make(lambda event: free.wait(20) and None, path=path, clock=lambda: now[0])
    living = make(Policy(), path=path, clock=lambda: now[0])
    with ThreadPoolExecutor(2) as pool:
        begun = pool.submit(dead.send)
        while not dead.core.policy_counts.asked:
            time.sleep(0.01)
        answer = pool.submit(living.send)
        time.sleep(0.1)
        assert not answer.done()
        now[0] += 61
        assert answer.result(5)["number"] == 1
        free.set()
        assert begun.result(5)["number"] == 1, "what comes late counts for nothing"


def test_a_retry_waits_for_the_first_answer(make: Make) -> None:
    """A client that gave up asks again, while the policy still thinks."""
    policy = Policy(0.1)
    talk = make(policy)

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: talk.send(), range(3)))

    assert policy.asked == ["a1"]
    assert {answer["governance_event_id"] for answer in answers} == {answers[0]["governance_event_id"]}


def test_a_known_id_with_another_input_is_blocked(make: Make) -> None:
    """It is no retry, and what was said of the first input says nothing about this one."""
    talk = make(Policy())
    talk.send(activity_input=[{"amount": 5}])

    answer = talk.send(activity_input=[{"amount": 5000}])

    assert (answer["verdict"], answer["reason"]) == ("block", "a changed input needs a new activity id")
    assert talk.send(activity_input=[{"amount": 5}], timestamp="2026-01-02T03:04:06Z")["number"] == 1


def test_a_report_with_another_content_gets_the_first_answer(make: Make) -> None:
    """What has happened cannot be refused."""
    talk = make(Policy())
    talk.send("ActivityCompleted", activity_output="one")

    assert talk.send("ActivityCompleted", activity_output="two")["verdict"] == "allow"


def test_a_run_that_is_halted_meanwhile_stays_halted(make: Make) -> None:
    """An event that was being judged when another one halted its run is halted as well."""
    free, begun = threading.Event(), threading.Event()

    def policy(event: dict[str, Any]) -> str | None:
        if event.get("activity_id") == "slow":
            begun.set()
            free.wait(5)
        return None

    talk = make(policy)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(talk.send, activity_id="slow")
        begun.wait(5)
        talk.core._store.set_run_end("wf", "run", RunEnd(halted="no more"))
        free.set()
        assert slow.result(5)["verdict"] == "halt"


def test_a_policy_may_look_at_the_core_that_asks_it(make: Make) -> None:
    """It is not asked while something is locked."""
    seen: list[int] = []
    cores: list[LocalCore] = []
    talk = make(lambda event: seen.append(len(cores[0].events())))
    cores.append(talk.core)

    talk.send()
    talk.send(activity_id="a2")

    assert seen == [0, 1]


async def test_other_tasks_run_while_a_policy_thinks(make: Make, event_of: Any) -> None:
    """And one that gives up loses nothing: the event is judged and written down."""
    core = make(Policy(0.3)).core
    body = json.dumps(event_of()).encode()
    headers = {"authorization": f"Bearer {core.api_key}"}
    began = time.monotonic()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await core.ahandle("POST", "/api/v1/governance/evaluate", headers, body)
    assert time.monotonic() - began < 0.3
    _, _, answer = await core.ahandle("POST", "/api/v1/governance/evaluate", headers, body)

    assert json.loads(answer)["number"] == 1
    assert [record.same_as for record in core.records()] == [None, 1]


def test_a_loop_that_ends_while_a_policy_thinks(make: Make, event_of: Any) -> None:
    """Nobody waits for the answer any more; it is written down, and nothing is said in the log."""
    core = make(Policy(0.1)).core
    body, headers = json.dumps(event_of()).encode(), {"authorization": f"Bearer {core.api_key}"}

    async def give_up() -> None:
        asked = asyncio.create_task(core.ahandle("POST", "/api/v1/governance/evaluate", headers, body))
        await asyncio.sleep(0.01)
        assert not asked.done()

    asyncio.run(give_up())
    for _ in range(200):
        if core.records():
            return
        time.sleep(0.01)
    raise AssertionError("the event was never written down")


def test_a_policy_that_never_returns(make: Make) -> None:
    """Its event is blocked, and the next one is judged."""
    free = threading.Event()

    def policy(event: dict[str, Any]) -> None:
        if event["activity_id"] == "a1":
            free.wait(20)

    talk = make(policy, policy_seconds=0.05)

    assert talk.send()["reason"] == "the policy took longer than 0.05 s"
    assert talk.send(activity_id="a2")["verdict"] == "allow"
    assert talk.core.policy_counts.overdue == 1
    free.set()


def test_closing_answers_whoever_waits(make: Make) -> None:
    """With a 503, which is no ALLOW."""
    free, begun = threading.Event(), threading.Event()

    def policy(event: dict[str, Any]) -> None:
        begun.set()
        free.wait(20)

    talk = make(policy)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(talk.post, "/api/v1/governance/evaluate", _event())
        begun.wait(5)
        talk.core.close()
        status, answer = waiting.result(5)
    free.set()

    assert (status, answer["error"]) == (503, "closed")


def test_a_listener_that_fails_keeps_nobody_from_the_approval(make: Make) -> None:
    """It is written down before anybody is told."""

    def listener(approval: Any) -> None:
        raise ZeroDivisionError

    talk = make(lambda event: "REQUIRE_APPROVAL", on_approval=listener)

    assert talk.send()["verdict"] == "require_approval"
    assert len(talk.core.pending_approvals()) == 1


def test_a_listener_may_decide_at_once(make: Make) -> None:
    """It is told outside of every lock."""
    cores: list[LocalCore] = []
    talk = make(lambda event: "REQUIRE_APPROVAL", on_approval=lambda approval: cores[0].approve(approval))
    cores.append(talk.core)

    talk.send()

    assert talk.poll()["verdict"] == "allow"


def _event() -> dict[str, Any]:
    return {
        "event_type": "ActivityStarted",
        "workflow_id": "wf",
        "run_id": "run",
        "workflow_type": "Agent",
        "activity_id": "a1",
        "activity_type": "refund",
    }
