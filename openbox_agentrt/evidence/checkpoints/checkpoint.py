"""
Checkpoints: what a log was at some size, in one small signed note (C2SP's tlog-checkpoint).

    openbox-agentrt/evidence/LOG-ID
    SIZE
    BASE64(ROOT)

The root is that of the tree over the lines of the log, all parts, each without its end. Whoever kept a
checkpoint finds a log that was set back together with its head; whoever has one can check a line without
the log.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import UnreadableLogError
from ..format2.parts import header_of, iterate_lines, parts_of
from ..keys import Ed25519Signer
from .merkle import MerkleRange, leaf_hash
from .signed_notes import SIGNATURE, Note, NoteKey, parse_note, sign

ORIGIN: Final = "openbox-agentrt/evidence/"
"""What the name of a log begins with, before its identity."""

_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """
    State what a log was at some size.

    Attributes:
        origin: Which log.
        size: How many lines it had.
        root: Root of the tree over them.
        note: The note that says so, with its signatures.
    """

    origin: str
    size: int
    root: bytes
    note: Note

    def key(self, public_key_hex: str) -> NoteKey:
        """Give the key of the log's signer in the form that notes have."""
        return NoteKey(name=self.origin, kind=SIGNATURE, public_key_hex=public_key_hex)


def checkpoint_path(log: Path) -> Path:
    """Give the file that holds the latest checkpoint of a log."""
    return log.with_name(log.name + ".checkpoint")


def origin_of(log_id: str) -> str:
    """Give the name of a log in its checkpoints."""
    return f"{ORIGIN}{log_id}"


def leaves_of(log: Path) -> Iterator[bytes]:
    """
    Give the hashes of the lines of a log, all parts. The lines are not verified.

    Raises:
        UnreadableLogError: If the file cannot be read, is no log of format 2, or its first part is missing.
    """
    try:
        files = parts_of(log)
        header = header_of(files[0])
        if header is None:
            raise UnreadableLogError("not an evidence log of format 2", path=str(log))
        if header.get("part") != 1:
            raise UnreadableLogError("the first parts of the log are missing", path=str(log))
        for file in files:
            for line in iterate_lines(file, skip_torn=file == log):
                yield leaf_hash(line.removesuffix(b"\n"))
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UnreadableLogError(f"could not read file ({reason})", path=str(log)) from error


def make_checkpoint(log: Path, signer: Ed25519Signer) -> Checkpoint:
    """
    Make a checkpoint of a log as it stands. The log is not verified.

    Raises:
        UnreadableLogError: See `leaves_of`.
    """
    tree = MerkleRange(leaves_of(log))
    return signed_checkpoint(_origin_in(log), tree.size, tree.root(), signer)


def signed_checkpoint(origin: str, size: int, root: bytes, signer: Ed25519Signer) -> Checkpoint:
    """Sign that a log has `size` lines and this root over them."""
    text = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
    return Checkpoint(origin=origin, size=size, root=root, note=sign(text, origin, signer))


def parse_checkpoint(data: bytes) -> Checkpoint:
    """
    Read a checkpoint from its note. Its signatures are not checked.

    Raises:
        ValueError: If it is none.
    """
    note = parse_note(data)
    lines = note.text.split("\n")
    if len(lines) < 4 or not lines[0] or not _SIZE.fullmatch(lines[1]):
        raise ValueError("not a checkpoint")
    try:
        root = base64.b64decode(lines[2], validate=True)
    except binascii.Error as error:
        raise ValueError("not a checkpoint") from error
    if len(root) != 32:
        raise ValueError("not a checkpoint")
    return Checkpoint(origin=lines[0], size=int(lines[1]), root=root, note=note)


def missing_signatures(
    checkpoint: Checkpoint, keys: Sequence[str], witnesses: Sequence[NoteKey]
) -> list[str]:
    """Say which signatures a checkpoint lacks: of one of the keys, if any are given, and of witnesses."""
    wrong = []
    if keys and all(checkpoint.key(key).signed_at(checkpoint.note) is None for key in keys):
        wrong.append("the checkpoint is not signed with this key")
    return wrong + [
        f"witness {witness.name!r} has not seen the checkpoint"
        for witness in witnesses
        if witness.signed_at(checkpoint.note) is None
    ]


def check_checkpoint(
    log: Path,
    checkpoint: Checkpoint,
    *,
    public_key: str | None = None,
    handed_over: Sequence[str] = (),
    witnesses: Sequence[NoteKey] = (),
) -> list[str]:
    """
    Check that a log still begins as a checkpoint says.

    Args:
        log: The log, which was verified.
        checkpoint: The checkpoint, kept elsewhere.
        public_key: Key that it has to be signed with, in hexadecimal; None to take it at its word.
        handed_over: Keys that may have signed it instead, see `Report.handed_over`.
        witnesses: Keys of witnesses, each of which has to have seen it.

    Returns:
        What is wrong, one line each; nothing if all is right.

    Raises:
        UnreadableLogError: See `leaves_of`.
    """
    wrong = missing_signatures(
        checkpoint, () if public_key is None else (public_key, *handed_over), witnesses
    )
    own = _origin_in(log)
    if checkpoint.origin != own:
        return [*wrong, f"the checkpoint is of {checkpoint.origin!r}, this is {own!r}"]
    tree = MerkleRange()
    for leaf in leaves_of(log):
        if tree.size == checkpoint.size:
            break
        tree.append(leaf)
    if tree.size < checkpoint.size:
        return [*wrong, f"the log has {tree.size} lines, and had {checkpoint.size} at the checkpoint"]
    if tree.root() != checkpoint.root:
        wrong.append(f"the first {checkpoint.size} lines are not those of the checkpoint")
    return wrong


def _origin_in(log: Path) -> str:
    return origin_of(str((header_of(parts_of(log)[0]) or {}).get("log_id")))
