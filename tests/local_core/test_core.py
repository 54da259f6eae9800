"""What a local Core remembers, and how it answers because of it."""

from __future__ import annotations

import contextvars
import pickle
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.local_core import CoreClosedError, LocalCore, StoreError

Make = Callable[..., Any]


def count_calls(answer: object = None) -> tuple[list[dict[str, Any]], Any]:
    asked: list[dict[str, Any]] = []

    def policy(event: dict[str, Any]) -> object:
        asked.append(event)
        return answer

    return asked, policy


def test_no_policy_allows(make: Make) -> None:
    """Without a policy everything is allowed, in the words of the wire."""
    answer = make().send()

    assert (answer["verdict"], answer["action"]) == ("allow", "continue")
    assert answer["governance_event_id"]


def test_events_are_kept_in_order(make: Make) -> None:
    """Every event can be read again as it was sent."""
    talk = make()
    talk.send("WorkflowStarted")
    talk.send("ActivityStarted", activity_input=[{"text": "é😀\n"}])

    assert [e["event_type"] for e in talk.core.events()] == ["WorkflowStarted", "ActivityStarted"]
    assert talk.core.events()[1]["activity_input"] == [{"text": "é😀\n"}]
    assert talk.core.events("another") == []


def test_a_retry_gets_the_same_answer_and_is_not_judged_again(make: Make) -> None:
    """An event with the same ids is answered from memory, also when it was stamped anew."""
    asked, policy = count_calls("BLOCK")
    talk = make(policy)

    first = talk.send(timestamp="2026-01-02T03:04:05Z")
    second = talk.send(timestamp="2026-01-02T03:04:06Z")

    assert first == second
    assert len(asked) == 1
    assert [(r.same_as, r.changed) for r in talk.core.records()] == [(None, False), (1, False)]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"workflow_id": "other"}, id="workflow"),
        pytest.param({"run_id": "other"}, id="run"),
        pytest.param({"activity_id": "other"}, id="activity"),
    ],
)
def test_another_id_is_another_event(make: Make, other: dict[str, str]) -> None:
    """Only events that agree in workflow, run, type and activity are the same one."""
    asked, policy = count_calls()
    talk = make(policy)

    talk.send()
    talk.send(**other)

    assert len(asked) == 2


def test_changed_input_under_the_same_ids_is_not_judged(make: Make) -> None:
    """A changed input needs a new activity id; the record says that one tried without."""
    _, policy = count_calls()
    talk = make(policy)
    talk.send(activity_input=[{"amount": 5}])

    talk.send(activity_input=[{"amount": 50_000}])

    assert talk.core.records()[1].changed


def test_every_prompt_of_a_run_is_judged(make: Make) -> None:
    """A signal has no activity id, so its content tells one from another."""
    talk = make(lambda event: "BLOCK" if event["signal_args"] == ["bad"] else None)

    verdicts = [
        talk.send("SignalReceived", signal_args=[text])["verdict"] for text in ("good", "bad", "good")
    ]

    assert verdicts == ["allow", "block", "allow"]


def test_hook_stages_are_judged_one_by_one(make: Make) -> None:
    """Operations inside an activity share its id; span and stage tell them apart."""
    asked, policy = count_calls()
    talk = make(policy)

    for span_id, stage in [("a" * 16, "started"), ("a" * 16, "completed"), ("b" * 16, "started")] * 2:
        talk.send(
            hook_trigger=True, spans=[{"span_id": span_id, "stage": stage, "hook_type": "http_request"}]
        )

    assert len(asked) == 3


def test_halt_latches(make: Make) -> None:
    """After a HALT nothing in that run is allowed, and the policy is not asked again."""
    asked, policy = count_calls({"decision": "HALT", "reason": "enough"})
    talk = make(policy)
    talk.send(activity_id="a1")

    later = talk.send(activity_id="a2")

    assert later["verdict"] == "halt"
    assert later["reason"] == "the run was halted: enough"
    assert len(asked) == 1


