"""Recorded traces, in every way of writing them."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.traces.rows import read_trace
from openbox_agentrt.traces.source import TraceSourceError

ROWS = [{"tool": "a", "args": {"n": 1.5}}, {"tool": "b", "args": {"t": "ä"}}]
JSON = json.dumps(ROWS, indent=1)
LINES = "\n" + "\n\n".join(map(json.dumps, ROWS)) + "\n"
YAML = "# a trace\n- {tool: a, args: {n: 1.5}}\n- tool: b\n  args: {t: ä}\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.json", JSON),
        ("t.txt", JSON),
        ("t", "\n\n" + JSON),
        ("t.json", "\ufeff" + JSON),
        ("t.jsonl", LINES),
        ("t.ndjson", LINES),
        ("t.log", LINES),
        ("t.log", "\ufeff" + LINES.lstrip()),
        ("t.yaml", YAML),
        ("t.yml", YAML),
        ("t", YAML),
    ],
    ids=lambda value: repr(value)[:20],
)
@pytest.mark.parametrize("from_stdin", [False, True], ids=["file", "stdin"])
def test_a_trace_is_read(
    name: str, content: str, from_stdin: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suffix says how it is written, or else the content does."""
    data = content.encode()
    if from_stdin:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert list(read_trace("-")) == ROWS
    else:
        (tmp_path / name).write_bytes(data)
        assert list(read_trace(str(tmp_path / name))) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("t.json", b"", "t.json' is not JSON", id="empty"),
        pytest.param("t", b"", "is not JSON", id="empty and without a suffix"),
        pytest.param("t.json", b"{}", "must hold a list of calls, got dict", id="object"),
        pytest.param("t.json", b"[1,\n2", "line 2 is not JSON", id="cut"),
        pytest.param("t.json", b"[" * 200_000, "nested too deeply", id="deep"),
        pytest.param("t.json", b"[" + b"9" * 5000 + b"]", "a number is too long", id="long number"),
        pytest.param("t.json", b'["\xff"]', "is not UTF-8", id="not utf-8"),
        pytest.param("t.jsonl", b"{}\n{\n", "line 2 is not JSON", id="bad line"),
        pytest.param("t.jsonl", b'{}\n{"a": "\xff"}\n', "is not UTF-8", id="line that is not utf-8"),
        pytest.param("t.yaml", b"a: 1", "must hold a list of calls, got dict", id="yaml mapping"),
        pytest.param("t.yaml", b"", "must hold a list of calls, got NoneType", id="empty yaml"),
        pytest.param("t.yaml", b"- a\n- [", "line 3: invalid YAML", id="bad yaml"),
        pytest.param("t.yaml", b"- \x07", ": invalid YAML", id="yaml without a line"),
        pytest.param("t.yaml", b"- \xff", "is not UTF-8", id="yaml that is not utf-8"),
    ],
)
def test_what_is_no_trace_is_one_error(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """What is wrong is told with the name of the file."""
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(TraceSourceError) as caught:
        list(read_trace(str(path)))

    assert message in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_what_cannot_be_opened(tmp_path: Path, name: str) -> None:
    """A file that is not there is told as such."""
    with pytest.raises(TraceSourceError, match="could not be read"):
        list(read_trace(str(tmp_path / name)))


def test_lines_are_read_as_they_come(tmp_path: Path) -> None:
    """A trace of any length needs no memory: what is wrong at its end is found at its end."""
    path = tmp_path / "t.jsonl"
    path.write_text("{}\n" * 3 + "{\n")
    rows = read_trace(str(path))

    assert [next(rows), next(rows), next(rows)] == [{}, {}, {}]
    with pytest.raises(TraceSourceError, match="line 4"):
        next(rows)


@given(st.binary(max_size=100), st.sampled_from([".json", ".jsonl", ".yaml", ""]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str) -> None:
    """There are rows, or there is the documented error."""
    path = tmp_path_factory.mktemp("any") / f"t{suffix}"
    path.write_bytes(data)
    rows: list[Any] = []
    try:
        rows = list(read_trace(str(path)))
    except TraceSourceError as error:
        rows = [error]
    assert isinstance(rows, list)
