"""A key that takes over from another, which vouches for it in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.cli import main
from openbox_agentrt.evidence import (
    DamagedLogError,
    Ed25519Signer,
    EvidenceFile,
    ed25519_signer,
    read_entries,
    verify_file,
)
from openbox_agentrt.evidence.checkpoints.checkpoint import make_checkpoint
from openbox_agentrt.evidence.checkpoints.line_proofs import check_proof, prove_line
from openbox_agentrt.evidence.format2.heads import Head, read_head, write_head
from openbox_agentrt.evidence.format2.lines import write_line
from openbox_agentrt.evidence.format2.parsing import parse_line
from openbox_agentrt.evidence.format2.succession import handover

MakeViolation = Callable[..., Violation]


@pytest.fixture
def keys() -> list[Ed25519Signer]:
    """Three keys, each of which takes over from the one before."""
    return [ed25519_signer()[0] for _ in range(3)]


@pytest.fixture
def log(tmp_path: Path, keys: list[Ed25519Signer], violation: MakeViolation) -> Path:
    """A log in several parts, signed with one after the other."""
    path = tmp_path / "e.jsonl"
    before = None
    for key in keys:
        with EvidenceFile(path, signer=key, previous_signer=before, max_bytes=3_000) as file:
            for step in range(4):
                file.record(violation(step))
        before = key
    return path


@pytest.fixture
def short(tmp_path: Path, keys: list[Ed25519Signer], violation: MakeViolation) -> Path:
    """A log of one record, signed with the first of the keys."""
    with EvidenceFile(tmp_path / "e.jsonl", signer=keys[0]) as file:
        file.record(violation())
    return tmp_path / "e.jsonl"


def head_of(log: Path) -> Head:
    head = read_head(log)
    assert head is not None
    return head


def test_each_key_verifies_the_whole_log(log: Path, keys: list[Ed25519Signer]) -> None:
    """The old ones find the new ones in it, and the last needs nobody."""
    for number, key in enumerate(keys):
        report = verify_file(log, key.public_key_hex)
        assert (report.ok, report.authenticated) == (True, True), report.reason
        assert report.handed_over == tuple(each.public_key_hex for each in keys[number + 1 :])
        assert report.key_id == keys[-1].key_id
    assert verify_file(log).handed_over == ()
    assert sum(entry.type == "key" for entry in read_entries(log)) == 2
    stranger = ed25519_signer()[1]
    assert verify_file(log, stranger).problem == "wrong_signer"


def test_a_key_that_was_followed_is_told(
    log: Path, keys: list[Ed25519Signer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line as well; a checkpoint by any of them counts."""
    kept = tmp_path / "kept"
    asked = ["verify", str(log), "--checkpoint", str(kept), "--key", keys[0].public_key_hex]
    for key in keys:
        kept.write_text(make_checkpoint(log, key).note.write())
        assert main(asked) == 0
        assert f"handed the log over to key {keys[1].key_id}" in capsys.readouterr().err
    kept.write_text(make_checkpoint(log, ed25519_signer()[0]).note.write())
    assert main(asked) == 1


def test_it_is_done_once_and_only_when_asked_for(
    tmp_path: Path, keys: list[Ed25519Signer], violation: MakeViolation
) -> None:
    """Another key without it is refused as before, and the old one is not needed a second time."""
    path = tmp_path / "e.jsonl"
    old, new, other = keys
    with EvidenceFile(path, signer=old, previous_signer=other) as file:
        file.record(violation())
    with pytest.raises(DamagedLogError, match="signed with key") as caught:
        EvidenceFile(path, signer=new)
    assert "previous_signer" in str(caught.value.remedy)
    with pytest.raises(DamagedLogError, match="signed with key"):
        EvidenceFile(path, signer=new, previous_signer=other)
    for before in (old, old, None):
        with EvidenceFile(path, signer=new, previous_signer=before):
            pass
    assert sum(entry.type == "key" for entry in read_entries(path)) == 1
    assert (tmp_path / "e.jsonl.pub").read_text().strip() == new.public_key_hex
    with pytest.raises(DamagedLogError):
        EvidenceFile(path, signer=old)


def test_a_crash_before_the_new_key_has_signed(
    short: Path, keys: list[Ed25519Signer], violation: MakeViolation
) -> None:
    """The line is there and the head is still the old one's: it holds, and the next start goes on."""
    old, new, _ = keys
    head = head_of(short)
    with EvidenceFile(short, signer=new, previous_signer=old):
        pass
    lines = short.read_bytes().splitlines(keepends=True)
    short.write_bytes(b"".join(lines[: head.count + 2]))
    assert parse_line(lines[head.count + 1]).type == "key"
    write_head(short, signed(replace(head, state="open"), old), durable=False)
    assert verify_file(short, old.public_key_hex).ok

    with EvidenceFile(short, signer=new, previous_signer=old) as file:
        file.record(violation())
    for key in (old, new):
        assert verify_file(short, key.public_key_hex).ok


