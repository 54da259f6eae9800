"""Evidence files, read back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import (
    Ed25519Signer,
    EvidenceFile,
    EvidenceLog,
    InvalidKeyError,
    UnreadableLogError,
    read_entries,
    reading,
    verify_file,
)

MakeViolation = Callable[..., Violation]


def test_entries_of_format_1(tmp_path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """A bundle is an entry with its signature."""
    log = EvidenceLog(key)
    bundle = log.record(violation(3))
    path = tmp_path / "e.json"
    path.write_text(log.to_json())

    (entry,) = read_entries(path)

    assert (entry.number, entry.type, entry.time) == (0, "violation", bundle.timestamp)
    assert (entry.session_id, entry.data["step"]) == (None, 3)
    assert (entry.hash, entry.signature) == (bundle.bundle_hash, bundle.signature)


def test_a_signature_that_is_no_text_is_none(tmp_path: Path) -> None:
    """Reading does not verify, and does not stumble either."""
    path = tmp_path / "e.json"
    path.write_text('[{"timestamp": "t", "violation": {}, "bundle_hash": "h", "signature": 5}]')

    assert next(read_entries(path)).signature is None


def test_entries_of_format_2(tmp_path: Path, violation: MakeViolation) -> None:
    """A line is an entry, whatever part of the log it stands in."""
    with EvidenceFile(tmp_path / "e.jsonl", session_id="s", max_bytes=1_000, seal_interval=60) as log:
        for step in range(3):
            log.record(violation(step))

    entries = list(read_entries(log.path))

    assert [entry.number for entry in entries] == list(range(len(entries)))
    assert [entry.data["step"] for entry in entries if entry.type == "violation"] == [0, 1, 2]
    assert {entry.session_id for entry in entries} == {"s"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "file is empty", id="empty"),
        pytest.param(b"  \n", "file is empty", id="blank"),
        pytest.param(b"{}", "is no evidence log", id="object"),
        pytest.param(b"hello", "is no evidence log", id="text"),
        pytest.param(b"[1,", r"file is not JSON .line 1.", id="cut json"),
        pytest.param(b"[\xff]", "file is not UTF-8", id="not utf-8"),
        pytest.param(b"[" * 100_000, "file is not JSON", id="deep"),
        pytest.param(b"[" + b"9" * 5000 + b"]", "file is not JSON", id="very long number"),
    ],
)
@pytest.mark.parametrize("read", [verify_file, lambda path: list(read_entries(path))], ids=["verify", "read"])
def test_what_is_no_log_is_one_error(
    tmp_path: Path, content: bytes, message: str, read: Callable[[Path], object]
) -> None:
    """A file that is no evidence log is named, with what is wrong with it."""
    path = tmp_path / "e.json"
    path.write_bytes(content)

    with pytest.raises(UnreadableLogError, match=message) as caught:
        read(path)

    assert caught.value.path == str(path)


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    path = tmp_path / "e.json"
    path.write_bytes(b"\xef\xbb\xbf[]")

    assert verify_file(path).ok


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("[{}]", "missing or malformed field: bundle 0", id="bundle without fields"),
        pytest.param('{"body":5}\n', "not a line of an evidence log", id="line"),
    ],
)
def test_an_entry_that_is_none_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    """Reading stops where there is nothing to read."""
    path = tmp_path / "e.json"
    path.write_text(content)

    with pytest.raises(UnreadableLogError, match=message):
        list(read_entries(path))


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    """What cannot be opened is an error of ours."""
    with pytest.raises(UnreadableLogError, match="could not read file"):
        list(read_entries(tmp_path))
    with pytest.raises(UnreadableLogError, match="could not read file"):
        reading.read_bundles(tmp_path)


def test_a_document_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 1 is read whole, so there is a bound."""
    monkeypatch.setattr(reading, "_MAX_DOCUMENT", 10)
    path = tmp_path / "e.json"
    path.write_text(json.dumps(list(range(20))))

    with pytest.raises(UnreadableLogError, match="too large for format 1"):
        verify_file(path)


def test_a_document_that_is_no_list(tmp_path: Path) -> None:
    """`read_bundles` says what it wants."""
    path = tmp_path / "e.json"
    path.write_text('"text"')

    with pytest.raises(UnreadableLogError, match="must contain a JSON list"):
        reading.read_bundles(path)


@pytest.mark.parametrize("head", ["{", '{"format": 2}', "[" * 9999], ids=["cut", "short", "long"])
def test_a_head_that_is_none(tmp_path: Path, head: str) -> None:
    """A head that cannot be read vouches for nothing."""
    EvidenceFile(tmp_path / "e.jsonl").close()
    (tmp_path / "e.jsonl.head").write_text(head)

    with pytest.raises(UnreadableLogError, match="head of the log cannot be read"):
        verify_file(tmp_path / "e.jsonl")


def test_a_head_that_is_given_and_none(tmp_path: Path) -> None:
    """The same for one that was kept elsewhere."""
    EvidenceFile(tmp_path / "e.jsonl").close()

    with pytest.raises(UnreadableLogError, match="head of the log cannot be read"):
        verify_file(tmp_path / "e.jsonl", head={"count": 5})


def test_an_empty_key_is_an_error(tmp_path: Path) -> None:
    """Before anything is read."""
    with pytest.raises(InvalidKeyError, match="public key is empty"):
        verify_file(tmp_path / "nothing", "")


def test_a_log_is_read_while_it_is_written(tmp_path: Path, violation: MakeViolation) -> None:
    """A log that grows is not taken for one that was tampered with."""
    with EvidenceFile(tmp_path / "e.jsonl", seal_interval=60) as log:
        log.record(violation())
        report = verify_file(log.path)

    assert report.ok
    assert "the last 1 lines are not covered by the head yet" in report.notes


def test_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home folder here too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "e.json").write_text("[]")

    assert verify_file("~/e.json").ok
    assert list(read_entries("~/e.json")) == []


def test_what_stands_in_a_report(tmp_path: Path, key: Ed25519Signer) -> None:
    """A report says whose log it is."""
    with EvidenceFile(tmp_path / "e.jsonl", signer=key, session_id="s", rules_hash="r") as log:
        pass

    report = verify_file(log.path, key.public_key_hex)

    assert (report.session_id, report.rules_hash) == ("s", "r")
    assert (report.key_id, report.log_id) == (key.key_id, log.log_id)
