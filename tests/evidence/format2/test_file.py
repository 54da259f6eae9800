"""Format 2: evidence in a file that only grows."""

import datetime
import json
import logging
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import (
    DamagedLogError,
    Ed25519Signer,
    EvidenceFile,
    LogInUseError,
    Redactor,
    read_entries,
    verify_file,
)
from openbox_agentrt.evidence.format2.heads import read_head

MakeViolation = Callable[..., Violation]
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits and no fork")
START = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evidence.jsonl"


def types(path: Path) -> list[str]:
    return [entry.type for entry in read_entries(path)]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_what_is_recorded_is_in_the_file(path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """A log says whose it is, what was broken, and when; its head is signed."""
    with EvidenceFile(
        path, signer=key, session_id="s-1", rules_hash="r-1", clock=lambda: START, record="all"
    ) as log:
        assert log.record(violation(3, args={"id": "r_42"}, id="backup-first")) == 1
        assert log.record_decision({"verdict": "allow", "event": "delete"}) == 2
        assert log.failures == 0

    header, first, second = lines(path)
    assert header["type"] == "header"
    assert header["body"] == {
        "format": 2,
        "key_id": key.key_id,
        "log_id": log.log_id,
        "part": 1,
        "previous": None,
        "record": "all",
        "rules_hash": "r-1",
        "session_id": "s-1",
        "writer": header["body"]["writer"],
    }
    assert (first["type"], first["session"], first["time"]) == ("violation", "s-1", START.isoformat())
    assert (first["body"]["args"], first["body"]["id"]) == ({"id": "r_42"}, "backup-first")
    assert (second["type"], second["body"]) == ("decision", {"event": "delete", "verdict": "allow"})
    report = verify_file(path, key.public_key_hex, session_id="s-1", rules_hash="r-1")
    assert (report.ok, report.authenticated, report.count, report.records) == (True, True, 3, 2)


def test_decisions_are_recorded_only_when_asked_for(path: Path, violation: MakeViolation) -> None:
    """The default holds violations only."""
    with EvidenceFile(path) as log:
        assert log.record_decision({"verdict": "allow"}) is None
        log.record(violation())

    assert types(path) == ["header", "violation"]


def test_a_violation_names_its_session(path: Path, violation: MakeViolation) -> None:
    """The violation's own session is the one that counts."""
    with EvidenceFile(path, session_id="of the file") as log:
        log.record(violation(session_id="of the violation"))
        log.record(violation())

    assert [line["session"] for line in lines(path)[1:]] == ["of the violation", "of the file"]


def test_one_log_serves_many_sessions(path: Path, violation: MakeViolation) -> None:
    """Each session writes under its name, and says once which rules it runs under."""
    with EvidenceFile(path, record="all") as log:
        first = log.for_session("s-1", rules_hash="r-1")
        second = log.for_session("s-2")
        first.record(violation())
        second.record_decision({"verdict": "block"})
        second.seal()
        assert first.failures == 0
        assert first.file is log
        assert log.records_decisions

    assert [(line["type"], line["session"]) for line in lines(path)[1:]] == [
        ("session", "s-1"),
        ("session", "s-2"),
        ("violation", "s-1"),
        ("decision", "s-2"),
    ]
    assert lines(path)[1]["body"] == {"rules_hash": "r-1"}


@pytest.mark.parametrize(
    ("header", "sessions", "problem"),
    [
        pytest.param("r-1", [], None, id="of one session"),
        pytest.param("r-2", [], "opened under rules 'r-2'", id="of one session, other rules"),
        pytest.param(None, ["r-1", "r-1"], None, id="shared"),
        pytest.param(None, ["r-1", "r-2"], "session 's-1' runs under rules 'r-2'", id="shared, other rules"),
        pytest.param(None, ["r-1", None], "rules that it does not name", id="shared, one without a name"),
        pytest.param("r-1", ["r-2"], "session 's-0' runs under rules 'r-2'", id="a session with its own"),
        pytest.param(None, [], "does not say which rules", id="no rules at all"),
    ],
)
def test_all_sessions_have_to_run_under_the_rules(
    path: Path, header: str | None, sessions: list[str | None], problem: str | None
) -> None:
    """Whoever asks for rules is told of every session that ran under others."""
    with EvidenceFile(path, rules_hash=header) as log:
        for number, rules in enumerate(sessions):
            log.for_session(f"s-{number}", rules_hash=rules)

    report = verify_file(path, rules_hash="r-1")

    assert report.ok is (problem is None)
    assert problem is None or (report.problem == "foreign" and problem in str(report.reason))
    assert verify_file(path).ok


def test_the_file_is_private(path: Path, violation: MakeViolation) -> None:
    """What a tool was called with is nobody else's business."""
    with EvidenceFile(path.parent / "new" / "e.jsonl") as log:
        log.record(violation())
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in log.path.parent.iterdir()}

    assert set(modes) == {"e.jsonl", "e.jsonl.head", "e.jsonl.lock"}
    if sys.platform != "win32":
        assert set(modes.values()) == {0o600}


