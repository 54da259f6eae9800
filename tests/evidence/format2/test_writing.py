"""Writing a log, one line after the other."""

from pathlib import Path

import pytest

from openbox_agentrt.evidence.format2.writing import LogIdentity, LogWriter


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    identity = LogIdentity(log_id="x", session_id=None, rules_hash=None, key_id=None, record="all")
    return LogWriter(tmp_path / "e.jsonl", identity, now=lambda: "2026", max_bytes=None, durable=True)


def test_a_writer_without_a_file_writes_nothing(writer: LogWriter) -> None:
    """Before it is opened and after it is closed, a line is refused."""
    with pytest.raises(ValueError, match="the log is closed"):
        writer.write(b"{}", session="null", type="gap")

    writer.begin_file(previous=None)
    writer.close()
    writer.close()

    with pytest.raises(ValueError, match="the log is closed"):
        writer.write(b"{}", session="null", type="gap")
    assert not writer.full


def test_the_head_can_be_put_without_a_file(writer: LogWriter, tmp_path: Path) -> None:
    """A closed log can still be vouched for."""
    writer.begin_file(previous=None)
    head = writer.head("closed")
    writer.close()

    writer.put_head(head)

    assert (tmp_path / "e.jsonl.head").is_file()
