"""Verification says what it did not see."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import (
    DamagedLogError,
    Ed25519Signer,
    EvidenceFile,
    EvidenceLog,
    Head,
    ed25519_signer,
    verify_bundles,
    verify_file,
)

MakeViolation = Callable[..., Violation]


@pytest.fixture
def parts(tmp_path: Path, key: Ed25519Signer, violation: MakeViolation) -> list[Path]:
    """A log in several parts, the last of them under the log's own name."""
    path = tmp_path / "live" / "e.jsonl"
    with EvidenceFile(path, signer=key, session_id="s", max_bytes=1_500) as log:
        for step in range(12):
            log.record(violation(step))
    found = [*sorted(path.parent.glob("e.0*.jsonl")), path]
    assert len(found) > 3
    return found


def put(folder: Path, files: list[Path]) -> list[Path]:
    """Copies of parts and their heads in a folder of their own."""
    folder.mkdir()
    for file in files:
        for each in (file, file.with_name(file.name + ".head")):
            shutil.copy(each, folder / each.name)
    return [folder / file.name for file in files]


def test_an_archived_part_verifies_by_itself(parts: list[Path], tmp_path: Path, key: Ed25519Signer) -> None:
    """It says what came before and that more followed, neither of which was looked at."""
    for number, part in enumerate(parts[:-1]):
        (archived,) = put(tmp_path / f"archive{number}", [part])
        report = verify_file(archived, key.public_key_hex)

        assert (report.ok, report.authenticated, report.state) == (True, True, "rotated")
        assert report.signed == report.count
        assert (report.starts_at == 0) is (number == 0)
        assert "another part follows this one, and was not looked at" in report.notes
        unseen = f"the {report.starts_at} lines before this part were not looked at"
        assert (unseen in report.notes) is (number > 0)


def test_a_range_of_archived_parts_verifies(parts: list[Path], tmp_path: Path, key: Ed25519Signer) -> None:
    """From the first that is there to the one that is named."""
    archived = put(tmp_path / "archive", parts[1:3])
    alone = verify_file(put(tmp_path / "alone", parts[2:3])[0], key.public_key_hex)
    both = verify_file(archived[-1], key.public_key_hex)

    assert (both.ok, both.authenticated) == (True, True)
    assert both.starts_at < alone.starts_at
    assert both.count == alone.count + alone.starts_at - both.starts_at


def test_a_change_inside_an_archived_part_is_found(
    parts: list[Path], tmp_path: Path, key: Ed25519Signer
) -> None:
    """Also at its end, and also where its head was made anew without the key."""
    (archived,) = put(tmp_path / "archive", parts[1:2])
    data = archived.read_bytes()
    archived.write_bytes(data.replace(b'"tool":"delete"', b'"tool":"create"', 1))
    assert verify_file(archived, key.public_key_hex).problem == "changed"
    archived.write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    assert verify_file(archived, key.public_key_hex).problem == "truncated"
    archived.write_bytes(data + data.splitlines(keepends=True)[-1])
    assert not verify_file(archived, key.public_key_hex).ok


def test_partial_looks_at_every_part_that_is_there(parts: list[Path], key: Ed25519Signer) -> None:
    """A change in an earlier part that was left in place is found."""
    parts[0].unlink()
    assert verify_file(parts[-1], key.public_key_hex).problem == "missing"
    report = verify_file(parts[-1], key.public_key_hex, partial=True)
    assert (report.ok, report.authenticated, report.state) == (True, True, "closed")
    assert report.starts_at + report.count == 12 + len(parts)

    parts[1].write_bytes(parts[1].read_bytes().replace(b'"tool":"delete"', b'"tool":"create"', 1))
    assert verify_file(parts[-1], key.public_key_hex, partial=True).problem == "changed"


def test_a_part_under_the_name_of_the_log_is_no_whole_log(parts: list[Path], key: Ed25519Signer) -> None:
    """Whoever takes the last part away and renames the one before it is found, and nothing is added to it."""
    shutil.move(parts[-2], parts[-1])
    shutil.move(f"{parts[-2]}.head", f"{parts[-1]}.head")

    assert verify_file(parts[-1], key.public_key_hex).problem == "truncated"
    with pytest.raises(DamagedLogError, match="is a part that another one follows"):
        EvidenceFile(parts[-1], signer=key)


@pytest.fixture
def grown(tmp_path: Path, key: Ed25519Signer, violation: MakeViolation) -> tuple[Path, Head]:
    """A log, and the head that it had half-way."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, signer=key) as log:
        log.record(violation(1))
        log.seal()
        kept = log.head
        log.record(violation(2))
    return path, kept


def test_a_kept_head_is_checked_besides(grown: tuple[Path, Head], key: Ed25519Signer) -> None:
    """The log begins with what it vouches for, and the rest is right by the head of today."""
    path, kept = grown
    report = verify_file(path, key.public_key_hex, head=kept)
    assert (report.ok, report.authenticated, report.count) == (True, True, 3)

    path.write_bytes(path.read_bytes().replace(b'"step":2', b'"step":3'))
    assert verify_file(path, key.public_key_hex, head=kept).problem == "changed"


def test_a_log_that_was_set_back_is_found_by_a_kept_head(
    tmp_path: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """With its head, whether it ends there or went another way."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, signer=key) as log:
        log.record(violation(1))
    old = path.read_bytes(), Path(f"{path}.head").read_bytes()
    with EvidenceFile(path, signer=key) as log:
        log.record(violation(2))
        log.record(violation(3))
    kept = log.head

    path.write_bytes(old[0])
    Path(f"{path}.head").write_bytes(old[1])
    assert verify_file(path, key.public_key_hex).ok
    assert verify_file(path, key.public_key_hex, head=kept).problem == "truncated"
    with EvidenceFile(path, signer=key) as log:
        for step in range(9):
            log.record(violation(step))
    assert verify_file(path, key.public_key_hex).ok
    assert verify_file(path, key.public_key_hex, head=kept).problem == "rewritten"


