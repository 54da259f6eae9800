"""
Writes the vectors: one log per attack, and what verification has to find.

    python tests/evidence/vectors/make_vectors.py

What has to be found is written down here by hand, never taken from what verification says. Vectors that are
there are left as they are: what was written once has to verify with every later version.
"""

import datetime
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import acel.evidence as peer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import Ed25519Signer, EvidenceFile, EvidenceLog
from openbox_agentrt.evidence.canonical import sha256_hex
from openbox_agentrt.evidence.format2.heads import parse_head

HERE = Path(__file__).parent
OURS = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
ATTACKER = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(reversed(range(32)))))

Attack1 = Callable[[list[Any]], list[Any]]
Attack2 = Callable[[Path], None]

OK = {"ok": True, "authenticated": True, "problem": None, "first_bad": None}
PLAIN = {**OK, "authenticated": False}


def bad(problem: str, first_bad: int) -> dict[str, Any]:
    return {"ok": False, "authenticated": False, "problem": problem, "first_bad": first_bad}


def violations() -> Iterator[Violation]:
    for step in (1, 2, 3):
        args = {"id": f"r_{step}", "amount": 12.5, "note": "Grüße 😀", "ids": {10: "ten", 2: "two"}}
        trace: list[dict[str, Any]] = [
            {"step": n, "tool": "list", "args": {}, "result": None} for n in range(1, step)
        ]
        yield Violation(
            "temporal", "must_precede(backup, delete)", "delete", step, trace, {"open": True}, args
        )


def clock() -> Callable[[], datetime.datetime]:
    start = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    ticks = itertools.count()
    return lambda: start + datetime.timedelta(seconds=next(ticks))


# Format 1


def bundles_of(signer: Ed25519Signer | None) -> list[Any]:
    log = EvidenceLog(signer)
    with mock.patch("openbox_agentrt.evidence.format1.bundles.datetime") as module:
        tick = clock()
        module.datetime.now.side_effect = lambda zone: tick()
        for violation in violations():
            log.record(violation)
    loaded: list[Any] = json.loads(log.to_json())
    return loaded


def bundles_of_peer() -> list[Any]:
    log = peer.EvidenceLog(OURS, redact_fields={"note"})
    for step in (1, 2, 3):
        log.record(
            peer.Violation("temporal", "a", "b", step, args={"note": "secret", "n": step, "é": [None, 0.1]})
        )
    loaded: list[Any] = json.loads(log.to_json())
    return loaded


def rehash(bundles: list[Any], *, start: int = 0, signer: Ed25519Signer | None = None) -> list[Any]:
    prev = bundles[start - 1]["bundle_hash"] if start else "0" * 64
    for index in range(start, len(bundles)):
        bundle = bundles[index]
        payload = {"index": index, "timestamp": bundle["timestamp"], "violation": bundle["violation"]}
        trace_hash = peer._sha256_hex(peer._canonical(payload))
        prev_hash, prev = prev, peer._sha256_hex((prev + trace_hash).encode())
        bundle.update(index=index, prev_hash=prev_hash, trace_hash=trace_hash, bundle_hash=prev)
        if signer is not None:
            bundle["signature"] = signer(prev.encode())
    return bundles


def edited(bundles: list[Any], at: int, **fields: Any) -> list[Any]:
    bundles[at].update(fields)
    return bundles


def other_tool(bundles: list[Any]) -> list[Any]:
    bundles[1]["violation"]["tool"] = "list"
    return bundles


