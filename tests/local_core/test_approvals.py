"""Work that waits for a person, from the question to the answer."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.local_core import LocalCore, UndecidableApprovalError
from openbox_agentrt.testing import ManualClock

Make = Callable[..., Any]
APPROVAL = "/api/v1/governance/approval"
ASK = {"decision": "REQUIRE_APPROVAL", "reason": "over the limit"}


@pytest.fixture
def asking(make: Make) -> Any:
    """A Core whose policy asks a person about everything."""
    return make(lambda event: ASK)


def test_the_answer_names_the_approval(asking: Any) -> None:
    """An event that needs approval is answered with its id and until when it can be given."""
    answer = asking.send()

    (pending,) = asking.core.pending_approvals()
    assert (answer["verdict"], answer["action"]) == ("require_approval", "require-approval")
    assert (answer["approval_id"], answer["reason"]) == (pending.id, "over the limit")
    assert answer["approval_expiration_time"].endswith("Z")
    assert (pending.activity_id, pending.activity_type, pending.state) == ("a1", "refund", "pending")
    assert pending.event["activity_input"] == [{"amount": 5}]


def test_pending_until_someone_decides(asking: Any) -> None:
    """A poll says that it still waits."""
    asking.send()

    assert asking.poll()["verdict"] == "require_approval"


@pytest.mark.parametrize("by", ["approval", "id", "activity"])
def test_approve(asking: Any, by: str) -> None:
    """A "yes" can name the approval, its id or the activity, and the next poll says so."""
    asking.send()
    (pending,) = asking.core.pending_approvals()
    name = {"approval": pending, "id": pending.id, "activity": "a1"}[by]

    decided = asking.core.approve(name, note="checked")

    answer = asking.poll()
    assert (decided.state, decided.note) == ("approved", "checked")
    assert (answer["verdict"], answer["action"], answer["reason"]) == ("allow", "allow", "checked")
    assert asking.core.pending_approvals() == []


def test_reject(asking: Any) -> None:
    """A "no" is a BLOCK with the person's reason."""
    asking.send()

    asking.core.reject("a1", "too much")

    answer = asking.poll()
    assert (answer["verdict"], answer["action"], answer["reason"]) == ("block", "block", "too much")


def test_expire(asking: Any) -> None:
    """Time can be ended by hand, and says HALT and that it expired."""
    asking.send()

    asking.core.expire("a1")

    answer = asking.poll()
    assert (answer["verdict"], answer["action"], answer["expired"]) == ("halt", "halt", True)


def test_time_runs_out(make: Make) -> None:
    """Silence is a no: after the time nobody can approve any more."""
    clock = ManualClock(now=1000.0)
    talk = make(lambda event: ASK, approval_seconds=60, clock=clock.time)
    answer = talk.send()
    clock.advance(59.9)
    assert talk.poll()["verdict"] == "require_approval"

    clock.advance(0.1)

    assert answer["approval_expiration_time"] == "1970-01-01T00:17:40.000Z"
    assert talk.poll()["expired"] is True
    assert talk.core.pending_approvals() == []
    with pytest.raises(UndecidableApprovalError, match="'a1' is expired already"):
        talk.core.approve("a1")


def test_an_approval_in_time_stays_valid(make: Make) -> None:
    """Deciding ends the clock."""
    clock = ManualClock(now=1000.0)
    talk = make(lambda event: ASK, approval_seconds=60, clock=clock.time)
    talk.send()
    talk.core.approve("a1")

    clock.advance(1000)

    assert talk.poll()["verdict"] == "allow"


def test_without_an_end(make: Make) -> None:
    """An approval without a limit has no expiration time."""
    answer = make(lambda event: ASK, approval_seconds=None).send()

    assert "approval_expiration_time" not in answer


def test_the_default_time_is_an_hour(asking: Any) -> None:
    """Counted from now."""
    until = datetime.fromisoformat(asking.send()["approval_expiration_time"])

    assert 3500 < (until - datetime.now(UTC)).total_seconds() <= 3600


def test_a_pending_event_is_not_judged_again(make: Make) -> None:
    """Asking again must not reset what the person decides."""
    asked = []

    def policy(event: dict[str, Any]) -> object:
        asked.append(event)
        return ASK

    talk = make(policy)

    first = talk.send()
    talk.core.approve("a1")
    second = talk.send()

    assert first == second
    assert len(asked) == 1
    assert talk.poll()["verdict"] == "allow"


def test_a_decision_is_final(asking: Any) -> None:
    """A second decision is refused, and changes nothing."""
    asking.send()
    asking.core.reject("a1")

    with pytest.raises(UndecidableApprovalError, match="'a1' is rejected already"):
        asking.core.approve("a1")
    assert asking.poll()["verdict"] == "block"


def test_only_one_of_two_people_decides(asking: Any) -> None:
    """Who comes second changes nothing, also when both looked before either decided."""
    asking.send()
    (pending,) = asking.core.pending_approvals()
    store = asking.core._store

    assert store.decide(pending.id, "rejected", note="no", by="", now=0.0) is True
    assert store.decide(pending.id, "approved", note="yes", by="", now=0.0) is False
    assert asking.poll()["verdict"] == "block"