def signed(head: Head, key: Ed25519Signer) -> Head:
    head = replace(head, key_id=key.key_id, signature=None)
    return replace(head, signature=key(head.statement()))


def forge(log: Path, body: bytes, key: Ed25519Signer) -> None:
    """Put a line of a key at the end of a log, and sign the head anew."""
    head = head_of(log)
    line, digest = write_line(
        body=body,
        prev=head.hash,
        seq=head.count,
        session="null",
        time="2026-01-01T00:00:00+00:00",
        type="key",
    )
    log.write_bytes(log.read_bytes() + line)
    forged = replace(head, count=head.count + 1, hash=digest)
    write_head(log, signed(forged, key), durable=False)


@pytest.mark.parametrize("how", ["unsigned", "by itself", "of another log", "of another line", "another key"])
def test_nobody_takes_over_by_himself(how: str, short: Path, keys: list[Ed25519Signer]) -> None:
    """Without the old key there is no line that its signature is right for."""
    old, thief, third = keys
    head = head_of(short)
    number, log_id = head.count, head.log_id
    body = handover(log_id, number, old, thief)
    if how == "unsigned":
        body["signature"] = None
    elif how == "by itself":
        body = {**handover(log_id, number, thief, thief), "previous": old.key_id}
    elif how == "of another log":
        body = handover("another", number, old, thief)
    elif how == "of another line":
        body = handover(log_id, number + 1, old, thief)
    else:
        body = {
            **handover(log_id, number, old, third),
            "key_id": thief.key_id,
            "public_key": thief.public_key_hex,
        }
    forge(short, json.dumps(body, sort_keys=True, separators=(",", ":")).encode(), thief)
    report = verify_file(short, old.public_key_hex)
    assert (report.ok, report.problem) == (False, "wrong_signer")
    assert report.handed_over == ()


def test_the_old_key_signs_nothing_any_more(short: Path, keys: list[Ed25519Signer]) -> None:
    """Who has stolen it cannot go on with a log that it has handed over."""
    old, new, _ = keys
    with EvidenceFile(short, signer=new, previous_signer=old):
        pass
    head = head_of(short)
    write_head(short, signed(head, old), durable=False)
    for key in (old, new):
        assert verify_file(short, key.public_key_hex).problem == "wrong_signer"


def test_a_head_of_before_is_of_the_key_of_before(
    short: Path, keys: list[Ed25519Signer], violation: MakeViolation
) -> None:
    """A head that was kept elsewhere is checked with the key that was in force then."""
    old, new, _ = keys
    kept = head_of(short)
    with EvidenceFile(short, signer=new, previous_signer=old) as file:
        file.record(violation())
    assert verify_file(short, old.public_key_hex, head=kept).ok
    assert verify_file(short, old.public_key_hex, head=signed(kept, new)).problem == "wrong_signer"


def test_a_single_line_is_checked_with_the_key_that_handed_over(
    log: Path, keys: list[Ed25519Signer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has only the first key and the proof of a line needs neither the log nor the last key."""
    made = make_checkpoint(log, keys[-1])
    last = made.size - 1
    for number in (1, last):
        proof = json.loads(json.dumps(prove_line(log, number, made)))
        for key in keys:
            wrong, said = check_proof(proof, key.public_key_hex)
            assert (wrong, said is not None) == ([], True)
        stranger = ed25519_signer()[1]
        assert check_proof(proof, stranger) == (["the checkpoint is not signed with this key"], None)

    proof = prove_line(log, last, made)
    without = {name: part for name, part in proof.items() if name != "keys"}
    assert check_proof(without, keys[0].public_key_hex)[0] == ["the checkpoint is not signed with this key"]
    assert check_proof(without, keys[-1].public_key_hex)[0] == []

    # A line of a key that this log does not have hands nothing over.
    thief = ed25519_signer()[0]
    forged = make_checkpoint(log, thief)
    proof = {**prove_line(log, last, forged), "keys": prove_line(log, last, made)["keys"]}
    assert check_proof(proof, keys[0].public_key_hex)[0] == ["the checkpoint is not signed with this key"]
    wrong_place = {**proof["keys"][0], "number": 1}
    assert check_proof({**proof, "keys": [wrong_place]}, keys[0].public_key_hex)[0] == [
        "not the proof of a line"
    ]

    file = tmp_path / "line.json"
    file.write_text(json.dumps(prove_line(log, last, made)))
    assert main(["evidence", "check", str(file), "--key", keys[0].public_key_hex]) == 0
    assert f"line {last} is in the log" in capsys.readouterr().out