def test_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))

    with EvidenceFile("~/e.jsonl"):
        assert (tmp_path / "e.jsonl").is_file()


def test_secrets_are_hidden(path: Path, violation: MakeViolation) -> None:
    """Redaction covers violations and decisions."""
    with EvidenceFile(path, redact_fields=["*token*"], record="all") as log:
        log.record(violation(args={"x_token": "s3cret"}, state_snapshot={"n": "token=s3cret"}))
        log.record_decision({"reason": '{"token": "s3cret"}', "verdict": "block"})

    assert b"s3cret" not in path.read_bytes()
    assert path.read_bytes().count(b"REDACTED") == 3


def test_a_redactor_can_be_shared(path: Path, violation: MakeViolation) -> None:
    """With one redactor, markers in the log and elsewhere can be compared."""
    redactor = Redactor("token")
    with EvidenceFile(path, redact_fields=redactor) as log:
        log.record(violation(args={"token": 1}))

    assert lines(path)[1]["body"]["args"] == redactor.redact({"token": 1})


def test_a_second_writer_is_refused(path: Path) -> None:
    """Two writers would break each other's chain."""
    with EvidenceFile(path):
        with pytest.raises(LogInUseError, match="another writer holds this evidence log") as caught:
            EvidenceFile(path)

        assert caught.value.path == str(path)
        if sys.platform != "win32":
            assert f"(process {os.getpid()})" in str(caught.value)

    EvidenceFile(path).close()


def test_a_second_process_is_refused(path: Path) -> None:
    """The lock holds between processes."""
    code = "import sys; from openbox_agentrt.evidence import EvidenceFile; EvidenceFile(sys.argv[1])"
    with EvidenceFile(path):
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "LogInUseError" in done.stderr


@posix
def test_a_killed_process_leaves_no_lock_and_a_log_that_goes_on(path: Path, violation: MakeViolation) -> None:
    """What was recorded before the kill is there, and the next writer continues."""
    code = """
import os, signal, sys
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.acel.violations import Violation
log = EvidenceFile(sys.argv[1], seal_interval=60)
for step in range(5):
    log.record(Violation("temporal", "a", "b", step))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, path], check=False)

    with EvidenceFile(path) as log:
        log.record(violation())

    assert types(path) == ["header", *["violation"] * 5, "resumed", "violation"]
    report = verify_file(path)
    assert report.ok
    assert "lines 1 to 5 were not signed when the log was opened again" in report.notes


def test_a_process_that_ends_seals_its_log(path: Path, key: Ed25519Signer) -> None:
    """A log that was not closed is sealed when the interpreter exits."""
    code = """
import sys
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.acel.violations import Violation
log = EvidenceFile(sys.argv[1], seal_interval=60)
log.record(Violation("temporal", "a", "b", 1))
"""
    subprocess.run([sys.executable, "-c", code, path], check=True)

    assert json.loads(Path(f"{path}.head").read_bytes())["state"] == "closed"
    assert json.loads(Path(f"{path}.head").read_bytes())["count"] == 2


@posix
def test_a_forked_process_records_nothing(path: Path, violation: MakeViolation) -> None:
    """Two processes must not write one chain; the child's records are counted as lost there."""
    with EvidenceFile(path) as log:
        child = os.fork()
        if child == 0:
            recorded = log.record(violation())
            log.seal()
            log.close()
            os._exit(0 if recorded is None and log.failures == 1 else 1)
        _, status = os.waitpid(child, 0)
        log.record(violation())

    assert os.waitstatus_to_exitcode(status) == 0
    assert types(path) == ["header", "violation"]
    assert verify_file(path).ok


