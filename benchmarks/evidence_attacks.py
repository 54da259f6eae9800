"""
``python -m benchmarks evidence-attacks``: what is done to logs, how often, and what of it is found.

Minutes, not seconds. ``--quick`` does a little of each.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from openbox_agentrt.acel import Session, at_most_total
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.evidence import (
    EvidenceFile,
    LogInUseError,
    ed25519_signer,
    verify_file,
)
from openbox_agentrt.evidence.checkpoints.checkpoint import check_checkpoint, leaves_of, make_checkpoint
from openbox_agentrt.evidence.checkpoints.merkle import consistency_proof
from openbox_agentrt.evidence.checkpoints.signed_notes import NoteKey
from openbox_agentrt.evidence.checkpoints.witness import Witness, write_request
from openbox_agentrt.evidence.format2.parsing import LogLine, parse_line

from .evidence_ground import Attacked, Ground, head_of, write_some
from .evidence_moves import altered_stores, answers, hook_ground, hook_kills, hooks_at_once, moving_kills
from .rechaining import rechained

__all__ = ("ATTACKS", "Attacked", "Ground", "main")


def flips(ground: Ground) -> Iterator[Attacked]:
    """Turn over each bit of the log and of its head."""
    for name, file in (("a bit of the log flipped", ground.log), ("a bit of the head flipped", ground.head)):
        attacked, whole = Attacked(name), file.read_bytes()
        for bit in ground.some(range(len(whole) * 8), 80):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            held = ground.is_found(bytes(data)) if file == ground.log else _head_found(ground, bytes(data))
            attacked.note(held, f"bit {bit}")
        yield attacked


def _head_found(ground: Ground, head: bytes) -> bool:
    return ground.is_found(ground.log.read_bytes(), head)


def cuts(ground: Ground) -> Iterator[Attacked]:
    """Cut the end off, at each byte; cut each line out; and cut the beginning off, line by line."""
    whole = ground.log.read_bytes()
    attacked = Attacked("the end cut off, at each byte")
    for size in ground.some(range(len(whole)), 60):
        attacked.note(ground.is_found(whole[:size]), f"at {size}")
    yield attacked
    lines = whole.splitlines(keepends=True)
    attacked = Attacked("a run of lines cut out, each")
    for start, end in combinations(range(len(lines) + 1), 2):
        attacked.note(ground.is_found(b"".join(lines[:start] + lines[end:])), f"lines {start} to {end}")
    yield attacked


def moves(ground: Ground) -> Iterator[Attacked]:
    """Swap each two lines, and repeat each."""
    lines = ground.log.read_bytes().splitlines(keepends=True)
    attacked = Attacked("two lines swapped, each pair")
    for one, other in combinations(range(len(lines)), 2):
        moved = list(lines)
        moved[one], moved[other] = moved[other], moved[one]
        attacked.note(ground.is_found(b"".join(moved)), f"{one} and {other}")
    yield attacked
    attacked = Attacked("a line repeated, each anywhere")
    for line in range(len(lines)):
        for at in ground.some(range(len(lines) + 1), 3):
            attacked.note(
                ground.is_found(b"".join([*lines[:at], lines[line], *lines[at:]])), f"{line} at {at}"
            )
    yield attacked


def rewritten(ground: Ground) -> Iterator[Attacked]:
    """Change what a line says, and make every hash anew, with the old head and with one of another key."""
    attacked = Attacked("a line changed, all hashes made anew")
    thief, _ = ed25519_signer()
    raw = ground.log.read_bytes().splitlines(keepends=True)
    for number in range(len(raw)):
        forged, last = rechained(raw, _at(number, lambda body: body.update(changed=True)))
        attacked.note(ground.is_found(forged), f"line {number}")
        stated = json.loads(ground.head.read_text())
        stated |= {"hash": last, "signature": thief(b"whatever it signs")}
        attacked.note(
            ground.is_found(forged, json.dumps(stated).encode()), f"line {number}, signed by another"
        )
    yield attacked


def history(ground: Ground) -> Iterator[Attacked]:
    """Set a log back together with its head, and let it go on otherwise: what is kept elsewhere finds it."""
    tries = 3 if ground.quick else 50
    back, fork = Attacked("log and head set back, a checkpoint kept"), Attacked("a fork shown to a witness")
    key = ground.signer.public_key_hex
    for number in range(tries):
        log = ground.folder / f"h{number}.jsonl"
        write_some(log, ground.signer)
        early = {file: file.read_bytes() for file in (log, head_of(log))}
        with EvidenceFile(log, signer=ground.signer, record="steps") as evidence:
            Session(contracts=[], evidence=evidence).call("go_on", {"n": number})
        kept = make_checkpoint(log, ground.signer)
        witness = Witness(
            ground.folder / f"w{number}", ed25519_signer()[0], "w", [_note_key(kept.origin, key)]
        )
        try:
            leaves = list(leaves_of(log))
            first = witness.add_checkpoint(write_request(kept, 0, consistency_proof(leaves, 0)).encode())
            for file, data in early.items():
                file.write_bytes(data)
            plain = verify_file(log, key)
            back.note(plain.authenticated and bool(check_checkpoint(log, kept)), f"number {number}")
            with EvidenceFile(log, signer=ground.signer, record="steps") as evidence:
                for step in range(3):
                    Session(contracts=[], evidence=evidence).call("go_on_otherwise", {"n": step})
            other = make_checkpoint(log, ground.signer)
            proof = consistency_proof(list(leaves_of(log)), kept.size)
            second = witness.add_checkpoint(write_request(other, kept.size, proof).encode())
            fork.note(
                (first.status, second.status == 200) == (200, False), f"number {number}: {second.status}"
            )
        finally:
            witness.close()
    yield back
    yield fork


def _note_key(origin: str, key: str) -> NoteKey:
    return NoteKey.read(NoteKey(name=origin, kind=1, public_key_hex=key).write())


def heads(ground: Ground) -> Iterator[Attacked]:
    """Put each earlier head beside the log, and each earlier log beside the head."""
    signer, log = ground.signer, ground.folder / "heads.jsonl"
    states: list[tuple[bytes, bytes]] = []
    with EvidenceFile(log, signer=signer, record="steps", seal_interval=0) as evidence:
        session = Session(contracts=[], evidence=evidence)
        for number in range(5 if ground.quick else 30):
            session.call("work", {"n": number})
            states.append((log.read_bytes(), head_of(log).read_bytes()))
    attacked, key = Attacked("an old head, or an old log under a new head"), signer.public_key_hex
    latest, head = log.read_bytes(), head_of(log).read_bytes()
    for number, (old_log, old_head) in enumerate(states[:-1]):
        for data, stated in ((latest, old_head), (old_log, head)):
            log.write_bytes(data)
            head_of(log).write_bytes(stated)
            report = verify_file(log, key)
            # Lines after an open head hold, and are never called signed.
            attacked.note(not (report.ok and report.authenticated), f"state {number}")
    yield attacked


def void_rules(ground: Ground) -> Iterator[Attacked]:
    """Exchange the rules in a log for weaker ones under their hash, and each verdict for the other one."""
    exchanged, flipped = (
        Attacked("rules exchanged under their hash"),
        Attacked("a verdict or an amount changed"),
    )
    raw = ground.log.read_bytes().splitlines(keepends=True)
    weak = Session(contracts=[at_most_total("refund", "amount", 10**6)])

    def weaken(body: dict[str, object]) -> None:
        from openbox_agentrt.acel.engine.journal.journaled_store import filed_rules

        body |= {**filed_rules(weak.contracts), "hash": body["hash"]}

    def flip(body: dict[str, object]) -> None:
        body["allowed"] = not body["allowed"]

    def more(body: dict[str, object]) -> None:
        body["args"] = {**dict(body["args"]), "amount": 501}  # type: ignore[call-overload]

    for number, text in enumerate(raw):
        line = parse_line(text)
        data = line.data()
        changes: list[tuple[Attacked, Callable[[dict[str, object]], None]]] = []
        if line.type == "rules":
            changes.append((exchanged, weaken))
        if data.get("e") == "reserve":
            changes.append((flipped, flip))
            if data["allowed"] and data["tool"] == "refund":
                changes.append((flipped, more))
        for attacked, change in changes:
            copy = ground.folder / "rules.jsonl"
            copy.write_bytes(rechained(raw, _at(number, change))[0])
            report = rerun_file(copy)
            attacked.note(bool(report.differences or report.problems), f"line {number}")
    yield exchanged
    yield flipped


def _at(number: int, change: Callable[[dict[str, Any]], None]) -> Callable[[LogLine, dict[str, Any]], None]:
    """Change the body of one line."""

    def changed(line: LogLine, body: dict[str, Any]) -> None:
        if line.seq == number:
            change(body)

    return changed


_WRITER = """
import resource, sys, threading
from openbox_agentrt.acel import Session, at_most_total
from openbox_agentrt.evidence import EvidenceFile, ed25519_signer

