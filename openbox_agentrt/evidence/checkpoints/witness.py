"""
A witness: it remembers how large each log was and what was in it, and signs only what goes on from there.

A log that is set back together with its head, or shown to two people as two logs, gets no second signature.
The protocol is C2SP's tlog-witness; by file it is the same text.
"""

import base64
import binascii
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..._files.lock import FileLock
from ..._files.whole_write import write_private
from ..._plain.strict_json import JsonError, read_json
from ..errors import UnreadableLogError
from ..keys import Ed25519Signer
from .checkpoint import Checkpoint, parse_checkpoint
from .merkle import EMPTY_ROOT, verify_consistency
from .signed_notes import COSIGNATURE, NoteKey, cosign

_MAX_PROOF: Final = 64
_OLD: Final = re.compile(rb"old (0|[1-9][0-9]{0,17})\n((?:[A-Za-z0-9+/=]+\n)*)\n(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessAnswer:
    """
    Hold the answer of a witness.

    Attributes:
        status: The HTTP status: 200 with a cosignature; 400 for what is no request, 403 for a signature that
            is not the log's, 404 for a log that it does not know, 409 with the size that it knows, 422 for a
            log that does not go on from there.
        body: Text for whoever asked.
    """

    status: int
    body: str


class Witness:
    """
    Cosign checkpoints of known logs.

    Args:
        state: Folder in which it remembers. One witness has it at a time.
        signer: Its key.
        name: Its name in cosignatures.
        logs: Keys of the logs that it knows.
        now: Seconds since the epoch.

    Raises:
        FileLockedError: If another witness has the folder.
        OSError: If the folder cannot be used.
        ValueError: If it remembers something that cannot be read.
    """

    def __init__(
        self,
        state: Path,
        signer: Ed25519Signer,
        name: str,
        logs: Iterable[NoteKey],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        state.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(state / "lock")
        self._state = state
        self._signer = signer
        self._logs = {key.name: key for key in logs}
        self._now = now
        self.key = NoteKey(name=name, kind=COSIGNATURE, public_key_hex=signer.public_key_hex)

    def add_checkpoint(self, request: bytes) -> WitnessAnswer:
        """Answer a request to cosign. What is cosigned is on the disk before it is."""
        match = _OLD.fullmatch(request)
        try:
            if match is None:
                raise ValueError("not a request")
            old_size = int(match[1])
            proof = [base64.b64decode(line, validate=True) for line in match[2].split()]
            checkpoint = parse_checkpoint(match[3])
        except (ValueError, binascii.Error) as error:
            return WitnessAnswer(status=400, body=f"{error}\n")
        key = self._logs.get(checkpoint.origin)
        if key is None:
            return WitnessAnswer(status=404, body="the log is not known here\n")
        if key.signed_at(checkpoint.note) is None:
            return WitnessAnswer(status=403, body="the checkpoint is not signed with the key of the log\n")
        if old_size > checkpoint.size or len(proof) > _MAX_PROOF:
            return WitnessAnswer(status=400, body="the old size is larger than the new one\n")
        return self._consider(checkpoint, old_size, proof)

    def close(self) -> None:
        """Let the next one have the folder."""
        self._lock.release()

    def _consider(self, checkpoint: Checkpoint, old_size: int, proof: list[bytes]) -> WitnessAnswer:
        size, root = self._remembered(checkpoint.origin)
        if old_size != size or (checkpoint.size == size and checkpoint.root != root):
            return WitnessAnswer(status=409, body=f"{size}\n")
        if not verify_consistency(size, root, checkpoint.size, checkpoint.root, proof):
            return WitnessAnswer(status=422, body="the log does not go on from what was seen here\n")
        remembered = {
            "origin": checkpoint.origin,
            "size": checkpoint.size,
            "root": base64.b64encode(checkpoint.root).decode(),
        }
        write_private(self._file(checkpoint.origin), json.dumps(remembered).encode(), sync=True)
        return WitnessAnswer(
            status=200, body=cosign(checkpoint.note, self.key.name, self._signer, self._now).line()
        )

    def _remembered(self, origin: str) -> tuple[int, bytes]:
        file = self._file(origin)
        if not file.exists():
            return 0, EMPTY_ROOT
        try:
            known = read_json(file.read_bytes())
            if known["origin"] != origin:
                raise ValueError("of another log")
            return int(known["size"]), base64.b64decode(known["root"], validate=True)
        except (JsonError, KeyError, TypeError, ValueError) as error:
            # Fail closed: a witness that forgot would sign a second history.
            raise UnreadableLogError("what the witness remembers cannot be read", path=str(file)) from error

    def _file(self, origin: str) -> Path:
        return self._state / f"{hashlib.sha256(origin.encode()).hexdigest()}.json"


def write_request(checkpoint: Checkpoint, old_size: int, proof: Iterable[bytes]) -> str:
    """Write the text with which a witness is asked for its signature."""
    lines = "".join(f"{base64.b64encode(each).decode()}\n" for each in proof)
    return f"old {old_size}\n{lines}\n{checkpoint.note.write()}"
