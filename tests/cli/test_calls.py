"""Which calls of a log are shown."""

from typing import get_args

import pytest

from openbox_agentrt.cli.calls import CallFilter, time_in_logs
from openbox_agentrt.cli.calls import Verdict as VerdictChoice
from openbox_agentrt.decision import Verdict
from openbox_agentrt.evidence.calls import CallRecord


@pytest.mark.parametrize("logged", ["2026-11-30T11:47:34+00:00", "2026-11-30T11:47:34.500000+00:00"])
@pytest.mark.parametrize(
    ("since", "until"),
    [
        pytest.param("2026-11-30T11:47:34", "2026-11-30T11:47:35", id="to the second"),
        pytest.param("2026-11-30 11:47:34", "2026-11-30 11:47:34.500001", id="as it is shown"),
        pytest.param("2026-11-30T13:47:34+02:00", "2026-11-30T06:47:35-05:00", id="with an offset"),
        pytest.param("2026-11-30T11:47:34Z", "2026-12", id="beginnings"),
        pytest.param("2026", "2027", id="years"),
        pytest.param("2026-11-30", "2026-11-30 12", id="a day, an hour"),
    ],
)
def test_a_time_is_one_moment_however_it_is_written(logged: str, since: str, until: str) -> None:
    """A call is found from its own time on, and not any more once that has passed."""
    call = CallRecord(file="e.jsonl", number=1, time=logged, session=None, tool="refund")

    def found(**times: str) -> bool:
        return CallFilter(**{name: time_in_logs(text) for name, text in times.items()}).wants(call)

    assert found(since=since, until=until)
    assert not found(until=since)
    assert not found(since=until)


@pytest.mark.parametrize("verdict", Verdict)
def test_each_word_of_a_decision_can_be_asked_for(verdict: Verdict) -> None:
    """The list of words has all that a decision can have."""
    assert verdict.value in get_args(VerdictChoice)