def test_halt_also_answers_retries_of_what_was_allowed_before(make: Make) -> None:
    """A late retry must not start work in a halted run."""
    talk = make(lambda event: "HALT" if event["activity_id"] == "bad" else "ALLOW")
    talk.send(activity_id="good")
    talk.send(activity_id="bad")

    assert talk.send(activity_id="good")["verdict"] == "halt"


def test_halt_stays_in_its_run(make: Make) -> None:
    """Another run with the same workflow id is not halted."""
    talk = make(lambda event: "HALT" if event["run_id"] == "run" else "ALLOW")
    talk.send()

    assert talk.send(run_id="other")["verdict"] == "allow"


def test_block_does_not_latch(make: Make) -> None:
    """A BLOCK is about one activity."""
    talk = make(lambda event: "BLOCK" if event["activity_id"] == "bad" else "ALLOW")
    talk.send(activity_id="bad")

    assert talk.send(activity_id="good")["verdict"] == "allow"


@pytest.mark.parametrize("terminal", ["WorkflowCompleted", "WorkflowFailed"])
def test_the_terminal_event_seals_the_run(make: Make, terminal: str) -> None:
    """Anything later in a run that has ended is answered with HALT, without asking the policy."""
    asked, policy = count_calls()
    talk = make(policy)
    talk.send("WorkflowStarted")
    talk.send(terminal)

    later = talk.send()

    assert later["verdict"] == "halt"
    assert later["reason"] == f"the run has ended with {terminal}"
    assert len(asked) == 2


def test_the_terminal_event_may_be_retried(make: Make) -> None:
    """A lost answer to the last event is no halt."""
    talk = make()

    assert talk.send("WorkflowCompleted") == talk.send("WorkflowCompleted")
    assert talk.core.open_workflows() == []


def test_a_late_retry_of_a_start_is_halted(make: Make) -> None:
    """The start was allowed once, but its run is over."""
    talk = make()
    talk.send()
    talk.send("ActivityCompleted")
    talk.send("WorkflowCompleted")

    assert talk.send()["verdict"] == "halt"


def test_a_halted_run_can_still_be_closed(make: Make) -> None:
    """Closing events of a halted run are kept, so it shows as ended."""
    talk = make(lambda event: "HALT" if event["event_type"] == "ActivityStarted" else None)
    talk.send("WorkflowStarted")
    talk.send()
    talk.send("ActivityCompleted")

    assert talk.send("WorkflowFailed", error={"type": "Halted"})["verdict"] == "halt"
    assert talk.core.orphans() == []
    assert talk.core.open_workflows() == []


def test_signals_with_ids_of_their_own_are_several(make: Make) -> None:
    """Alike in name and without arguments, they are told apart by their id; a repetition has the same."""
    talk = make()
    signal = {"event_type": "SignalReceived", "signal_name": "contract_violation"}

    for signal_id in ("one", "two", "two"):
        talk.send(activity_id=signal_id, **signal)

    assert [record.same_as for record in talk.core.records()] == [None, None, 2]


def test_handoffs_belong_to_no_run(make: Make) -> None:
    """A handoff event has no workflow; two alike are two."""
    talk = make()
    handoff = {"event_type": "Handoff", "from_agent_did": "did:aip:x", "multi_agent_session_id": "s"}

    answers = [talk.post("/api/v1/governance/evaluate", handoff) for _ in range(2)]

    assert [(status, answer["verdict"]) for status, answer in answers] == [(200, "allow")] * 2
    assert [r.same_as for r in talk.core.records()] == [None, None]
    assert talk.core.open_workflows() == []


def test_a_file_keeps_everything(make: Make, tmp_path: Path) -> None:
    """A second Core on the same file goes on where the first one stopped."""
    path = tmp_path / "core.sqlite3"
    first = make(lambda event: "HALT", path=path)
    first.send()
    first.core.close()

    talk = make(None, path=path)

    assert len(talk.core.events()) == 1
    assert talk.send(activity_id="a2")["verdict"] == "halt"
    assert path.stat().st_mode & 0o077 == 0


