"""The files of a log."""

import json
from pathlib import Path

import pytest

from openbox_agentrt.evidence import EvidenceFile, UnreadableLogError
from openbox_agentrt.evidence.canonical import GENESIS_HASH, canonical
from openbox_agentrt.evidence.format2 import parts
from openbox_agentrt.evidence.format2.lines import LineType, write_line


def header(previous: object, type: LineType = "header") -> bytes:
    body = canonical({"previous": previous})
    line, _ = write_line(body=body, prev=GENESIS_HASH, seq=0, session="null", time="2026", type=type)
    return line


@pytest.mark.parametrize(
    "previous",
    [
        pytest.param(None, id="first"),
        pytest.param("text", id="no mapping"),
        pytest.param({"file": 5}, id="no name"),
        pytest.param({"file": "../outside.jsonl"}, id="out of the folder"),
        pytest.param({"file": "/etc/passwd"}, id="absolute"),
        pytest.param({"file": "a\0b"}, id="no file name"),
        pytest.param({"file": "e.jsonl"}, id="itself"),
        pytest.param({"file": "missing.jsonl"}, id="missing"),
        pytest.param({"file": "folder"}, id="folder"),
    ],
)
def test_a_header_leads_nowhere_else(tmp_path: Path, previous: object) -> None:
    """A header is data that anyone may have written: it is followed within the folder and no further."""
    folder = tmp_path / "logs"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "outside.jsonl").write_bytes(header(None))
    log = folder / "e.jsonl"
    log.write_bytes(header(previous))

    assert parts.parts_of(log) == [log]


def test_parts_in_circles_end(tmp_path: Path) -> None:
    """Headers that name each other do not keep a reader busy."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_bytes(header({"file": "b.jsonl"}))
    second.write_bytes(header({"file": "a.jsonl"}))

    assert parts.parts_of(first) == [second, first]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"", None, id="empty"),
        pytest.param(b"text\n", None, id="no line"),
        pytest.param(header(None, "violation"), None, id="another line"),
        pytest.param(header(None), {"previous": None}, id="header"),
    ],
)
def test_the_header_of_a_file(tmp_path: Path, content: bytes, expected: object) -> None:
    """A file has a header or it has none."""
    path = tmp_path / "e.jsonl"
    path.write_bytes(content)

    assert parts.header_of(path) == expected


@pytest.mark.parametrize(
    ("content", "torn"),
    [
        (b"", 0),
        (b"a\n", 0),
        (b"a\nbc", 2),
        (b"abc", 3),
        (b"a\n" + b"x" * 200_000, 200_000),
        (b"x" * 200_000, 200_000),
    ],
    ids=["empty", "whole", "torn", "one torn line", "long torn line", "nothing but a long torn line"],
)
def test_the_torn_end(tmp_path: Path, content: bytes, torn: int) -> None:
    """What stands after the last line end is no line."""
    path = tmp_path / "e.jsonl"
    path.write_bytes(content)

    assert parts.torn_end_of(path) == torn
    assert b"".join(parts.iterate_lines(path, skip_torn=True)) == content[: len(content) - torn]


def test_a_torn_line_in_the_middle_of_a_log_is_not_skipped(tmp_path: Path) -> None:
    """Only the last file may end in the middle of a line."""
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"a\nbc")

    assert list(parts.iterate_lines(path, skip_torn=False)) == [b"a\n", b"bc"]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader's memory is bounded."""
    monkeypatch.setattr(parts, "MAX_LINE", 10)
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"x" * 20)

    with pytest.raises(UnreadableLogError, match="line is too long"):
        list(parts.iterate_lines(path, skip_torn=True))


def test_parts_are_named_after_the_log(tmp_path: Path) -> None:
    """The suffix stays, so that tools know what they see."""
    assert parts.part_path(Path("/x/evidence.jsonl"), 7) == Path("/x/evidence.000007.jsonl")
    assert parts.part_path(Path("/x/evidence"), 7) == Path("/x/evidence.000007")


def test_a_header_says_which_part_it_is(tmp_path: Path) -> None:
    """The first part has nothing before it."""
    EvidenceFile(tmp_path / "e.jsonl").close()

    header = parts.header_of(tmp_path / "e.jsonl")

    assert header is not None
    assert (header["part"], header["previous"]) == (1, None)
    assert json.loads(json.dumps(header)) == header
