"""The key of redaction markers and digests: given, or derived from whoever signs the log."""

import hashlib
import os

from .keys import Ed25519Signer, Signer, read_redaction_key

__all__ = ("marker_key_of",)

_MARKER_KEY = b"openbox-agentrt evidence, key of redaction markers\n"


def marker_key_of(given: str | os.PathLike[str] | bytes | None, signer: Signer | None) -> bytes | None:
    """
    Give the key that markers in a log are made with; None if there is none to be had.

    Args:
        given: The key, or the file that holds it.
        signer: The signer of the log.
    """
    if given is not None:
        return read_redaction_key(given)
    if not isinstance(signer, Ed25519Signer):
        return None
    # Ed25519 gives one signature for one text, which only the holder of the key can make.
    return hashlib.sha256(bytes.fromhex(signer(_MARKER_KEY))).digest()