def test_many_threads(make: Make) -> None:
    """Each event is judged once, whoever sends it and however often."""
    asked, policy = count_calls()
    talk = make(policy)

    def work() -> None:
        for number in range(25):
            talk.send(activity_id=f"a{number}")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(asked) == 25
    assert len(talk.core.events()) == 200


def test_a_policy_may_look_at_the_core_that_asks_it(make: Make) -> None:
    """Earlier events are there for a callable, too."""
    seen = []
    talk: Any = make(lambda event: seen.append(len(talk.core.events())))

    talk.send("WorkflowStarted")
    talk.send()

    assert seen == [0, 1]


def test_a_closed_core_says_so(make: Make) -> None:
    """Over the wire it is a 503, in the process an error; closing twice is fine."""
    talk = make()
    talk.core.close()
    talk.core.close()

    assert talk.post("/api/v1/governance/evaluate", {})[0] == 503
    with pytest.raises(CoreClosedError):
        talk.core.events()


def test_a_core_works_outside_the_context_of_its_caller(make: Make) -> None:
    """
    Governance is bound to the caller's context and may govern database queries. Those of the Core are not
    the agent's, so neither its queries nor its policy run where governance could see them.
    """
    bound: contextvars.ContextVar[str] = contextvars.ContextVar("bound")
    seen = []
    talk = make(lambda event: seen.append(bound.get("nothing")))
    bound.set("an activity")

    talk.send()

    assert seen == ["nothing"]
    assert bound.get() == "an activity"


def test_somebody_can_be_told_of_approvals(make: Make) -> None:
    """A callback hears of each approval once, when it can be decided already."""
    heard: list[Any] = []
    talk = make(lambda event: "REQUIRE_APPROVAL", on_approval=heard.append)

    talk.send()
    talk.send()

    assert [approval.activity_id for approval in heard] == ["a1"]
    assert talk.core.approve(heard[0]).state == "approved"


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE theirs (x)")


@pytest.mark.parametrize(
    ("prepare", "problem"),
    [
        pytest.param(
            lambda path: path.write_bytes(b"no database" * 100), "file is not a database", id="text"
        ),
        pytest.param(lambda path: path.mkdir(), "unable to open database file", id="folder"),
        pytest.param(foreign_database, "is not the database of a local Core", id="another program's"),
    ],
)
def test_a_file_that_is_not_ours(tmp_path: Path, prepare: Callable[[Path], object], problem: str) -> None:
    """It is refused in one line, and stays as it is."""
    path = tmp_path / "core.sqlite3"
    prepare(path)
    before = path.read_bytes() if path.is_file() else None

    with pytest.raises(StoreError) as caught:
        LocalCore(path=path)

    assert str(caught.value) == f"database {path}: {problem}"
    assert (path.read_bytes() if path.is_file() else None) == before
    assert pickle.loads(pickle.dumps(caught.value)).problem == problem


@pytest.mark.parametrize("path", ["nowhere/core.sqlite3", "a\0b"])
def test_a_place_that_does_not_exist(tmp_path: Path, path: str) -> None:
    """A folder that is missing, or a name that no file can have, is one line."""
    with pytest.raises(StoreError):
        LocalCore(path=str(tmp_path / path))


def test_an_empty_file_is_used(make: Make, tmp_path: Path) -> None:
    """`mktemp` makes one; that is as good as none."""
    path = tmp_path / "core.sqlite3"
    path.touch()

    make(path=path).send()

    assert path.stat().st_size > 0


def test_a_repetition_is_not_history(make: Make) -> None:
    """A policy that looks back sees what happened once, once; and each repetition names the first."""
    talk = make()
    for _ in range(3):
        talk.send()

    assert len(talk.core._store.history("wf", "run", latest=10).bodies) == 1
    assert [record.same_as for record in talk.core.records()] == [None, 1, 1]