FORMAT_1: dict[str, tuple[Attack1, dict[str, Any], dict[str, Any]]] = {
    "genuine": (lambda b: b, OK, PLAIN),
    "genuine-of-acel-core": (lambda b: bundles_of_peer(), OK, PLAIN),
    "genuine-unsigned": (lambda b: bundles_of(None), bad("unsigned", 0), PLAIN),
    "changed": (other_tool, bad("changed", 1), bad("changed", 1)),
    "changed-time": (
        lambda b: edited(b, 1, timestamp="2020-01-01T00:00:00+00:00"),
        bad("changed", 1),
        bad("changed", 1),
    ),
    "changed-bundle-hash": (
        lambda b: edited(b, 1, bundle_hash="0" * 64),
        bad("changed", 1),
        bad("changed", 1),
    ),
    "changed-link": (lambda b: edited(b, 1, prev_hash="0" * 64), bad("unlinked", 1), bad("unlinked", 1)),
    "changed-and-rehashed": (lambda b: rehash(other_tool(b), start=1), bad("wrong_signer", 1), PLAIN),
    "field-added-that-no-hash-covers": (
        lambda b: edited(b, 1, approved_by="the boss"),
        bad("changed", 1),
        bad("changed", 1),
    ),
    "first-missing": (lambda b: b[1:], bad("missing", 0), bad("missing", 0)),
    "middle-missing": (lambda b: [b[0], b[2]], bad("missing", 1), bad("missing", 1)),
    "middle-missing-and-rehashed": (lambda b: rehash([b[0], b[2]], start=1), bad("wrong_signer", 1), PLAIN),
    "reordered": (lambda b: [b[0], b[2], b[1]], bad("reordered", 1), bad("reordered", 1)),
    "repeated": (lambda b: [b[0], b[1], b[1], b[2]], bad("reordered", 2), bad("reordered", 2)),
    "resigned": (lambda b: rehash(b, signer=ATTACKER), bad("wrong_signer", 0), PLAIN),
    "signature-removed": (lambda b: edited(b, 1, signature=None), bad("unsigned", 1), PLAIN),
    "signature-of-another-bundle": (
        lambda b: edited(b, 1, signature=b[0]["signature"]),
        bad("wrong_signer", 1),
        PLAIN,
    ),
    "signature-that-is-no-text": (lambda b: edited(b, 1, signature=[1]), bad("wrong_signer", 1), PLAIN),
    "not-a-bundle": (lambda b: [b[0], "bundle", b[2]], bad("malformed", 1), bad("malformed", 1)),
    "field-missing": (
        lambda b: [b[0], {k: v for k, v in b[1].items() if k != "timestamp"}, b[2]],
        bad("malformed", 1),
        bad("malformed", 1),
    ),
    "index-that-is-true": (lambda b: edited(b, 1, index=True), bad("malformed", 1), bad("malformed", 1)),
    # Not found: format 1 has nothing that vouches for the end of the log.
    "truncated-is-not-found": (lambda b: b[:2], OK, PLAIN),
    "emptied-is-not-found": (lambda b: [], PLAIN, PLAIN),
}


# Format 2


def log_at(path: Path, *, signer: Ed25519Signer | None = OURS, seed: int = 1, **options: Any) -> None:
    options = {"session_id": f"s-{seed}", "rules_hash": "r-1", "seal_interval": 60, **options}
    with (
        mock.patch.object(os, "urandom", lambda size: bytes([seed]) * size),
        EvidenceFile(path, signer=signer, clock=clock(), **options) as log,
    ):
        for violation in violations():
            log.record(violation)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def relink(lines: list[bytes]) -> list[bytes]:
    """The chain made anew over these lines, as anyone can who knows the format."""
    prev = "0" * 64
    linked = []
    for seq, raw in enumerate(lines):
        line = json.loads(raw)
        own = line.pop("hash")
        text = raw.decode().rstrip("\n").replace(f',"hash":"{own}"', "")
        text = text.replace(f'"prev":"{line["prev"]}","seq":{line["seq"]}', f'"prev":"{prev}","seq":{seq}')
        prev = sha256_hex(text.encode())
        linked.append(text.replace(',"prev":"', f',"hash":"{prev}","prev":"', 1).encode() + b"\n")
    return linked


def head_of(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def put_head(path: Path, *, signer: Ed25519Signer | None, **changes: Any) -> None:
    """A head as an attacker makes it: for the log as it is, signed with whatever key there is."""
    lines = lines_of(path)
    fields = json.loads(head_of(path).read_bytes())
    fields |= {"count": len(lines), "hash": json.loads(lines[-1])["hash"], "signature": None, **changes}
    if signer is not None:
        fields["key_id"] = signer.key_id
        fields["signature"] = signer(parse_head(fields).statement())
    head_of(path).write_text(json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n")


def with_lines(change: Callable[[list[bytes]], list[bytes]]) -> Attack2:
    def attack(path: Path) -> None:
        log_at(path)
        path.write_bytes(b"".join(change(lines_of(path))))

    return attack


def edit(line: bytes) -> bytes:
    return line.replace(b'"tool":"delete"', b'"tool":"list"')


def rewritten(path: Path, *, signer: Ed25519Signer | None, head: bool) -> None:
    log_at(path)
    lines = lines_of(path)
    path.write_bytes(b"".join(relink([lines[0], lines[1], edit(lines[2]), lines[3]])))
    if head:
        put_head(path, signer=signer)


def truncated_with_a_new_head(path: Path) -> None:
    log_at(path)
    path.write_bytes(b"".join(lines_of(path)[:2]))
    put_head(path, signer=None)


def set_back(path: Path) -> None:
    options: dict[str, Any] = {"session_id": "s-1", "rules_hash": "r-1", "seal_interval": 0}
    with (
        mock.patch.object(os, "urandom", lambda size: bytes([1]) * size),
        EvidenceFile(path, signer=OURS, clock=clock(), **options) as log,
    ):
        first, second, third = violations()
        log.record(first)
        log.record(second)
        old = {file: file.read_bytes() for file in (path, head_of(path))}
        log.record(third)
    for file, content in old.items():
        file.write_bytes(content)


def forged_line(lines: list[bytes]) -> bytes:
    return relink([*lines, lines[-1]])[-1]


def appended(path: Path, *, state: str) -> None:
    log_at(path)
    put_head(path, signer=OURS, state=state)
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines, forged_line(lines)]))