def test_an_unknown_approval(asking: Any) -> None:
    """There has to be one, in the process and over the wire."""
    with pytest.raises(UndecidableApprovalError, match="no approval has the id 'nothing'"):
        asking.core.approve("nothing")
    status, answer = asking.post(APPROVAL, {"workflow_id": "wf", "run_id": "run", "activity_id": "x"})
    assert (status, answer["error"]) == (404, "unknown_approval")


def test_an_approval_belongs_to_its_run(asking: Any) -> None:
    """The same activity id in another run is another question."""
    asking.send()
    asking.core.approve("a1")
    asking.send(run_id="other")

    assert asking.poll(run_id="other")["verdict"] == "require_approval"


def test_an_ambiguous_activity_has_to_be_named_better(asking: Any) -> None:
    """Two pending approvals with one activity id are told apart by their own ids."""
    asking.send()
    asking.send(run_id="other")

    with pytest.raises(UndecidableApprovalError, match="2 approvals of 'a1' are pending"):
        asking.core.approve("a1")
    asking.core.approve(asking.core.pending_approvals()[1])
    assert asking.poll(run_id="other")["verdict"] == "allow"
    assert asking.poll()["verdict"] == "require_approval"


def test_a_prompt_can_need_approval(asking: Any) -> None:
    """A signal has no activity: it is polled for by the row of the pre-screen."""
    asking.send("SignalReceived")

    (pending,) = asking.core.pending_approvals()
    asking.core.approve(pending)
    assert asking.poll(activity_id="run-pre")["verdict"] == "allow"


def operation(number: int = 1, stage: str = "started") -> dict[str, Any]:
    span = {"span_id": f"{number:016x}", "stage": stage, "hook_type": "http_request"}
    return {"hook_trigger": True, "spans": [span]}


def test_a_prompt_and_its_screening_are_one_question(asking: Any) -> None:
    """The model call that is screened with a prompt is that prompt: a person is asked once."""
    heard: list[Any] = []
    asking.core._listeners.each.append(heard.append)
    signal = asking.send("SignalReceived")

    prompt = [{"prompt": "hello"}]
    screening = asking.send(activity_id="run-pre", activity_type="llm_call", activity_input=prompt)

    assert screening["approval_id"] == signal["approval_id"]
    assert len(asking.core.pending_approvals()) == len(heard) == 1


def test_an_operation_inside_an_activity_can_need_approval(make: Make) -> None:
    """A poll is about the latest question that the activity raised, or about the one that it names."""
    talk = make(lambda event: ASK if event.get("hook_trigger") else None)
    talk.send()
    one = talk.send(**operation(1))["approval_id"]
    talk.core.approve(one)
    two = talk.send(**operation(2))["approval_id"]

    assert one != two, "a yes to one operation is no yes to the next"
    assert talk.poll()["approval_id"] == two
    assert talk.poll()["verdict"] == "require_approval"
    assert talk.poll(approval_id=one)["verdict"] == "allow"


@pytest.mark.parametrize("stage", ["started", "completed"])
def test_what_happens_inside_an_approved_activity_is_part_of_it(make: Make, stage: str) -> None:
    """A policy that asks for a refund, and forgets to say that its requests are part of it, asks once."""
    talk = make(lambda event: ASK)
    talk.core.approve(talk.send()["approval_id"])

    answer = talk.send(**operation(stage=stage))

    assert (answer["verdict"], answer["reason"]) == ("allow", "part of an activity that was approved")
    assert talk.core.pending_approvals() == []


def test_constraints_outlive_the_approval(make: Make) -> None:
    """What an operation has to keep to is the policy's to say, whoever approved the activity."""
    talk = make(lambda event: {**ASK, "constraints": ["run_in_sandbox"]})
    talk.core.approve(talk.send()["approval_id"])

    answer = talk.send(**operation())

    assert (answer["verdict"], answer["constraints"]) == ("constrain", ["run_in_sandbox"])


@pytest.mark.parametrize("decided", ["pending", "rejected", "expired"])
def test_an_activity_that_was_not_approved_covers_nothing(make: Make, decided: str) -> None:
    """Nor does one of another run."""
    talk = make(lambda event: ASK)
    own = talk.send()["approval_id"]
    if decided == "rejected":
        talk.core.reject(own)
    if decided == "expired":
        talk.core.expire(own)
    other = talk.send(run_id="other")["approval_id"]
    talk.core.approve(other)

    assert talk.send(**operation())["verdict"] == "require_approval"


def test_an_operation_that_has_happened_asks_nobody(make: Make) -> None:
    """It is too late."""
    talk = make(lambda event: ASK if event.get("hook_trigger") else None)
    talk.send()

    talk.send(**operation(stage="completed"))

    assert talk.core.pending_approvals() == []


