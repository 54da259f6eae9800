"""Ask a witness for its signature under a checkpoint, over HTTP."""

import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Final

from ..._loopback import opener_for
from ..errors import EvidenceError
from .checkpoint import Checkpoint, parse_checkpoint
from .merkle import consistency_proof
from .signed_notes import Note, parse_note
from .witness import write_request

_TIMEOUT_SECONDS: Final = 5.0


class WitnessRefusedError(EvidenceError):
    """A witness did not sign a checkpoint: for it, the log does not go on from what it has seen."""


def ask_witness(
    url: str, checkpoint: Checkpoint, leaves: Sequence[bytes], *, seconds: float = _TIMEOUT_SECONDS
) -> Checkpoint:
    """
    Ask a witness, and give the checkpoint with its signature.

    Args:
        url: Address of the witness. One on this machine is asked through no proxy.
        checkpoint: The checkpoint.
        leaves: Hashes of the lines that it is over.
        seconds: How long to wait for each answer.

    Raises:
        WitnessRefusedError: It refused, or gave no signature.
        OSError: It does not answer.
        ValueError: The address is none of HTTP.
    """
    status, body = _post(url, write_request(checkpoint, 0, []), seconds)
    if status == 409 and body.strip().isdecimal() and int(body) <= checkpoint.size:
        old = int(body)
        status, body = _post(url, write_request(checkpoint, old, consistency_proof(leaves, old)), seconds)
    if status != 200:
        raise WitnessRefusedError(f"the witness refused ({status}): {body.strip()}")
    return cosigned_checkpoint(checkpoint, body)


def cosigned_checkpoint(checkpoint: Checkpoint, line: str) -> Checkpoint:
    """
    Add the signature line that a witness gave to a checkpoint, in the place of an earlier one of its key.

    Raises:
        WitnessRefusedError: It is no signature line, or more than that.
    """
    try:
        read = parse_note(f"{checkpoint.note.text}\n{line}".encode())
    except ValueError as error:
        raise WitnessRefusedError("the witness gave no signature line") from error
    if read.text != checkpoint.note.text:
        raise WitnessRefusedError("the witness gave more than a signature line")
    # The first is the log's own, which no witness replaces.
    own, *others = checkpoint.note.signatures
    new = {each.key: each for each in read.signatures if each != own}
    known = [each for each in others if each.key not in new]
    note = Note(text=checkpoint.note.text, signatures=(own, *known, *new.values()))
    return parse_checkpoint(note.write().encode())


def _post(url: str, body: str, seconds: float) -> tuple[int, str]:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"a witness has an address with http, not {url!r}")
    address = f"{url.rstrip('/')}/add-checkpoint"
    asked = urllib.request.Request(address, data=body.encode(), method="POST")
    try:
        with opener_for(url).open(asked, timeout=seconds) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")
