"""Signs of life."""

import pytest

from openbox_agentrt.cli.progress import Progress


def test_long_input_shows_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """After two seconds, and every two seconds more, there is a line on standard error."""
    now = 0.0

    def clock() -> float:
        return now

    progress = Progress("events", clock=clock)
    for _ in progress.counted(range(10_000)):
        now += 0.0015

    assert progress.count == 10_000
    captured = capsys.readouterr()
    assert captured.out == ""
    assert (
        captured.err
        == "2000 events ...\n4000 events ...\n6000 events ...\n8000 events ...\n10000 events ...\n"
    )


def test_short_input_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """What is done at once says nothing."""
    list(Progress("events").counted(range(5_000)))

    assert capsys.readouterr().err == ""
