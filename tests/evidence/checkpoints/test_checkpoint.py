"""Checkpoints, proofs of single lines, and witnesses."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._files.lock import FileLockedError
from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.cli import main
from openbox_agentrt.evidence import (
    Ed25519Signer,
    EvidenceFile,
    InvalidKeyError,
    UnreadableLogError,
    ed25519_signer,
    verify_file,
)
from openbox_agentrt.evidence.checkpoints.checkpoint import (
    Checkpoint,
    check_checkpoint,
    leaves_of,
    make_checkpoint,
    parse_checkpoint,
)
from openbox_agentrt.evidence.checkpoints.line_proofs import check_proof, prove_line
from openbox_agentrt.evidence.checkpoints.merkle import consistency_proof
from openbox_agentrt.evidence.checkpoints.signed_notes import NoteKey, cosign, parse_note, sign
from openbox_agentrt.evidence.checkpoints.witness import Witness, write_request
from openbox_agentrt.evidence.checkpoints.witness_client import ask_witness, cosigned_checkpoint

MakeViolation = Callable[..., Violation]


@pytest.fixture
def log(tmp_path: Path, key: Ed25519Signer, violation: MakeViolation) -> Path:
    """A log in several parts."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, signer=key, max_bytes=2_000) as file:
        for step in range(9):
            file.record(violation(step))
    return path


def grow(log: Path, key: Ed25519Signer, violation: MakeViolation, *, steps: int = 3) -> None:
    with EvidenceFile(log, signer=key, max_bytes=2_000) as file:
        for step in range(steps):
            file.record(violation(step))


def test_the_form_of_a_checkpoint(log: Path, key: Ed25519Signer) -> None:
    """Three lines, a blank one, and a signature that names its key."""
    made = make_checkpoint(log, key)
    report = verify_file(log)
    origin, size, root, blank, signature, end = made.note.write().split("\n")

    assert origin == f"openbox-agentrt/evidence/{report.log_id}"
    assert int(size) == report.count == made.size
    assert base64.b64decode(root) == made.root
    assert (blank, end) == ("", "")
    assert signature.startswith(f"— {origin} ")
    assert parse_checkpoint(made.note.write().encode()) == made
    assert made.key(key.public_key_hex).signed_at(made.note) == 0
    assert NoteKey.read(made.key(key.public_key_hex).write()) == made.key(key.public_key_hex)


