"""Decisions as values and as JSON."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pytest
from openbox_core.contracts.results import PatchDirective

from openbox_agentrt.decision import MISSING, Answer, Decision, Guardrails, Verdict

BARE = Decision(event="refund", workflow_id="wf", run_id="run", verdict=Verdict.ALLOW, source="core")
FULL = Decision(
    event="refund",
    activity_id="a",
    workflow_id="wf",
    run_id="run",
    verdict=Verdict.BLOCK,
    source="contracts",
    reason="no",
    contracts=("must_precede(a, b)",),
    acel="refused",
    core_verdict=Verdict.ALLOW,
    policy_id="p",
    risk_score=0.5,
    trust_tier="gold",
    constraints=("x",),
    patch=PatchDirective(new_input={"n": math.nan, "l": [1]}),
    approval_id="ap",
    approval="approved",
    redacted=True,
    unreachable=True,
    acel_seconds=0.1,
    core_seconds=math.inf,
)


def test_a_decision_as_json_leaves_out_what_is_not_set() -> None:
    """Flags and times are always there."""
    assert BARE.to_dict() == {
        "event": "refund", "workflow_id": "wf", "run_id": "run", "verdict": "allow", "source": "core",
        "redacted": False, "unreachable": False,
        "acel_seconds": 0.0, "core_seconds": 0.0, "approval_seconds": 0.0,
    }  # fmt: skip


def test_a_decision_as_json_is_json() -> None:
    """Also with a patch and numbers that JSON does not know."""
    data = json.loads(json.dumps(FULL.to_dict(), allow_nan=False))

    assert data["patch"] == {"new_input": {"n": None, "l": [1]}}
    assert data["core_seconds"] is None
    assert (data["contracts"], data["core_verdict"], data["approval"]) == (
        ["must_precede(a, b)"],
        "allow",
        "approved",
    )


@pytest.mark.parametrize("value", [FULL, Answer(verdict=Verdict.HALT), Guardrails(redacted_input=MISSING)])
def test_values_are_frozen_and_survive_pickling(value: Any) -> None:
    """They are passed around, and travel with errors."""
    name = value.__struct_fields__[0]
    with pytest.raises(AttributeError, match="immutable"):
        setattr(value, name, None)

    again = pickle.loads(pickle.dumps(value))

    assert repr(again) == repr(value)  # a risk that is not a number is not equal to itself
    if isinstance(value, Guardrails):
        assert again.redacted_input is MISSING
    assert repr(MISSING) == "MISSING"