@pytest.mark.parametrize(
    ("event_type", "fields"),
    [
        pytest.param("ActivityCompleted", {}, id="the activity has ended"),
        pytest.param("WorkflowFailed", {}, id="the run has ended"),
        pytest.param("ActivityStarted", {"activity_id": "a2", "activity_type": "halt"}, id="it is halted"),
    ],
)
def test_what_nobody_waits_for_is_not_pending(make: Make, event_type: str, fields: dict[str, Any]) -> None:
    """A person is not asked about work that is over; what was decided stays."""
    talk = make(lambda event: "HALT" if event.get("activity_type") == "halt" else ASK)
    talk.send(activity_id="decided")
    talk.core.approve("decided")
    talk.send()

    talk.send(event_type, **fields)

    assert talk.core.pending_approvals() == []
    assert [approval.state for approval in talk.core.approvals()] == ["approved", "expired"]


def test_who_decided_is_told(asking: Any) -> None:
    """With what they said, and when."""
    asking.send()
    asking.core.approve("a1", "checked", by="ada")

    answer = asking.poll()
    (approval,) = asking.core.approvals()

    assert (answer["reason"], answer["decided_by"]) == ("checked", "ada")
    assert answer["decided_at"].endswith("Z")
    assert (approval.note, approval.decided_by) == ("checked", "ada")


def test_nobody_is_named_before_anybody_decided(asking: Any) -> None:
    """What is not known is left out."""
    asking.send()

    assert {"decided_by", "decided_at"}.isdisjoint(asking.poll())


@pytest.mark.parametrize("event_type", ["ActivityCompleted", "WorkflowStarted", "WorkflowCompleted"])
def test_nothing_waits_for_an_event_that_only_reports(make: Make, event_type: str) -> None:
    """Nobody is asked about what has happened already."""
    talk = make(lambda event: ASK)

    answer = talk.send(event_type)

    assert "approval_id" not in answer
    assert talk.core.pending_approvals() == []


def test_the_id_may_be_left_out(make: Make) -> None:
    """Core often answers without an approval id; polling by the other ids works all the same."""
    talk = make(lambda event: {**ASK, "approval_id": None})

    assert "approval_id" not in talk.send()
    talk.core.approve("a1")
    assert talk.poll()["verdict"] == "allow"


@pytest.mark.parametrize(
    "ids",
    [{"workflow_id": ""}, {"run_id": None}, {"activity_id": 5}, {"activity_id": ""}, {"activity_id": None}],
)
def test_a_poll_needs_its_ids(asking: Any, ids: dict[str, Any]) -> None:
    """A poll without a workflow or a run is a 422."""
    body = {"workflow_id": "wf", "run_id": "run", "activity_id": "a1", **ids}

    assert asking.post(APPROVAL, body)[0] == 422


def test_another_process_can_decide(make: Make, tmp_path: Path) -> None:
    """Two Cores on one file see each other's decisions."""
    path = tmp_path / "core.sqlite3"
    talk = make(lambda event: ASK, path=path)
    talk.send()
    with LocalCore(path=path) as other:
        other.approve("a1")

    assert talk.poll()["verdict"] == "allow"


def test_wait_in_a_thread(asking: Any) -> None:
    """A test or a tool can wait until something asks."""
    sender = threading.Timer(0.05, asking.send)
    sender.start()

    pending = asking.core.wait_for_approval()

    sender.join()
    assert pending.activity_id == "a1"


async def test_wait_in_async_code(asking: Any) -> None:
    """The event loop stays free while something waits."""
    waiting = asyncio.create_task(asking.core.await_approval())
    await asyncio.sleep(0)
    assert not waiting.done()

    await asyncio.to_thread(asking.send)

    assert (await waiting).activity_id == "a1"


async def test_what_waits_already_is_returned_at_once(asking: Any) -> None:
    """Waiting begins with a look at what is there."""
    asking.send()

    assert asking.core.wait_for_approval(timeout=0).activity_id == "a1"
    assert (await asking.core.await_approval(timeout=0.01)).activity_id == "a1"


async def test_waiting_ends(asking: Any) -> None:
    """Nothing asked: an error that says so, and nobody listens any more."""
    with pytest.raises(TimeoutError, match=r"nothing asked for an approval within 0\.01 s"):
        await asking.core.await_approval(timeout=0.01)
    with pytest.raises(TimeoutError, match=r"nothing asked for an approval within 0\.01 s"):
        asking.core.wait_for_approval(timeout=0.01)
    assert asking.core._listeners.each == []


def test_every_approval_can_be_looked_up(asking: Any) -> None:
    """Also what is decided."""
    asking.send()
    asking.send(activity_id="a2")
    asking.core.approve("a1")

    assert [(a.activity_id, a.state) for a in asking.core.approvals()] == [
        ("a1", "approved"),
        ("a2", "pending"),
    ]


def test_an_approval_survives_pickling(asking: Any) -> None:
    """It is a value."""
    asking.send()
    (pending,) = asking.core.pending_approvals()

    assert pickle.loads(pickle.dumps(pending)) == pending
