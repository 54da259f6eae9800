"""
A key that takes over: the old one signs the new one, in a line of the log itself.

Whoever trusts the old key finds the new one there. The signature is of the log and the number of the line, so
that it says nothing anywhere else.
"""

from collections.abc import Mapping
from typing import Any

from ..canonical import canonical
from ..keys import Ed25519Signer, Verifier

_DOMAIN = b"openbox-agentrt evidence key, format 2\n"


def handover(log_id: str, number: int, old: Ed25519Signer, new: Ed25519Signer) -> dict[str, Any]:
    """
    Make the body of the line with which a key hands a log over to the next.

    Args:
        log_id: The log.
        number: Number that the line will have.
        old: The key that the log was signed with before.
        new: The key that it is signed with from there on.
    """
    said = {"key_id": new.key_id, "previous": old.key_id, "public_key": new.public_key_hex}
    return {**said, "signature": old(_statement(log_id, number, said))}


def successor(log_id: str, number: int, body: Mapping[str, Any], key_id: str, verify: Verifier) -> str | None:
    """
    Give the public key that a key hands over to, in hexadecimal; None if the line is of another key.

    Args:
        log_id: The log.
        number: Number of the line.
        body: What the line says.
        key_id: The key that was in force before.
        verify: Check of its signatures.

    Raises:
        ValueError: If the line says that it is of this key, and is not signed with it.
    """
    if body.get("previous") != key_id:
        return None
    said = {name: body.get(name) for name in ("key_id", "previous", "public_key")}
    signature = body.get("signature")
    if not isinstance(signature, str) or not verify(_statement(log_id, number, said), signature):
        raise ValueError("is not signed with the key before it")
    return str(said["public_key"])


def _statement(log_id: str, number: int, said: Mapping[str, Any]) -> bytes:
    return _DOMAIN + canonical({**said, "log_id": log_id, "seq": number})
