"""Verification, against the vectors and against anything at all."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import (
    GENESIS_HASH,
    EvidenceError,
    EvidenceFile,
    EvidenceLog,
    Report,
    UnreadableLogError,
    ed25519_signer,
    read_entries,
    verify_bundles,
    verify_file,
)
from openbox_agentrt.evidence.canonical import canonical
from openbox_agentrt.evidence.format2.lines import write_line
from openbox_agentrt.evidence.format2.parsing import parse_line
from openbox_agentrt.evidence.format2.verification import Expectation, verify_lines

VECTORS = Path(__file__).parent / "vectors"
PUBLIC_KEY = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
NAMES = sorted(
    str(path.relative_to(VECTORS)).removesuffix(".expected.json") for path in VECTORS.rglob("*.expected.json")
)


def test_there_are_vectors() -> None:
    """The tests below check something."""
    assert len(NAMES) > 50


@pytest.mark.parametrize("key", ["with_key", "without_key"])
@pytest.mark.parametrize("name", NAMES)
def test_vector(name: str, key: str) -> None:
    """Each attack is found, at the right record, or said to be one that cannot be found."""
    expected = json.loads((VECTORS / f"{name}.expected.json").read_text())
    log = VECTORS / f"{name}.json{'l' if name.startswith('format2') else ''}"

    report = verify_file(log, PUBLIC_KEY if key == "with_key" else None, **expected["options"])

    assert {field: getattr(report, field) for field in expected[key]} == expected[key]
    assert (report.reason is None) is report.ok


def test_without_a_key_nothing_is_authenticated() -> None:
    """The report says so, in words."""
    for name in NAMES:
        expected = json.loads((VECTORS / f"{name}.expected.json").read_text())
        log = VECTORS / f"{name}.json{'l' if name.startswith('format2') else ''}"

        report = verify_file(log, **expected["options"])

        assert not report.authenticated
        assert report.signed == 0
        assert any("nothing was authenticated" in note for note in report.notes)


def test_a_report_is_json_data() -> None:
    """What verification found can be handed on."""
    report = verify_file(VECTORS / "format2" / "changed.jsonl", PUBLIC_KEY)

    assert json.loads(json.dumps(report.to_dict())) == {
        "ok": False,
        "authenticated": False,
        "format": 2,
        "count": 2,
        "records": 1,
        "signed": 0,
        "first_bad": 2,
        "file": "changed.jsonl",
        "problem": "changed",
        "reason": "line 2 is not what its hash was taken of",
        "notes": [],
        "session_id": "s-1",
        "rules_hash": "r-1",
        "key_id": report.key_id,
        "log_id": "01" * 16,
        "lost": 0,
        "state": "closed",
        "starts_at": 0,
        "recovered": 0,
        "first_time": "2026-01-02T03:04:05.678901+00:00",
        "last_time": "2026-01-02T03:04:06.678901+00:00",
        "backwards": 0,
        "sessions": ["s-1"],
    }


def test_a_removed_log(tmp_path: Path) -> None:
    """Its head says that there was one."""
    shutil.copy(VECTORS / "format2" / "genuine.jsonl.head", tmp_path / "genuine.jsonl.head")

    assert verify_file(tmp_path / "genuine.jsonl").problem == "emptied"


def test_a_log_without_anything_is_unreadable(tmp_path: Path) -> None:
    """A file that is not there is an error of the call, not a finding."""
    with pytest.raises(UnreadableLogError, match=r"could not read file .no such file or directory."):
        verify_file(tmp_path / "nothing.jsonl")


def test_bundles_that_no_json_document_holds_are_malformed() -> None:
    """What is given in memory may be anything."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    bundle = {
        "index": 0,
        "timestamp": "t",
        "violation": deep,
        "prev_hash": "0" * 64,
        "trace_hash": "",
        "bundle_hash": "",
    }

    assert verify_bundles([bundle]).problem == "malformed"
    # A structure so deep ends the interpreter when it is freed all at once.
    while deep:
        deep = deep.pop("a")


def header(**fields: Any) -> bytes:
    line, _ = write_line(
        body=canonical({"format": 2, "log_id": "x", **fields}),
        prev=GENESIS_HASH,
        seq=0,
        session="null",
        time="2026",
        type="header",
    )
    return line


