"""Whether every start has its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.local_core.ledger import orphans
from openbox_agentrt.testing import assert_no_orphans

Make = Callable[..., Any]
S, C = "ActivityStarted", "ActivityCompleted"


def send_all(talk: Any, *events: Any) -> None:
    for event in events:
        kind, fields = event if isinstance(event, tuple) else (event, {})
        talk.send(kind, **fields)


COMPLETE = ("WorkflowStarted", S, C, "WorkflowCompleted")


@pytest.mark.parametrize(
    ("events", "problems"),
    [
        pytest.param(COMPLETE, [], id="adds up"),
        pytest.param(("WorkflowStarted", S), ["never completed"], id="no end"),
        pytest.param((C,), ["completed without a start"], id="no start"),
        pytest.param((S, C, (C, {"status": "failed"})), ["completed twice"], id="two ends"),
        pytest.param((S, (S, {"activity_input": []}), C), ["started twice"], id="two starts"),
        pytest.param((S, S, C, C), [], id="retries"),
        pytest.param((S, C, (C, {"timestamp": "2026-05-05T00:00:00Z"})), [], id="retry stamped anew"),
        pytest.param((C, S), ["completed without a start"], id="wrong order"),
        pytest.param((S, "WorkflowCompleted", C), ["came after the end of its workflow"], id="late end"),
        pytest.param(
            ("WorkflowCompleted", S, C), ["came after the end of its workflow"] * 2, id="late start and end"
        ),
        pytest.param(
            ((S, {"hook_trigger": True, "spans": [{"stage": "started"}]}),), [], id="hooks are not activities"
        ),
        pytest.param(
            (S, (C, {"run_id": "other"})), ["completed without a start", "never completed"], id="runs"
        ),
    ],
)
def test_orphans(make: Make, events: Any, problems: list[str]) -> None:
    """Each activity is started once and then completed once, within its run."""
    talk = make()

    send_all(talk, *events)

    assert [orphan.problem for orphan in talk.core.orphans()] == problems


@pytest.mark.parametrize(
    ("events", "problems"),
    [
        pytest.param(COMPLETE, [], id="adds up"),
        pytest.param(("WorkflowFailed",), [], id="an end is enough"),
        pytest.param(("WorkflowStarted",), ["no terminal event"], id="no end"),
        pytest.param((S,), ["no terminal event"], id="no start and no end"),
        pytest.param(("WorkflowCompleted", "WorkflowCompleted"), [], id="retry"),
        pytest.param(("WorkflowCompleted", "WorkflowFailed"), ["two terminal events"], id="two ends"),
        pytest.param(
            ("WorkflowFailed", ("WorkflowFailed", {"error": {"type": "X"}})),
            ["two terminal events"],
            id="twice",
        ),
        pytest.param(
            ("WorkflowCompleted", ("WorkflowStarted", {"run_id": "r2"})), ["no terminal event"], id="runs"
        ),
    ],
)
def test_open_workflows(make: Make, events: Any, problems: list[str]) -> None:
    """Each run ends exactly once."""
    talk = make()

    send_all(talk, *events)

    assert [workflow.problem for workflow in talk.core.open_workflows()] == problems


def test_the_check_passes_when_everything_adds_up(make: Make) -> None:
    """`assert_no_orphans` is silent about a complete run."""
    talk = make()
    send_all(talk, *COMPLETE)

    assert_no_orphans(talk.core)


def test_the_check_names_everything(make: Make) -> None:
    """One line for each orphan, open run and refused request."""
    talk = make()
    send_all(talk, "WorkflowStarted", S)
    talk.post("/api/v1/governance/evaluate", {})

    with pytest.raises(AssertionError) as caught:
        assert_no_orphans(talk.core)

    assert str(caught.value).splitlines() == [
        "events do not add up:",
        "refund a1 of wf: never completed",
        "wf run: no terminal event",
        "/api/v1/governance/evaluate was refused: 422 'event_type' is not an event that Core knows",
    ]


def test_refused_requests_can_be_accepted(make: Make) -> None:
    """A test that sends mistakes on purpose says so."""
    talk = make()
    talk.post("/api/v1/governance/evaluate", {})

    assert_no_orphans(talk.core, refused=True)


@given(st.lists(st.tuples(st.sampled_from([S, C]), st.sampled_from("abc")), max_size=10))
@settings(max_examples=100, deadline=None)
def test_nothing_is_an_orphan_only_if_each_start_has_its_end(rows: list[tuple[str, str]]) -> None:
    """The ledger agrees with the sentence: for each activity one start, then one completion."""
    moves: list[tuple[str, str, str, str, str, bool]] = [
        ("wf", "run", kind, activity, "tool", False) for kind, activity in rows
    ]

    adds_up = all(
        [kind for kind, other in rows if other == activity] == [S, C] for activity in {a for _, a in rows}
    )

    assert (orphans(moves) == []) is adds_up