def test_a_log_that_went_on_still_begins_as_the_checkpoint_says(
    log: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """Over all its parts, whatever came after."""
    made = make_checkpoint(log, key)
    grow(log, key, violation, steps=20)

    assert check_checkpoint(log, made, public_key=key.public_key_hex) == []


def test_a_log_that_was_set_back_is_found(
    log: Path, tmp_path: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """Together with its head, by whoever kept a checkpoint; whether it went another way or not."""
    shutil.copytree(tmp_path, tmp_path / "old", ignore=shutil.ignore_patterns("old"))
    grow(log, key, violation)
    made = make_checkpoint(log, key)
    old = tmp_path / "old" / "e.jsonl"
    assert verify_file(old, key.public_key_hex).authenticated

    (wrong,) = check_checkpoint(old, made)
    assert "and had" in wrong
    grow(old, key, violation, steps=9)
    assert verify_file(old, key.public_key_hex).authenticated
    assert check_checkpoint(old, made) == [f"the first {made.size} lines are not those of the checkpoint"]


def test_a_checkpoint_of_another_key_or_log(
    log: Path, tmp_path: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """Each is named."""
    other, _ = ed25519_signer()
    grow(tmp_path / "other.jsonl", other, violation)

    assert check_checkpoint(log, make_checkpoint(log, other), public_key=key.public_key_hex) == [
        "the checkpoint is not signed with this key"
    ]
    (wrong,) = check_checkpoint(log, make_checkpoint(tmp_path / "other.jsonl", key))
    assert "this is 'openbox-agentrt/evidence/" in wrong
    (tmp_path / "e.000001.jsonl").unlink()
    with pytest.raises(UnreadableLogError, match="first parts of the log are missing"):
        list(leaves_of(log))


def test_a_line_is_checked_without_its_log(log: Path, key: Ed25519Signer) -> None:
    """Any change of the line, its number or its proof is found."""
    made = make_checkpoint(log, key)
    proof: dict[str, Any] = {}
    for number in range(made.size):
        proof = prove_line(log, number, made)
        wrong, said = check_proof(proof, key.public_key_hex)
        assert wrong == []
        assert said is not None

    for forged in (
        {**proof, "line": proof["line"].replace("delete", "create")},
        {**proof, "number": 0},
        {**proof, "proof": proof["proof"][1:]},
    ):
        assert check_proof(forged, key.public_key_hex)[1] is None
    other, _ = ed25519_signer()
    assert check_proof(proof, other.public_key_hex)[0] == ["the checkpoint is not signed with this key"]
    assert check_proof({"line": 1}, key.public_key_hex) == (["not the proof of a line"], None)
    with pytest.raises(IndexError):
        prove_line(log, made.size, made)


@pytest.fixture
def witness(tmp_path: Path, log: Path, key: Ed25519Signer) -> Iterator[Witness]:
    """A witness that knows the log."""
    own = make_witness(tmp_path, make_checkpoint(log, key), key)
    yield own
    own.close()


def make_witness(folder: Path, known: Checkpoint, key: Ed25519Signer) -> Witness:
    signer, _ = ed25519_signer(folder / "witness.key")
    return Witness(
        folder / "state", signer, "w.example", [known.key(key.public_key_hex)], now=lambda: 1_700_000_000.5
    )


def ask(log: Path, made: Checkpoint, old: int) -> bytes:
    leaves = list(leaves_of(log))[: made.size]
    return write_request(made, old, consistency_proof(leaves, old)).encode()


def test_a_witness_signs_what_goes_on(
    witness: Witness, log: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """From nothing, from what it saw, and again without a change; the signature has a time."""
    made = make_checkpoint(log, key)
    first = witness.add_checkpoint(ask(log, made, 0))
    assert first.status == 200
    note = parse_note(f"{made.note.write()}{first.body}".encode())
    assert witness.key.signed_at(note) == 1_700_000_000
    assert made.key(key.public_key_hex).signed_at(note) == 0

    grow(log, key, violation)
    more = make_checkpoint(log, key)
    assert witness.add_checkpoint(ask(log, more, made.size)).status == 200
    assert witness.add_checkpoint(ask(log, more, more.size)).status == 200
    stale = witness.add_checkpoint(ask(log, more, made.size))
    assert (stale.status, stale.body) == (409, f"{more.size}\n")


def test_a_witness_refuses_a_fork(
    witness: Witness, log: Path, tmp_path: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """Signed with the right key or not: there is one history."""
    shutil.copytree(tmp_path, tmp_path / "fork", ignore=shutil.ignore_patterns("fork", "state"))
    grow(log, key, violation)
    made = make_checkpoint(log, key)
    assert witness.add_checkpoint(ask(log, made, 0)).status == 200
    fork = tmp_path / "fork" / "e.jsonl"
    grow(fork, key, violation, steps=9)

    forked = make_checkpoint(fork, key)
    assert forked.size > made.size
    assert witness.add_checkpoint(ask(fork, forked, made.size)).status == 422
    assert witness.add_checkpoint(ask(fork, forked, 0)).status == 409
    grown = list(leaves_of(fork))[: made.size]
    same_size = sign(f"{made.origin}\n{made.size}\n{base64.b64encode(grown[0]).decode()}\n", made.origin, key)
    assert witness.add_checkpoint(f"old {made.size}\n\n{same_size.write()}".encode()).status == 409


def test_what_a_witness_does_not_take(witness: Witness, log: Path, key: Ed25519Signer) -> None:
    """Each refusal has the status that the protocol gives it."""
    made = make_checkpoint(log, key)
    other, _ = ed25519_signer()
    asked = ask(log, made, 0)

    assert witness.add_checkpoint(b"").status == 400
    assert witness.add_checkpoint(asked.replace(b"old 0", b"old 99999")).status == 400
    assert witness.add_checkpoint(ask(log, make_checkpoint(log, other), 0)).status == 403
    strange = sign(f"strange\n{made.size}\n{base64.b64encode(made.root).decode()}\n", "strange", key)
    assert witness.add_checkpoint(f"old 0\n\n{strange.write()}".encode()).status == 404
    with pytest.raises(FileLockedError):
        Witness(witness._state, key, "second", [])


def test_a_witness_that_signs_again_stands_once(log: Path, key: Ed25519Signer) -> None:
    """With its latest signature; it replaces neither another witness's nor the log's own."""
    made, (other, _) = make_checkpoint(log, key), ed25519_signer()
    lines = [
        cosign(made.note, "w", key, lambda: 7).line(),
        cosign(made.note, "v", other, lambda: 7).line(),
        cosign(made.note, "w", key, lambda: 8).line(),
        sign(made.note.text, made.origin, key).signatures[0].line(),
    ]
    signed = made
    for line in lines:
        signed = cosigned_checkpoint(signed, line)

    assert signed.note.signatures[0] == made.note.signatures[0]
    assert len(signed.note.signatures) == 3
    at = [
        NoteKey(name=name, kind=4, public_key_hex=one.public_key_hex).signed_at(signed.note)
        for name, one in (("w", key), ("v", other))
    ]
    assert at == [8, 7]


def test_a_witness_that_cannot_remember_signs_nothing(
    witness: Witness, log: Path, key: Ed25519Signer
) -> None:
    """What it remembered was damaged: it says so, and does not begin anew."""
    asked = ask(log, make_checkpoint(log, key), 0)
    assert witness.add_checkpoint(asked).status == 200
    (file,) = witness._state.glob("*.json")
    file.write_text("{}")

    with pytest.raises(UnreadableLogError, match="cannot be read"):
        witness.add_checkpoint(asked)


@given(st.binary(max_size=300))
def test_anything_as_a_note(data: bytes) -> None:
    """It is a note, or an error of the one kind."""
    for read in (parse_note, parse_checkpoint):
        with contextlib.suppress(ValueError):
            read(data)


@pytest.mark.parametrize("text", ["", "a+b", "n+00000000+AAAA", "a b+1+2", f"n+00000000+{'A' * 44}"])
def test_what_is_no_key_of_a_note(text: str) -> None:
    """Also one whose id is another key's."""
    with pytest.raises(InvalidKeyError):
        NoteKey.read(text)


def test_a_cosignature_is_of_its_text(key: Ed25519Signer) -> None:
    """And of no other."""
    note = sign("a\n", "n", key)
    own = cosign(note, "w", key, lambda: 7)
    witness = NoteKey(name="w", kind=4, public_key_hex=key.public_key_hex)

    assert witness.signed_at(parse_note(f"a\n\n{own.line()}".encode())) == 7
    assert witness.signed_at(parse_note(f"b\n\n{own.line()}".encode())) is None
    assert witness.signed_at(note) is None


@pytest.fixture
def served(tmp_path: Path, log: Path, key: Ed25519Signer) -> Iterator[tuple[str, str]]:
    """A witness in a process of its own: its address and its key."""
    known = make_checkpoint(log, key).key(key.public_key_hex).write()
    process = start(tmp_path, known)
    assert process.stderr is not None
    own = process.stderr.readline().removeprefix("key of this witness: ").strip()
    address = process.stderr.readline().removeprefix("witness on ").strip()
    yield address, own
    stop(process)


def start(folder: Path, known: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "openbox_agentrt.cli", "evidence", "witness", "--serve", "0"]
    command += ["--state", str(folder / "served"), "--key", str(folder / "served.key"), "--log", known]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stderr is not None
    process.stderr.close()


def test_a_checkpoint_makes_no_key(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path with a typing error in it would sign with a key that nobody knows."""
    assert main(["evidence", "checkpoint", str(log), "--key", str(tmp_path / "nokey")]) == 2
    assert "there is no key file" in capsys.readouterr().err
    assert not (tmp_path / "nokey").exists()


def test_the_whole_way(
    served: tuple[str, str],
    log: Path,
    tmp_path: Path,
    key: Ed25519Signer,
    violation: MakeViolation,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A checkpoint, a witness over HTTP, a copy elsewhere; then the log is set back, and found."""
    address, own = served
    private = tmp_path / "log.key"
    private.write_bytes(key._key.private_bytes_raw())
    private.chmod(0o600)
    asked: list[str] = []
    for _ in range(2):
        assert main(["evidence", "checkpoint", str(log), "--key", str(private)]) == 0
        for _ in range(2):
            assert main(["evidence", "submit", str(log), "--witness", address]) == 0
        kept = str(shutil.copy(f"{log}.checkpoint", tmp_path / "kept"))
        asked = ["verify", str(log), "--key", key.public_key_hex, "--checkpoint", kept, "--witness", own]
        note = parse_checkpoint(Path(kept).read_bytes()).note
        assert len(note.signatures) == 2  # the log's own, and the witness's once
        capsys.readouterr()
        assert main(asked) == 0
        said = capsys.readouterr().out
        assert f"OK — {kept}: the log begins with the" in said
        assert f"OK — {kept}: witness {NoteKey.read(own).name!r} has seen the checkpoint" in said
        grow(log, key, violation)
    assert main(["evidence", "prove", str(log), "--seq", "3"]) == 0
    (tmp_path / "proof").write_text(capsys.readouterr().out.splitlines()[-1])
    checked = ["evidence", "check", str(tmp_path / "proof"), "--key", key.public_key_hex]
    assert main([*checked, "--witness", own]) == 0
    assert "OK — line 3 is in the log" in capsys.readouterr().out

    shutil.copytree(tmp_path, tmp_path / "old", ignore=shutil.ignore_patterns("old", "served*"))
    for path in tmp_path.glob("e.*"):
        path.unlink()
    grow(log, key, violation, steps=30)
    assert main(["verify", str(log), "--key", key.public_key_hex]) == 0
    assert main(asked) == 1
    assert "FAIL — " in capsys.readouterr().err


def test_a_writer_asks_a_witness_by_itself(
    served: tuple[str, str], log: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """Each checkpoint goes on from the last that it saw, and a log that was set back gets no signature."""
    address, own = served
    old = {path: path.read_bytes() for path in log.parent.glob("e.*")}
    for step in range(3):
        with EvidenceFile(log, signer=key, anchors=address) as file:
            file.record(violation(step))
        assert (file.failures, file.last_failure) == (0, None)
        made = parse_checkpoint(Path(f"{log}.checkpoint").read_bytes())
        assert made.size == file.head.count
        assert check_checkpoint(log, made, witnesses=[NoteKey.read(own)]) == []
    for path in log.parent.glob("e.*"):
        path.unlink()
    for path, data in old.items():
        path.write_bytes(data)
    with EvidenceFile(log, signer=key, anchors=address) as file:
        pass
    assert (file.failures, file.last_failure) == (1, "anchor: WitnessRefusedError")


def test_a_witness_on_this_machine_is_asked_through_no_proxy(
    served: tuple[str, str], log: Path, key: Ed25519Signer, dead_proxy: None
) -> None:
    """Whatever is configured for the rest."""
    made = make_checkpoint(log, key)

    signed = ask_witness(served[0], made, list(leaves_of(log))[: made.size])

    assert check_checkpoint(log, signed, witnesses=[NoteKey.read(served[1])]) == []


def test_a_witness_remembers_over_a_kill(
    tmp_path: Path, log: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """What it signed is on the disk before anybody has the signature."""
    made = make_checkpoint(log, key)
    known = made.key(key.public_key_hex).write()
    current = made
    for old in (0, made.size):
        process = start(tmp_path, known)
        assert process.stderr is not None
        process.stderr.readline()
        address = process.stderr.readline().removeprefix("witness on ").strip()
        current = make_checkpoint(log, key)
        asked = urllib.request.Request(f"{address}/add-checkpoint", data=ask(log, current, old))
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert answer.status == 200
        stop(process)
        grow(log, key, violation)
    (state,) = (tmp_path / "served").glob("*.json")
    assert json.loads(state.read_text())["size"] == current.size


def test_a_witness_by_file(
    tmp_path: Path, log: Path, key: Ed25519Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    """For one that no network reaches."""
    made = make_checkpoint(log, key)
    Path(f"{log}.checkpoint").write_text(made.note.write())
    assert main(["evidence", "request", str(log)]) == 0
    (tmp_path / "request").write_text(capsys.readouterr().out)
    known = made.key(key.public_key_hex).write()
    command = ["evidence", "witness", "--state", str(tmp_path / "s"), "--key", str(tmp_path / "w.key")]
    command += ["--log", known]
    assert main([*command, str(tmp_path / "request")]) == 0
    said = capsys.readouterr()
    (tmp_path / "signature").write_text(said.out)
    assert main(["evidence", "add", str(log), str(tmp_path / "signature")]) == 0
    own = re.search(r"key of this witness: (\S+)", said.err)
    assert own is not None
    asked = ["verify", str(log), "--checkpoint", f"{log}.checkpoint", "--witness"]
    assert main([*asked, own[1]]) == 0
    assert main([*asked, own[1].replace("openbox", "another")]) == 2

    forged = (tmp_path / "request").read_text().replace("old 0", "old 1")
    (tmp_path / "request").write_text(forged)
    assert main([*command, str(tmp_path / "request")]) == 1
    assert main(command) == 2
    assert main(["evidence", "add", str(log), str(tmp_path / "request")]) == 2
    assert main(["evidence", "prove", str(tmp_path / "no"), "--seq", "1"]) == 2