path, key, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
if size:
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with EvidenceFile(path, signer=ed25519_signer(key)[0], record="steps", max_bytes=20_000) as evidence:
    session = Session(contracts=[at_most_total("refund", "amount", 10**9)], evidence=evidence)
    if size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    print("go", flush=True)
    number = 0
    while not size or number < 60:
        number += 1
        session.call("refund", {"amount": number})
        if size and number == 50:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(evidence.failures, session.in_flight, number, flush=True)
"""


def _writer(log: Path, key: Path, size: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(log), str(key), str(size)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=quiet, text=True)


def kills(ground: Ground) -> Iterator[Attacked]:
    """Kill the writer in the middle, again and again, each time on the same log."""
    attacked, chance = Attacked("the writer killed with SIGKILL, and the log gone on with"), random.Random(2)
    log, key = ground.folder / "killed.jsonl", ground.folder / "killed.key"
    public, before = ed25519_signer(key)[1], 0
    for number in range(3 if ground.quick else 100):
        process = _writer(log, key)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        report = verify_file(log, public)
        # Nothing that was written is lost, and nothing is called signed that is not.
        held = report.ok and report.count > before and report.signed <= report.count
        attacked.note(held, f"kill {number}: {report.problem} {report.reason}")
        before = report.count
    with EvidenceFile(log, signer=ed25519_signer(key)[0], record="steps"):
        pass
    report = verify_file(log, public)
    attacked.note(report.ok and report.state == "closed", f"at the end: {report.reason}")
    yield attacked


def full_disks(ground: Ground) -> Iterator[Attacked]:
    """Let no file grow beyond a size, and then let it: each call goes on, and the gap is in the log."""
    attacked, key = Attacked("the disk full, at each of many sizes"), ground.folder / "disk.key"
    public = ed25519_signer(key)[1]
    for size in ground.some(range(2_000, 14_000, 200), 3):
        log = ground.folder / f"full-{size}.jsonl"
        process = _writer(log, key, size)
        out, _ = process.communicate(timeout=120)
        failures, flying, calls = map(int, out.split()[1:])
        report = verify_file(log, public)
        told = report.lost > 0 or failures == 0
        held = report.ok and report.authenticated and told and (flying, calls) == (0, 60)
        attacked.note(held, f"at {size}: {report.reason}, lost {report.lost}, failures {failures}")
    yield attacked


def two_writers(ground: Ground) -> Iterator[Attacked]:
    """Open a log that another process writes to."""
    attacked = Attacked("a second writer on the same log")
    log, key = ground.folder / "two.jsonl", ground.folder / "two.key"
    signer, public = ed25519_signer(key)
    process = _writer(log, key)
    assert process.stdout is not None
    process.stdout.readline()
    for number in range(3 if ground.quick else 100):
        try:
            EvidenceFile(log, signer=signer).close()
            attacked.note(False, f"try {number} was let in")
        except LogInUseError:
            attacked.note(True, "")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    report = verify_file(log, public)
    attacked.note(report.ok, f"afterwards: {report.reason}")
    yield attacked


def on_hooks(ground: Ground) -> Iterator[Attacked]:
    """Do to the evidence of hooks with a store what is done to a log of another session."""
    hooks = hook_ground(ground)
    for attack in (flips, cuts, moves, rewritten):
        for attacked in attack(hooks):
            attacked.name = f"evidence of hooks: {attacked.name}"
            yield attacked


ATTACKS = (
    flips,
    cuts,
    moves,
    rewritten,
    heads,
    history,
    void_rules,
    full_disks,
    kills,
    two_writers,
    on_hooks,
    answers,
    altered_stores,
    moving_kills,
)

WITH_PROCESSES = (hook_kills, hooks_at_once)
"""What starts a process for each event, so that no test has the time for it."""


def main(argv: Sequence[str]) -> int:
    """Attack, print a line for each kind, and give 1 if anything was missed."""
    parser = argparse.ArgumentParser(prog="benchmarks evidence-attacks")
    parser.add_argument("--quick", action="store_true", help="a little of each")
    quick = parser.parse_args(argv).quick
    missed = 0
    print("| attack | times | missed |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for place, attack in enumerate((*ATTACKS, *WITH_PROCESSES)):
            own = Path(folder) / str(place)
            own.mkdir()
            for attacked in attack(Ground.make(own, quick=quick)):
                missed += len(attacked.missed)
                print(f"| {attacked.name} | {attacked.tries:,} | {len(attacked.missed):,} |", flush=True)
                for what in attacked.missed[:5]:
                    print(f"missed: {attacked.name}, {what}", file=sys.stderr)
            shutil.rmtree(own)
    return 1 if missed else 0