def with_head_of_another(path: Path) -> None:
    other = path.with_name("other.jsonl")
    log_at(other, seed=2)
    log_at(path)
    head_of(other).replace(head_of(path))
    remove(other)


def with_a_line_of_another(path: Path) -> None:
    other = path.with_name("other.jsonl")
    log_at(other, seed=2)
    log_at(path)
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines[:2], lines_of(other)[2], lines[3]]))
    remove(other)


def edited_head(path: Path) -> None:
    log_at(path)
    path.write_bytes(b"".join(lines_of(path)[:3]))
    fields = json.loads(head_of(path).read_bytes())
    fields |= {"count": 3, "hash": json.loads(lines_of(path)[-1])["hash"]}
    head_of(path).write_text(json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n")


def without_head(path: Path) -> None:
    log_at(path)
    head_of(path).unlink()


def in_parts(path: Path) -> None:
    log_at(path, max_bytes=1_000)


def part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.{number:06d}.jsonl")


def without_part(number: int) -> Attack2:
    def attack(path: Path) -> None:
        in_parts(path)
        remove(part(path, number))

    return attack


def without_the_last_part(path: Path) -> None:
    in_parts(path)
    last = max(path.parent.glob(f"{path.stem}.0*.jsonl"))
    shutil.move(last, path)
    shutil.move(head_of(last), head_of(path))


def part_without_its_line_end(path: Path) -> None:
    in_parts(path)
    part(path, 1).write_bytes(part(path, 1).read_bytes()[:-1])


def part_of_another_log(path: Path) -> None:
    in_parts(path)
    other = path.with_name("other.jsonl")
    log_at(other, seed=2, max_bytes=1_000)
    part(other, 1).replace(part(path, 1))
    for file in path.parent.glob("other.*"):
        file.unlink()


def crashed_and_continued(path: Path) -> None:
    log_at(path)
    put_head(path, signer=OURS, state="open", count=2, hash=json.loads(lines_of(path)[1])["hash"])
    with EvidenceFile(path, signer=OURS, session_id="s-1", rules_hash="r-1", clock=clock()):
        pass


def remove(path: Path) -> None:
    for file in (path, head_of(path), path.with_name(path.name + ".lock")):
        file.unlink(missing_ok=True)


OTHER_SESSION = {"session_id": "s-2"}
OTHER_RULES = {"rules_hash": "r-2"}

FORMAT_2: dict[str, tuple[Attack2, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "genuine": (log_at, OK, PLAIN, {"session_id": "s-1", "rules_hash": "r-1"}),
    "genuine-unsigned": (lambda p: log_at(p, signer=None), bad("unsigned", 0), PLAIN, {}),
    "genuine-in-parts": (in_parts, OK, PLAIN, {}),
    "genuine-but-last-line-torn": (with_lines(lambda ls: [*ls, b'{"body":{"ki']), OK, PLAIN, {}),
    "changed": (
        with_lines(lambda ls: [*ls[:2], edit(ls[2]), ls[3]]),
        bad("changed", 2),
        bad("changed", 2),
        {},
    ),
    "changed-header": (
        with_lines(lambda ls: [ls[0].replace(b'"rules_hash":"r-1"', b'"rules_hash":"r-2"'), *ls[1:]]),
        bad("changed", 0),
        bad("changed", 0),
        {},
    ),
    "changed-session": (
        with_lines(lambda ls: [*ls[:3], ls[3].replace(b'"session":"s-1"', b'"session":"s-2"')]),
        bad("changed", 3),
        bad("changed", 3),
        {},
    ),
    "changed-and-rehashed": (
        with_lines(lambda ls: [*ls[:2], relink([*ls[:2], edit(ls[2])])[2], ls[3]]),
        bad("unlinked", 3),
        bad("unlinked", 3),
        {},
    ),
    "changed-and-all-rehashed": (
        lambda p: rewritten(p, signer=None, head=False),
        bad("rewritten", 3),
        bad("rewritten", 3),
        {},
    ),
    "changed-and-all-rehashed-with-a-new-head": (
        lambda p: rewritten(p, signer=None, head=True),
        bad("unsigned", 0),
        PLAIN,
        {},
    ),
    "resigned": (lambda p: rewritten(p, signer=ATTACKER, head=True), bad("wrong_signer", 0), PLAIN, {}),
    "missing": (with_lines(lambda ls: [*ls[:2], ls[3]]), bad("missing", 2), bad("missing", 2), {}),
    "missing-and-all-rehashed": (
        with_lines(lambda ls: relink([*ls[:2], ls[3]])),
        bad("truncated", 3),
        bad("truncated", 3),
        {},
    ),
    "reordered": (
        with_lines(lambda ls: [*ls[:2], ls[3], ls[2]]),
        bad("reordered", 2),
        bad("reordered", 2),
        {},
    ),
    "missing-and-the-rest-spoiled": (
        with_lines(lambda ls: [*ls[:2], ls[3], b"spoiled\n"]),
        bad("missing", 2),
        bad("missing", 2),
        {},
    ),
    "repeated": (
        with_lines(lambda ls: [*ls[:3], ls[2], ls[3]]),
        bad("reordered", 3),
        bad("reordered", 3),
        {},
    ),
    "truncated": (with_lines(lambda ls: ls[:3]), bad("truncated", 3), bad("truncated", 3), {}),
    "truncated-in-the-middle-of-a-line": (
        with_lines(lambda ls: [*ls[:3], ls[3][:40]]),
        bad("truncated", 3),
        bad("truncated", 3),
        {},
    ),
    "truncated-by-its-line-end": (
        with_lines(lambda ls: [*ls[:3], ls[3][:-1]]),
        bad("truncated", 3),
        bad("truncated", 3),
        {},
    ),
    "truncated-to-its-header": (with_lines(lambda ls: ls[:1]), bad("truncated", 1), bad("truncated", 1), {}),
    "truncated-with-a-new-head": (truncated_with_a_new_head, bad("unsigned", 0), PLAIN, {}),
    "truncated-with-an-edited-head": (edited_head, bad("wrong_signer", 0), PLAIN, {}),
    "emptied": (with_lines(lambda ls: []), bad("emptied", 0), bad("emptied", 0), {}),
    "header-missing": (with_lines(lambda ls: ls[1:]), bad("malformed", 0), bad("malformed", 0), {}),
    "head-missing": (without_head, bad("headless", 4), bad("headless", 4), {}),
    "appended-after-the-end": (
        lambda p: appended(p, state="closed"),
        bad("appended", 4),
        bad("appended", 4),
        {},
    ),
    "appended-to-an-open-log-is-not-authenticated": (lambda p: appended(p, state="open"), PLAIN, PLAIN, {}),
    "found-after-a-crash-is-not-authenticated": (crashed_and_continued, PLAIN, PLAIN, {}),
    "foreign-session": (log_at, bad("foreign", 0), bad("foreign", 0), OTHER_SESSION),
    "foreign-rules": (log_at, bad("foreign", 0), bad("foreign", 0), OTHER_RULES),
    "foreign-head": (with_head_of_another, bad("foreign", 0), bad("foreign", 0), {}),
    "foreign-line": (with_a_line_of_another, bad("unlinked", 2), bad("unlinked", 2), {}),
    "foreign-part": (part_of_another_log, bad("foreign", 2), bad("foreign", 2), {}),
    "part-cut-by-its-line-end": (part_without_its_line_end, bad("malformed", 1), bad("malformed", 1), {}),
    "first-part-missing": (without_part(1), bad("missing", 0), bad("missing", 0), {}),
    "middle-part-missing": (without_part(2), bad("missing", 0), bad("missing", 0), {}),
    "last-part-missing": (without_the_last_part, bad("truncated", 4), bad("truncated", 4), {}),
    "earlier-parts-put-away": (without_part(1), OK, PLAIN, {"partial": True}),
    "line-inserted-that-is-none": (
        with_lines(lambda ls: [*ls[:2], b"\n", *ls[2:]]),
        bad("malformed", 2),
        bad("malformed", 2),
        {},
    ),
    "member-twice": (
        with_lines(lambda ls: [*ls[:2], ls[2].replace(b'{"body"', b'{"body":{},"body"', 1), ls[3]]),
        bad("malformed", 2),
        bad("malformed", 2),
        {},
    ),
    # Not found: the log and its head were set back together. A head that was kept elsewhere finds it.
    "set-back-with-its-head-is-not-found": (set_back, OK, PLAIN, {}),
}


def main() -> None:
    for name, (attack1, with_key, without_key) in FORMAT_1.items():
        path = HERE / "format1" / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(attack1(bundles_of(OURS)), indent=1) + "\n")
            expect(path, with_key, without_key, {})
    for name, (attack2, with_key, without_key, options) in FORMAT_2.items():
        path = HERE / "format2" / f"{name}.jsonl"
        if not path.with_suffix(".expected.json").exists():
            attack2(path)
            expect(path, with_key, without_key, options)
    for lock in HERE.rglob("*.lock"):
        lock.unlink()


def expect(path: Path, with_key: Any, without_key: Any, options: Any) -> None:
    expected = {"with_key": with_key, "without_key": without_key, "options": options}
    path.with_suffix(".expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
