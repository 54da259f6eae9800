"""What is kept in the store of a fleet of a call that waits."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from openbox_agentrt._run.paused.parked_run import ParkedAnswer
from openbox_agentrt.decision import Answer, Verdict


def test_an_answer_goes_on_elsewhere_without_what_core_sent() -> None:
    """That may say anything; why a person is asked, and by when, has to be known there."""
    answer = Answer(
        verdict=Verdict.REQUIRE_APPROVAL,
        reason="large",
        policy_id="p",
        risk_score=0.5,
        trust_tier="gold",
        constraints=("x",),
        approval_id="a",
        approval_expires_at=datetime(2026, 5, 4, tzinfo=UTC),
        raw={"note": "secret"},
    )

    written = msgspec.json.encode(ParkedAnswer.of(answer))
    again = msgspec.json.decode(written, type=ParkedAnswer).restored()

    assert again == msgspec.structs.replace(answer, raw=None)