@pytest.mark.parametrize("fields", [{"format": 3}, {"log_id": None}], ids=str)
def test_a_header_of_another_format_is_malformed(fields: dict[str, Any]) -> None:
    """What a later version writes is not taken for this format."""
    report = verify_lines([("log", [header(**fields)])], Expectation(head=None))

    assert (report.problem, report.first_bad) == ("malformed", 0)


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"sealed": 0, "found": 1},
        {"sealed": 5, "found": 1},
        {"sealed": 1, "found": 9},
        {"sealed": "1", "found": 1},
    ],
    ids=str,
)
def test_a_resumption_that_says_nothing_is_malformed(tmp_path: Path, found: dict[str, Any]) -> None:
    """What was not signed when a log was opened again has to be told."""
    first = header()
    line, _ = write_line(
        body=canonical(found), prev=parse_line(first).hash, seq=1, session="null", time="2026", type="resumed"
    )

    report = verify_lines([("log", [first, line])], Expectation(head=None))

    assert (report.problem, report.first_bad) == ("malformed", 1)


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed log of several lines and parts."""
    key, public = ed25519_signer()
    path = tmp_path_factory.mktemp("genuine") / "e.jsonl"
    with EvidenceFile(path, signer=key, record="all", max_bytes=3_000, seal_interval=60) as log:
        for step in range(12):
            log.record(Violation("temporal", "a", "b", step, args={"n": step}))
            log.record_decision({"verdict": "allow", "n": step})
    (path.parent / "public").write_text(public)
    return path


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_change_of_a_signed_log_goes_unnoticed(genuine: Path, data: st.DataObject) -> None:
    """Whatever is done to its files, the log is found to be tampered with."""
    files = sorted(genuine.parent.glob("e.*jsonl*"))
    target = data.draw(st.sampled_from([file for file in files if file.suffix == ".jsonl"]))
    original = target.read_bytes()
    lines = original.splitlines(keepends=True)
    attack = data.draw(st.sampled_from(["flip", "insert", "remove", "swap", "repeat", "cut"]))
    at = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.integers(0, len(lines) - 1))
    match attack:
        case "flip":
            position = data.draw(st.integers(0, len(original) - 1))
            byte = data.draw(st.integers(0, 255))
            forged = original[:position] + bytes([byte]) + original[position + 1 :]
        case "insert":
            lines.insert(at, data.draw(st.binary(max_size=20)) + b"\n")
            forged = b"".join(lines)
        case "remove":
            del lines[at]
            forged = b"".join(lines)
        case "swap":
            lines[at], lines[other] = lines[other], lines[at]
            forged = b"".join(lines)
        case "repeat":
            lines.insert(at, lines[other])
            forged = b"".join(lines)
        case _:
            forged = original[: data.draw(st.integers(0, len(original) - 1))]
    public = (genuine.parent / "public").read_text()
    try:
        target.write_bytes(forged)
        report = verify_file(genuine, public)
    finally:
        target.write_bytes(original)

    assert report.ok is (forged == original)
    assert report.authenticated is report.ok


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=400), head=st.none() | st.binary(max_size=100))
def test_anything_as_a_log(tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bytes | None) -> None:
    """For any file there is a report or a documented error, and nothing else."""
    path = tmp_path_factory.mktemp("any") / "e.jsonl"
    path.write_bytes(data)
    if head is not None:
        path.with_name("e.jsonl.head").write_bytes(head)

    try:
        report = verify_file(path, PUBLIC_KEY)
    except EvidenceError:
        return
    assert isinstance(report, Report)
    try:
        list(read_entries(path))
    except EvidenceError:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
BUNDLE = st.fixed_dictionaries(
    {
        "index": st.integers() | JSON,
        "timestamp": st.text() | JSON,
        "violation": st.dictionaries(st.text(), JSON) | JSON,
        "prev_hash": st.text() | JSON,
        "trace_hash": st.text() | JSON,
        "bundle_hash": st.text() | JSON,
    },
    optional={"signature": st.text() | JSON},
)


@given(st.lists(BUNDLE | JSON))
def test_anything_as_bundles(bundles: list[Any]) -> None:
    """For any list there is a report; an honest chain of our own is the only one that passes."""
    assert isinstance(verify_bundles(bundles, public_key_hex=PUBLIC_KEY), Report)
    assert verify_bundles(bundles).ok is (bundles == [])


def test_a_long_log_is_verified_in_one_pass() -> None:
    """The same chain in pieces gives the same answer: nothing depends on where it is cut."""
    log = EvidenceLog()
    for step in range(50):
        log.record(Violation("temporal", "a", "b", step))
    bundles = [bundle.to_dict() for bundle in log.bundles]
    picked = random.Random(1).randrange(50)
    bundles[picked]["violation"]["tool"] = "c"

    assert verify_bundles(bundles).first_bad == picked