def test_what_kind_of_head_was_kept(grown: tuple[Path, Head], tmp_path: Path, key: Ed25519Signer) -> None:
    """One of another log, one that is forged, and one of a part that is not there are told apart."""
    path, kept = grown
    other, _ = ed25519_signer()
    with EvidenceFile(tmp_path / "other.jsonl", signer=key) as log:
        of_another = log.head
    forged = Head(log_id=kept.log_id, part=1, count=2, hash=kept.hash, state="open", signature="00")

    assert verify_file(path, key.public_key_hex, head=of_another).problem == "foreign"
    assert verify_file(path, key.public_key_hex, head=forged).problem == "wrong_signer"
    assert verify_file(path, other.public_key_hex, head=kept).problem == "wrong_signer"
    Path(f"{path}.head").unlink()
    report = verify_file(path, key.public_key_hex, head=kept)
    assert (report.ok, report.authenticated, report.signed) == (True, False, 2)


def test_a_kept_head_of_a_part_that_is_not_there(
    tmp_path: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """What it vouches for cannot be seen, and that is no success."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, signer=key, max_bytes=1_500) as log:
        log.record(violation(0))
        log.seal()
        kept = log.head
        for step in range(8):
            log.record(violation(step))
    (tmp_path / "e.000001.jsonl").unlink()

    assert verify_file(path, key.public_key_hex, partial=True).ok
    assert verify_file(path, key.public_key_hex, partial=True, head=kept).problem == "missing"


def test_what_was_lost_until_the_end_is_said_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, violation: MakeViolation
) -> None:
    """A disk that was full for the last records has room for a line about them when the log is closed."""
    path = tmp_path / "e.jsonl"
    log = EvidenceFile(path)
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for step in range(3):
        log.record(violation(step))
    monkeypatch.setattr(os, "write", write)
    log.close()

    report = verify_file(path)
    assert (report.ok, report.lost) == (True, 3)
    assert report.notes[0] == "3 record(s) are missing by the log's own account"


def test_a_disk_that_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, violation: MakeViolation
) -> None:
    """Closing does not raise, and the failures are counted."""
    log = EvidenceFile(tmp_path / "e.jsonl")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    log.record(violation(1))
    log.close()
    monkeypatch.undo()

    assert log.failures >= 2


CRASH = """
import os, signal, sys
from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import EvidenceFile, ed25519_signer
log = EvidenceFile(sys.argv[1], signer=ed25519_signer(sys.argv[2])[0], seal_interval=3600)
for step in range(4):
    log.record(Violation("temporal", "must_precede(a, b)", "b", step))
    if step == 1:
        log.seal()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_a_crash_the_tail_is_what_no_signature_covers(tmp_path: Path, violation: MakeViolation) -> None:
    """That is said as long as the log lives, and counted apart once the log was opened again."""
    path, key_file = tmp_path / "e.jsonl", tmp_path / "key"
    subprocess.run([sys.executable, "-c", CRASH, path, key_file], check=False)
    signer, public_key = ed25519_signer(key_file)

    crashed = verify_file(path, public_key)
    assert (crashed.ok, crashed.state, crashed.count, crashed.signed) == (True, "open", 5, 3)
    assert "the last 2 lines are not covered by the head yet" in crashed.notes
    with EvidenceFile(path, signer=signer) as log:
        log.record(violation(9))

    report = verify_file(path, public_key)
    assert (report.ok, report.state, report.count) == (True, "closed", 7)
    assert (report.signed, report.recovered, report.authenticated) == (5, 2, False)
    assert "lines 3 to 4 were not signed when the log was opened again" in report.notes


def test_a_clock_that_went_back_is_noted(tmp_path: Path, violation: MakeViolation) -> None:
    """How often, where first, and by how much; the order of the log is not that of the clock."""
    now = [datetime(2026, 1, 1, 12, tzinfo=UTC)]
    with EvidenceFile(tmp_path / "e.jsonl", clock=lambda: now[0]) as log:
        for minutes in (1, -30, 2, -1):
            now[0] += timedelta(minutes=minutes)
            log.record(violation(minutes))

    report = verify_file(tmp_path / "e.jsonl")
    assert (report.ok, report.backwards) == (True, 2)
    assert report.first_time == "2026-01-01T12:00:00+00:00"
    assert report.last_time == "2026-01-01T11:32:00+00:00"
    assert "the writer's clock went back 2 time(s), first at 2, by 1800 s" in report.notes


def test_sessions_are_named_in_order(tmp_path: Path, violation: MakeViolation) -> None:
    """Those that entries are about."""
    with EvidenceFile(tmp_path / "e.jsonl") as log:
        for session in ("b", "a", "b"):
            log.record(violation(1), session_id=session)

    assert verify_file(tmp_path / "e.jsonl").sessions == ("b", "a")


def test_format_1_says_what_it_can(violation: MakeViolation) -> None:
    """Times, and records that could not be taken down."""

    class Strange:
        def to_dict(self) -> dict[str, object]:
            raise RuntimeError("no")

    log = EvidenceLog()
    log.record(violation(1))
    log.record(Strange())
    report = verify_bundles([bundle.to_dict() for bundle in log.bundles])

    assert (report.ok, report.lost, report.backwards) == (True, 1, 0)
    assert report.first_time is not None
    assert report.last_time is not None
    assert report.first_time <= report.last_time
