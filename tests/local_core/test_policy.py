"""What a Python policy may return, and what becomes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.local_core import LocalCore

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (None, "allow"),
        ("ALLOW", "allow"),
        ("continue", "allow"),
        ("CONSTRAIN", "constrain"),
        ("require-approval", "require_approval"),
        (" Block ", "block"),
        ("HALT", "halt"),
        ({"decision": "BLOCK"}, "block"),
        ({"verdict": "constrain"}, "constrain"),
        ({"action": "stop"}, "halt"),
        ({"decision": "HALT", "verdict": "halt", "action": "stop"}, "halt"),
    ],
)
def test_decisions(make: Make, said: Any, verdict: str) -> None:
    """A decision can be a word or a mapping, in the words of Rego or of the wire."""
    assert make(lambda event: said).send()["verdict"] == verdict


@pytest.mark.parametrize(
    "said",
    [
        "MAYBE",
        "",
        {},
        {"decision": None},
        {"decision": 1},
        {"verdict": "allow", "action": "block"},
        1,
        True,
        [],
    ],
    ids=repr,
)
def test_anything_else_blocks(make: Make, said: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What is not understood, or says two things at once, is no permission; and it is logged."""
    with caplog.at_level(logging.WARNING):
        answer = make(lambda event: said).send()

    assert answer["verdict"] == "block"
    assert "the policy" in answer["reason"]
    assert answer["reason"] in caplog.text


def test_a_policy_that_raises_blocks(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """The answer names the kind of error alone: its text may hold parts of the event."""

    def policy(event: dict[str, Any]) -> None:
        raise KeyError(f"secret {event['activity_input']}")

    with caplog.at_level(logging.WARNING):
        answer = make(policy).send()

    assert (answer["verdict"], answer["reason"]) == ("block", "the policy failed (KeyError)")
    assert "policy local/policy failed on ActivityStarted: KeyError in test_policy.py, line" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}], ids=["nan", "object", "set"])
def test_values_that_are_no_json_block(make: Make, value: Any) -> None:
    """An answer that cannot be written is not written in part."""
    answer = make(lambda event: {"decision": "ALLOW", "metadata": value}).send()

    assert answer["verdict"] == "block"


def test_other_values_reach_the_answer(make: Make) -> None:
    """Whatever else a policy says is sent as it is; null leaves a field out."""
    said = {"verdict": "BLOCK", "patch": {"new_input": None}, "policy_id": "p1", "governance_event_id": None}

    answer = make(lambda event: said).send()

    assert answer["patch"] == {"new_input": None}
    assert answer["policy_id"] == "p1"
    assert "governance_event_id" not in answer


def test_a_policy_must_be_something_that_can_be_asked() -> None:
    """A number is no policy."""
    policy: Any = 3
    with pytest.raises(TypeError, match="a policy is a path, a callable or None, not int"):
        LocalCore(policy)
