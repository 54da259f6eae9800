"""Failures of recording."""

import logging

import pytest

from openbox_agentrt.evidence.failures import Failures


def test_each_failure_is_counted_and_each_kind_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk fails a thousand times a second and is one line in the log."""
    failures = Failures()

    for _ in range(3):
        failures.add("write", OSError(28, "No space left on device"))
    failures.add("sign", RuntimeError("with the data in it"))

    assert failures.count == 4
    assert failures.last == "sign: RuntimeError"
    assert [record.getMessage() for record in caplog.records] == [
        "evidence was not recorded: write: OSError (No space left on device)",
        "evidence was not recorded: sign: RuntimeError",
    ]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