def test_nothing_is_written_from_another_process(
    path: Path, violation: MakeViolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, as seen from inside: whatever is called there, the log stays as it is."""
    with EvidenceFile(path, seal_interval=60) as log:
        log.record(violation())
        before = path.read_bytes(), Path(f"{path}.head").read_bytes()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert log.record(violation()) is None
        log.seal()
        log.close()
        monkeypatch.undo()

        assert log.last_failure == "write: RuntimeError"
        assert (path.read_bytes(), Path(f"{path}.head").read_bytes()) == before


def test_records_are_sealed_in_the_background(path: Path, violation: MakeViolation) -> None:
    """No call waits for the signature, and none waits for the next call either."""
    sealed = threading.Event()

    def sign(data: bytes) -> str:
        if b'"count":2' in data:
            sealed.set()
        return "00"

    with EvidenceFile(path, signer=sign, seal_interval=0.001) as log:
        log.record(violation())
        assert sealed.wait(10)


def test_each_record_can_be_sealed_at_once(path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """With no interval, a record is signed before `record` returns."""
    with EvidenceFile(path, signer=key, seal_interval=0) as log:
        log.record(violation())
        assert log.head.count == 2
        assert verify_file(path, key.public_key_hex).authenticated


def test_recording_goes_on_while_a_signature_is_awaited(path: Path, violation: MakeViolation) -> None:
    """A key service that takes its time holds up no call."""
    asked, answer = threading.Event(), threading.Event()
    asking = False

    def slow(data: bytes) -> str:
        if asking and not asked.is_set():
            asked.set()
            answer.wait(10)
        return "00"

    log = EvidenceFile(path, signer=slow, seal_interval=60)
    log.record(violation(1))
    asking = True
    waiting = threading.Thread(target=log.seal)
    waiting.start()
    assert asked.wait(10)

    assert log.record(violation(2)) == 2
    answer.set()
    waiting.join(10)

    assert log.head.count == 2
    log.close()


def test_a_signer_that_fails_is_asked_again(path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """A failed seal is counted, and the next one covers its records."""
    away = False

    def flaky(data: bytes) -> str:
        if away:
            raise ConnectionError
        return key(data)

    log = EvidenceFile(path, signer=flaky, seal_interval=60)
    away = True
    log.record(violation())
    log.seal()
    assert (log.failures, log.last_failure, log.head.count) == (1, "seal: ConnectionError", 1)

    away = False
    log.close()
    assert verify_file(path, key.public_key_hex).authenticated


def test_sealing_without_news_does_nothing(path: Path) -> None:
    """A head that is up to date is not signed again."""
    with EvidenceFile(path) as log:
        before = Path(f"{path}.head").stat().st_mtime_ns
        log.seal()
        assert Path(f"{path}.head").stat().st_mtime_ns == before


class FullDisk:
    """Lets `os.write` fail after so many bytes, once."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.write = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        written = self.write(descriptor, data[: self.room])
        self.room -= written
        return written


def test_a_full_disk_stops_no_call_and_is_written_down(
    path: Path, violation: MakeViolation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lost records are counted, logged once, and noted in the log as soon as there is room again."""
    with EvidenceFile(path, seal_interval=60) as log:
        log.record(violation(1))
        monkeypatch.setattr(os, "write", FullDisk(room=50))
        assert log.record(violation(2)) is None
        assert log.record(violation(3)) is None
        assert log.failures == 2
        monkeypatch.undo()
        log.record(violation(4))

    assert types(path) == ["header", "violation", "gap", "violation"]
    assert lines(path)[2]["body"] == {"last_failure": "write: OSError (No space left on device)", "lost": 2}
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert verify_file(path).ok


def test_rules_that_a_full_disk_kept_out_are_written_with_the_next_session(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them no decision of a later session could be derived again."""
    rules = {"hash": "h", "contracts": [], "texts": []}
    with EvidenceFile(path, record="steps", seal_interval=60) as log:
        monkeypatch.setattr(os, "write", FullDisk(room=50))
        assert log.record_rules(rules) is None
        monkeypatch.undo()
        assert log.record_rules(rules) is not None
        assert log.record_rules(rules) is None

    assert types(path) == ["header", "gap", "rules"]
    assert verify_file(path).ok


class Raising:
    def to_dict(self) -> dict[str, Any]:
        raise RuntimeError("with the data in it")


class NoMapping:
    def to_dict(self) -> Any:
        return ["not a mapping"]


@pytest.mark.parametrize(
    ("recordable", "error"), [(Raising(), "RuntimeError"), (NoMapping(), "TypeError")], ids=["raises", "list"]
)
def test_what_cannot_be_recorded_is_recorded_as_such(path: Path, recordable: Any, error: str) -> None:
    """That there was a violation is evidence, even if nothing can be said about it."""
    with EvidenceFile(path) as log:
        assert log.record(recordable) == 1
        assert log.failures == 1

    assert lines(path)[1]["body"] == {"$error": error}
    assert verify_file(path).ok


def test_a_closed_log_records_nothing(path: Path, violation: MakeViolation) -> None:
    """After the end nothing is added, and nothing raised."""
    log = EvidenceFile(path)
    log.close()
    log.close()

    assert log.record(violation()) is None
    assert log.last_failure == "write: ValueError"
    assert types(path) == ["header"]


def test_many_threads_make_one_chain(path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """Concurrent recording, sealing and rotation lose nothing and break no link."""
    with EvidenceFile(path, signer=key, max_bytes=20_000, seal_interval=0.001) as log:

        def work() -> None:
            for step in range(50):
                log.record(violation(step))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.failures == 0

    report = verify_file(path, key.public_key_hex)
    assert (report.ok, report.authenticated, report.records) == (True, True, 400)
    assert types(path).count("header") > 5


def test_a_log_that_grows_goes_on_in_a_new_file(
    path: Path, violation: MakeViolation, key: Ed25519Signer
) -> None:
    """The files are linked, and each can be verified: all of them, or one alone."""
    with EvidenceFile(path, signer=key, max_bytes=2_000, seal_interval=60) as log:
        for step in range(10):
            log.record(violation(step))

    parts = sorted(path.parent.glob("evidence.0*.jsonl"))
    assert [part.name for part in parts][:2] == ["evidence.000001.jsonl", "evidence.000002.jsonl"]
    assert all(part.stat().st_size < 4_000 for part in parts)
    whole = verify_file(path, key.public_key_hex)
    assert (whole.ok, whole.authenticated, whole.records) == (True, True, 10)
    assert lines(path)[0]["body"]["previous"]["file"] == parts[-1].name
    assert [entry.data["step"] for entry in read_entries(path) if entry.type == "violation"] == list(
        range(10)
    )


def test_a_new_part_is_vouched_for_at_once(path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """The head that stands beside the log is the signed one that the log tells of."""
    with EvidenceFile(path, signer=key, max_bytes=1_000, seal_interval=60) as log:
        while log.head.part == 1:
            log.record(violation())

        assert log.head.signature is not None
        assert read_head(path) == log.head


def test_a_seal_that_was_overtaken_changes_nothing(path: Path, violation: MakeViolation) -> None:
    """A signature that comes after a new part has begun does not set the head back."""
    asked, answer = threading.Event(), threading.Event()
    slow = False

    def sign(data: bytes) -> str:
        if slow and b'"count":2' in data:
            asked.set()
            answer.wait(10)
        return "00"

    with EvidenceFile(path, signer=sign, max_bytes=1_500, seal_interval=60) as log:
        log.record(violation(1))
        slow = True
        waiting = threading.Thread(target=log.seal)
        waiting.start()
        assert asked.wait(10)
        for step in range(5):
            log.record(violation(step))
        newer = log.head
        answer.set()
        waiting.join(10)

        assert newer.count > 2
        assert log.head == newer


def test_a_failed_rotation_loses_nothing(
    path: Path, violation: MakeViolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no new file can be begun, the log goes on in the file it has."""
    with EvidenceFile(path, max_bytes=1_000, seal_interval=60) as log:

        def refuse(*names: Any, **folders: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "replace", refuse)
        for step in range(5):
            log.record(violation(step))
        failures = log.failures
        monkeypatch.undo()

    assert failures > 0
    assert log.last_failure == "rotate: PermissionError (Permission denied)"
    assert types(path).count("violation") == 5
    assert verify_file(path).ok


def test_a_rotation_that_fails_half_way_is_undone(
    path: Path, violation: MakeViolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that was put away already is put back."""
    real = os.replace

    def refuse(source: Any, target: Any) -> None:
        if str(target) == str(path):
            raise PermissionError(13, "Permission denied")
        real(source, target)

    with EvidenceFile(path, max_bytes=1_000, seal_interval=60) as log:
        monkeypatch.setattr(os, "replace", refuse)
        for step in range(4):
            log.record(violation(step))
        monkeypatch.undo()
        log.record(violation(9))

    assert verify_file(path).ok
    assert [entry.data["step"] for entry in read_entries(path) if entry.type == "violation"] == [
        0,
        1,
        2,
        3,
        9,
    ]


def test_durable_waits_for_the_disk(
    path: Path, violation: MakeViolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the head vouches for is on the disk before the head is."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    with EvidenceFile(path, durable=True, seal_interval=0) as log:
        synced.clear()
        log.record(violation())

        assert len(synced) == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param(
            {"record": "some"},
            ValueError,
            "record must be 'violations', 'all' or 'steps', not 'some'",
            id="record",
        ),
        pytest.param(
            {"signer": ("sign", "key")}, TypeError, "signer must be callable, not 'tuple'", id="signer"
        ),
        pytest.param({"redact_fields": [""]}, ValueError, "not empty", id="redaction"),
    ],
)
def test_mistakes_are_told_at_once(
    path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """A log that could not do its work is not opened, and nothing is left behind."""
    with pytest.raises(error, match=message):
        EvidenceFile(path, **options)

    assert list(path.parent.iterdir()) == []


def test_a_log_that_cannot_be_begun_leaves_no_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch, key: Ed25519Signer
) -> None:
    """A writer that failed to open does not keep the next one out."""

    def broken(data: bytes) -> str:
        raise ConnectionError("key service is away")

    with pytest.raises(ConnectionError):
        EvidenceFile(path, signer=broken)

    EvidenceFile(path).close()


def test_continuing_a_log(path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """The next process goes on with the same chain."""
    with EvidenceFile(path, signer=key, session_id="s-1") as first:
        first.record(violation())
    with EvidenceFile(path, signer=key, session_id="s-2", rules_hash="r-2") as second:
        second.record(violation())

    assert second.log_id == first.log_id
    assert [(line["type"], line["session"]) for line in lines(path)] == [
        ("header", "s-1"),
        ("violation", "s-1"),
        ("resumed", "s-2"),
        ("session", "s-2"),
        ("violation", "s-2"),
    ]
    report = verify_file(path, key.public_key_hex)
    assert (report.ok, report.authenticated) == (True, True)


def test_a_torn_last_line_is_taken_away_and_noted(path: Path, violation: MakeViolation) -> None:
    """A crash in the middle of a write leaves half a line: the log goes on, and says so."""
    with EvidenceFile(path) as log:
        log.record(violation())
    with path.open("ab") as file:
        file.write(b'{"body":{"ki')
    torn = verify_file(path)
    assert torn.ok
    assert "the last 12 bytes are no complete line, as a crash leaves them" in torn.notes

    with EvidenceFile(path) as log:
        log.record(violation())

    assert types(path) == ["header", "violation", "resumed", "violation"]
    assert lines(path)[2]["body"]["dropped_bytes"] == 12
    assert len(lines(path)[2]["body"]["dropped_sha256"]) == 64
    assert verify_file(path).ok


@pytest.mark.parametrize("left", [b"", b'{"body":', None], ids=["nothing", "half a header", "a header"])
def test_a_crash_at_the_very_beginning(path: Path, left: bytes | None) -> None:
    """A log that never got a head is begun anew."""
    EvidenceFile(path).close()
    if left is not None:
        path.write_bytes(left)
    Path(f"{path}.head").unlink()

    EvidenceFile(path).close()

    assert types(path) == ["header"]


@pytest.mark.parametrize(
    "content", [b"my notes", b'{"a":1}\n', b"\n"], ids=["a text", "JSON", "a blank line"]
)
def test_a_file_that_is_no_log_is_left_alone(path: Path, content: bytes) -> None:
    """One line of somebody else's, given by mistake, is not taken for what a crash left of a header."""
    path.write_bytes(content)

    with pytest.raises(DamagedLogError, match="not an evidence log"):
        EvidenceFile(path)

    assert path.read_bytes() == content


def test_a_crash_while_a_new_part_was_begun(path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """The old part was put away and the new one is not there: the log goes on in a new one."""
    with EvidenceFile(path, signer=key, seal_interval=60) as log:
        log.record(violation(1))
    path.rename(path.with_name("evidence.000001.jsonl"))

    with EvidenceFile(path, signer=key) as log:
        log.record(violation(2))

    assert types(path) == ["header", "violation", "header", "resumed", "violation"]
    assert verify_file(path, key.public_key_hex).authenticated


def test_a_crash_before_the_head_knew_of_the_new_part(
    path: Path, violation: MakeViolation, key: Ed25519Signer
) -> None:
    """The head is of the part before: the log goes on, and what it did not cover is not called signed."""
    head = Path(f"{path}.head")
    with EvidenceFile(path, signer=key, max_bytes=1_000, seal_interval=60) as log:
        log.record(violation(1))
        log.record(violation(2))
        log.seal()
        old = head.read_bytes()
        log.record(violation(3))
        assert log.head.part > json.loads(old)["part"]
    head.write_bytes(old)

    with EvidenceFile(path, signer=key) as log:
        pass

    report = verify_file(path, key.public_key_hex)
    assert (report.ok, report.authenticated) == (True, False)


def rewrite(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"step":1', b'"step":7'))


def cut(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def behead(path: Path) -> None:
    Path(f"{path}.head").unlink()


def spoil_head(path: Path) -> None:
    Path(f"{path}.head").write_text("{}")


def forge_head(path: Path) -> None:
    head = Path(f"{path}.head")
    head.write_bytes(head.read_bytes().replace(b'"count":3', b'"count":2'))


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        pytest.param(rewrite, "cannot be continued: line 1 is not what its hash was taken of", id="changed"),
        pytest.param(cut, "cannot be continued: the log ends after 2 of 3 lines", id="cut"),
        pytest.param(lambda path: path.write_bytes(b""), "the log is empty", id="emptied"),
        pytest.param(Path.unlink, "the log is empty", id="removed"),
        pytest.param(behead, "the head of the log is missing", id="head removed"),
        pytest.param(spoil_head, "the head of the log cannot be read", id="head spoiled"),
        pytest.param(forge_head, "the head of the log is forged", id="head forged"),
    ],
)
def test_a_damaged_log_is_not_continued(
    path: Path, violation: MakeViolation, key: Ed25519Signer, attack: Callable[[Path], None], message: str
) -> None:
    """To go on would be to sign the forgery. The log is left as it is, for whoever looks into it."""
    with EvidenceFile(path, signer=key) as log:
        log.record(violation(1))
        log.record(violation(2))
    attack(path)
    before = {file: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith(".lock")}

    with pytest.raises(DamagedLogError, match=message) as caught:
        EvidenceFile(path, signer=key)

    assert "move it and its .head away" in str(caught.value.remedy)
    assert before == {
        file: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith(".lock")
    }


def test_a_log_goes_on_with_its_own_key_only(path: Path, key: Ed25519Signer) -> None:
    """What another key signed, or none, must not become this key's word."""
    EvidenceFile(path, signer=key).close()

    with pytest.raises(
        DamagedLogError, match=f"signed with key '{key.key_id}' so far, and no key is given now"
    ):
        EvidenceFile(path)


def test_a_signer_without_a_name_can_continue(path: Path, violation: MakeViolation) -> None:
    """A signer can be any function. What it signed before can then not be checked on opening."""
    for _ in range(2):
        with EvidenceFile(path, signer=lambda data: "00") as log:
            log.record(violation())

    assert types(path) == ["header", "violation", "resumed", "violation"]


def test_the_head_can_be_kept_elsewhere(path: Path, violation: MakeViolation, key: Ed25519Signer) -> None:
    """A log that was set back together with its head is found with a head that was kept elsewhere."""
    with EvidenceFile(path, signer=key, seal_interval=0) as log:
        log.record(violation(1))
        old = {file: file.read_bytes() for file in (path, Path(f"{path}.head"))}
        log.record(violation(2))
        kept = log.head
    for file, content in old.items():
        file.write_bytes(content)

    assert verify_file(path, key.public_key_hex).ok
    report = verify_file(path, key.public_key_hex, head=kept)
    assert (report.ok, report.problem, report.first_bad) == (False, "truncated", 2)
    assert verify_file(path, head=kept.to_dict()).problem == "truncated"
