"""Answers of Core that say two things, where a lenient reader would take the milder one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from openbox_agentrt import GovernanceError, create_openbox_agentrt
from openbox_agentrt._core.approvals import ApprovalState, parse_poll
from openbox_agentrt._core.parsing import decoded, parse_answer
from openbox_agentrt._plain.strict_json import JsonError
from openbox_agentrt.testing import Fault, FaultyCore


@pytest.mark.leaves_rows_open("core never hears of what it is asked")
async def test_a_key_that_occurs_twice_is_no_answer() -> None:
    """The last one would be an ALLOW."""
    with FaultyCore() as faulty:
        governance = await create_openbox_agentrt(
            environ={}, api_url=faulty.url, api_key=faulty.api_key, install_instrumentation=False
        )
        async with governance, governance.run_scope():
            faulty.plan(Fault.text(b'{"verdict": "block", "verdict": "allow"}'), path="/evaluate")
            with pytest.raises(GovernanceError, match="is there twice"):
                async with governance.activity("work", [1]):
                    pytest.fail("it ran")


def test_a_key_that_occurs_twice_approves_nothing() -> None:
    """Nor inside an object."""
    with pytest.raises(JsonError):
        decoded(b'{"a": [{"action": "block", "action": "allow"}]}')


def test_the_guardrails_that_did_not_pass_count() -> None:
    """Whichever of the two names they come under."""
    passed, failed = {"validation_passed": True}, {"validation_passed": False}
    for raw in (
        {"guardrails_result": passed, "guardrails": failed},
        {"guardrails_result": failed, "guardrails": passed},
    ):
        answer = parse_answer({"verdict": "allow", **raw})
        assert answer.guardrails is not None
        assert not answer.guardrails.validation_passed


@pytest.mark.parametrize(
    "constraint",
    [
        " RUN_IN_SANDBOX ",
        "run-in-sandbox",
        {"name": "box", "type": "run_in_sandbox"},
        {"name": "Run_In_Sandbox"},
    ],
)
def test_the_sandbox_is_meant_however_it_is_spelled(constraint: Any) -> None:
    """Another spelling would be a constraint without a handler, which passes."""
    assert parse_answer({"verdict": "constrain", "constraints": [constraint]}).constraints == (
        "run_in_sandbox",
    )


def test_an_approval_with_a_stop_beside_it_is_none() -> None:
    """Of two words, the one that stops the call counts."""
    assert (
        parse_poll({"action": "allow", "verdict": "block"}, now=datetime.now(UTC)).state
        is ApprovalState.REJECTED
    )
