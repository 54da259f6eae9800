"""
The head of a log: how many lines it has, and the hash of the last.

A chain shows that nothing inside it was changed, and not that it is complete: lines cut from its end leave no
trace. The head does. It stands in a file of its own beside the log, is replaced whenever lines were
added, and is signed if the log has a signer. The signature of the head covers every line, because each
hash covers all before.

Heads are deliberately not kept inside the log: any earlier one would vouch for a log that was cut there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from ..._files.whole_write import write_private
from ..._values import dataclass
from ..canonical import canonical, decoded

HeadState: TypeAlias = Literal["open", "closed", "rotated"]

_DOMAIN = b"openbox-agentrt evidence head, format 2\n"
_DIGITS: Final = frozenset("0123456789abcdef")
_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """
    State how many lines a log had at some moment, and the hash of the last.

    Attributes:
        log_id: Identity of the log.
        part: Which file of the log is the last, from 1.
        count: How many lines there are, over all parts.
        hash: Hash of the last of them.
        state: "open"; "closed" if the writer closed the log; "rotated" if another part follows.
        key_id: Short name of the signing key, or None.
        signature: Signature in hexadecimal, or None.
    """

    log_id: str
    part: int
    count: int
    hash: str
    state: HeadState
    key_id: str | None = None
    signature: str | None = None

    def statement(self) -> bytes:
        """The bytes that are signed."""
        fields = self.to_dict()
        del fields["signature"]
        return _DOMAIN + canonical(fields)

    def signed(self, signature: str) -> Head:
        """Give the same head with a signature."""
        return Head(
            log_id=self.log_id,
            part=self.part,
            count=self.count,
            hash=self.hash,
            state=self.state,
            key_id=self.key_id,
            signature=signature,
        )

    def to_dict(self) -> dict[str, Any]:
        """The head as it is written."""
        return {
            "log_id": self.log_id,
            "part": self.part,
            "count": self.count,
            "hash": self.hash,
            "state": self.state,
            "key_id": self.key_id,
            "signature": self.signature,
            "format": 2,
        }


def head_path(log: str | os.PathLike[str]) -> str:
    """Give the file that holds the head of a log."""
    return f"{os.fspath(log)}.head"


def parse_head(data: bytes | Mapping[str, Any]) -> Head:
    """
    Read a head from its bytes or its fields.

    Raises:
        ValueError: If it is none.
    """
    fields = decoded(data) if isinstance(data, bytes) else data
    match fields:
        case {
            "format": 2,
            "log_id": str() as log_id,
            "part": int() as part,
            "count": int() as count,
            "hash": str() as digest,
            "state": "open" | "closed" | "rotated" as state,
            "key_id": str() | None as key_id,
            "signature": str() | None as signature,
        } if len(fields) == 8 and part > 0 and count > 0 and len(digest) == 64 and _DIGITS.issuperset(digest):
            return Head(
                log_id=log_id,
                part=part,
                count=count,
                hash=digest,
                state=state,
                key_id=key_id,
                signature=signature,
            )
    raise ValueError("not the head of an evidence log")


def read_head(log: str | os.PathLike[str]) -> Head | None:
    """
    The head of a log, or None if it has none.

    Raises:
        OSError: If it cannot be read.
        ValueError: If the file holds something else.
    """
    try:
        with open(head_path(log), "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    return parse_head(data)


def write_head(log: str | os.PathLike[str], head: Head, *, durable: bool) -> None:
    """
    Replace the head of a log in one step.

    Raises:
        OSError: If that fails. The old head is still there then.
    """
    write_private(head_path(log), canonical(head.to_dict()) + b"\n", sync=durable)
