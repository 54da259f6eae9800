"""
Signed notes: plain text with signatures below it, in the format of C2SP's signed-note.

    TEXT, ending in a line feed

    — NAME BASE64(ID || SIGNATURE)

Two kinds of signatures are known: of whoever wrote the text (Ed25519), and of a witness that saw it at a time
(C2SP's tlog-cosignature). Signatures of unknown keys are passed over.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..errors import InvalidKeyError
from ..keys import Ed25519Signer, ed25519_verifier

SIGNATURE: Final = 1
COSIGNATURE: Final = 4
_LINE: Final = re.compile(r"— ([^ +\n]+) ([A-Za-z0-9+/]+={0,2})")
_MAX_NOTE: Final = 1 << 20
_TIME_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSignature:
    """Hold a signature line, with the name and the id of a key and what it gave."""

    name: str
    key_id: bytes
    data: bytes

    @property
    def key(self) -> tuple[str, bytes]:
        """Name the key by which it was made."""
        return self.name, self.key_id

    def line(self) -> str:
        """Write the line, with its end."""
        return f"— {self.name} {base64.b64encode(self.key_id + self.data).decode()}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A text, with its last line feed, and the signatures below it."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def write(self) -> str:
        """Write the note as it stands in a file."""
        return f"{self.text}\n{''.join(signature.line() for signature in self.signatures)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteKey:
    """
    A public key of a note, as its text form ``NAME+ID+BASE64`` has it.

    Attributes:
        name: Name of the key.
        kind: `SIGNATURE` or `COSIGNATURE`.
        public_key_hex: The Ed25519 public key.
    """

    name: str
    kind: int
    public_key_hex: str

    @classmethod
    def read(cls, text: str) -> "NoteKey":
        """
        Read the text form.

        Raises:
            InvalidKeyError: If it is none, or its id is not that of the key.
        """
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        try:
            data = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            data = b""
        if not name or " " in name or len(data) != 33 or data[0] not in (SIGNATURE, COSIGNATURE):
            raise InvalidKeyError(
                f"not the key of a note: {text[:80]!r}", remedy="give it as NAME+ID+BASE64, in one word"
            )
        key = cls(name=name, kind=data[0], public_key_hex=data[1:].hex())
        if key.key_id.hex() != key_id:
            raise InvalidKeyError(f"id of the key does not fit: {text[:80]!r}")
        return key

    @property
    def key_id(self) -> bytes:
        """The four bytes by which signature lines name the key."""
        return hashlib.sha256(f"{self.name}\n".encode() + self._typed()).digest()[:4]

    def write(self) -> str:
        """Write the text form."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(self._typed()).decode()}"

    def signed_at(self, note: Note) -> int | None:
        """
        Check the signature of this key on a note.

        Returns:
            When it was cosigned, in seconds since the epoch; 0 for a signature, which has no time; None if
            no signature of this key is right.
        """
        verify = ed25519_verifier(self.public_key_hex)
        for signature in note.signatures:
            if signature.key != (self.name, self.key_id):
                continue
            if self.kind == SIGNATURE and verify(note.text.encode(), signature.data.hex()):
                return 0
            at = int.from_bytes(signature.data[:_TIME_BYTES], "big")
            if self.kind == COSIGNATURE and verify(
                _cosigned(note.text, at), signature.data[_TIME_BYTES:].hex()
            ):
                return at
        return None

    def _typed(self) -> bytes:
        return bytes([self.kind]) + bytes.fromhex(self.public_key_hex)


def sign(text: str, name: str, signer: Ed25519Signer) -> Note:
    """Sign a text as whoever wrote it."""
    key = NoteKey(name=name, kind=SIGNATURE, public_key_hex=signer.public_key_hex)
    data = bytes.fromhex(signer(text.encode()))
    return Note(text=text, signatures=(NoteSignature(name=name, key_id=key.key_id, data=data),))


def cosign(note: Note, name: str, signer: Ed25519Signer, now: Callable[[], float]) -> NoteSignature:
    """Sign a note as a witness that saw it now."""
    key = NoteKey(name=name, kind=COSIGNATURE, public_key_hex=signer.public_key_hex)
    at = int(now())
    data = at.to_bytes(_TIME_BYTES, "big") + bytes.fromhex(signer(_cosigned(note.text, at)))
    return NoteSignature(name=name, key_id=key.key_id, data=data)


def parse_note(data: bytes) -> Note:
    """
    Read a note from its bytes. Its signatures are not checked.

    Raises:
        ValueError: If it is none.
    """
    if len(data) > _MAX_NOTE:
        raise ValueError("not a signed note: too long")
    text, blank, below = data.decode().rpartition("\n\n")
    lines = below.split("\n")
    if not blank or lines.pop() != "":
        raise ValueError("not a signed note: no signatures below a blank line")
    signatures = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError("not a signed note: a signature line is none")
        # binascii.Error is a ValueError.
        signed = base64.b64decode(match[2], validate=True)
        signatures.append(NoteSignature(name=match[1], key_id=signed[:4], data=signed[4:]))
    if not signatures:
        raise ValueError("not a signed note: no signatures")
    return Note(text=text + "\n", signatures=tuple(signatures))


def _cosigned(text: str, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{text}".encode()
