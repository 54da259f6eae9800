"""
The proof of one line: that a log has it at a checkpoint, for somebody who has not the log.

Where a key took over from another, the lines that say so are in the proof too, so that whoever trusts the old
key can check what was signed with the new one.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..format2.parsing import LogLine, parse_line
from ..format2.parts import iterate_lines, parts_of
from ..format2.succession import successor
from ..keys import ed25519_verifier, key_id_of
from .checkpoint import ORIGIN, Checkpoint, leaves_of, missing_signatures, parse_checkpoint
from .merkle import inclusion_proof, leaf_hash, verify_inclusion
from .signed_notes import NoteKey

_MARK = b'"type":"key"'


def prove_line(log: Path, number: int, checkpoint: Checkpoint) -> dict[str, Any]:
    """
    Prove that a line stands in a log, for somebody who has a key of the log and not the log.

    Raises:
        UnreadableLogError: See `leaves_of`.
        IndexError: There is no such line at the checkpoint.
    """
    leaves = list(leaves_of(log))[: checkpoint.size]
    # Before the file is read again: there may be no such line.
    proof = inclusion_proof(leaves, number)
    line, keys = b"", []
    lines = (data for file in parts_of(log) for data in iterate_lines(file, skip_torn=file == log))
    for at, data in enumerate(lines):
        if at == checkpoint.size:
            break
        line = data if at == number else line
        if _MARK in data and parse_line(data).type == "key":
            keys.append({"line": _text(data), "number": at, "proof": _written(inclusion_proof(leaves, at))})
    told = {"line": _text(line), "number": number, "proof": _written(proof)}
    return {**told, "checkpoint": checkpoint.note.write(), **({"keys": keys} if keys else {})}


def check_proof(
    proof: dict[str, Any], public_key: str, witnesses: Sequence[NoteKey] = ()
) -> tuple[list[str], dict[str, Any] | None]:
    """
    Check a line without its log.

    Args:
        proof: What `prove_line` gave.
        public_key: Key of the log, in hexadecimal, or one that handed the log over to its key.
        witnesses: Keys of witnesses, each of which has to have seen the checkpoint.

    Returns:
        What is wrong, one line each, and what the line says if nothing is.
    """
    try:
        checkpoint = parse_checkpoint(proof["checkpoint"].encode())
        said, is_there = _line_in(proof, checkpoint)
        keys = [public_key, *_handed_over(proof.get("keys", ()), checkpoint, public_key)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return ["not the proof of a line"], None
    wrong = missing_signatures(checkpoint, keys, witnesses)
    if not is_there:
        wrong.append(f"the line is not number {proof['number']} of the checkpoint's log")
    return wrong, None if wrong else said.data()


def _handed_over(lines: Sequence[dict[str, Any]], checkpoint: Checkpoint, public_key: str) -> list[str]:
    """Follow a key to those that it handed the log over to, one after the other."""
    log_id, found = checkpoint.origin.removeprefix(ORIGIN), [public_key]
    for each in lines:
        line, is_there = _line_in(each, checkpoint)
        key = found[-1]
        if not is_there or line.type != "key":
            raise ValueError("not a line of a key")
        body, verify = line.data(), ed25519_verifier(key)
        next_key = successor(log_id, line.seq, body, key_id_of(key), verify)
        found += [] if next_key is None else [next_key]
    return found[1:]


def _line_in(proof: dict[str, Any], checkpoint: Checkpoint) -> tuple[LogLine, bool]:
    """Read the line of a proof, and tell whether the log has it there at the checkpoint."""
    line, number = proof["line"].encode(), int(proof["number"])
    hashes = [base64.b64decode(each, validate=True) for each in proof["proof"]]
    said = parse_line(line + b"\n")
    is_there = verify_inclusion(leaf_hash(line), number, checkpoint.size, hashes, checkpoint.root)
    return said, is_there and said.seq == number


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").decode()


def _written(hashes: Sequence[bytes]) -> list[str]:
    return [base64.b64encode(each).decode() for each in hashes]
