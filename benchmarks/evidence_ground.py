"""What is attacked, and the count of what came of it; see `evidence_attacks`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openbox_agentrt.acel import Session, at_most_total, must_precede
from openbox_agentrt.evidence import EvidenceFile, UnreadableLogError, ed25519_signer, verify_file
from openbox_agentrt.evidence.keys import Ed25519Signer

__all__ = ("Attacked", "Ground", "head_of", "write_some")


@dataclass(slots=True)
class Attacked:
    """
    Count what one kind of attack came to.

    Attributes:
        name: The attack.
        tries: How often it was made.
        missed: Those that were not found, or that broke something, in words.
    """

    name: str
    tries: int = 0
    missed: list[str] = field(default_factory=list)

    def note(self, held: bool, what: str) -> None:
        """Count one, and what it was if it was missed."""
        self.tries += 1
        if not held:
            self.missed.append(what)


@dataclass(frozen=True, slots=True)
class Ground:
    """
    Hold a log to attack: closed, signed, with steps.

    Attributes:
        folder: A folder of its own, for copies.
        signer: Its key.
        log: The log.
        quick: Whether to do only a little.
    """

    folder: Path
    signer: Ed25519Signer
    log: Path
    quick: bool

    @classmethod
    def make(cls, folder: Path, *, quick: bool) -> Ground:
        signer, _ = ed25519_signer()
        log = folder / "e.jsonl"
        write_some(log, signer)
        assert verify_file(log, signer.public_key_hex).authenticated
        return cls(folder, signer, log, quick)

    @property
    def head(self) -> Path:
        """Give the file of its head."""
        return head_of(self.log)

    def some(self, everything: Sequence[int], most: int) -> Sequence[int]:
        """Give all of them, or so many where little is to be done."""
        if not self.quick or len(everything) <= most:
            return everything
        return random.Random(1).sample(list(everything), most)

    def is_found(self, data: bytes, head: bytes | None = None) -> bool:
        """Tell whether verification with the key finds that the log was exchanged for this."""
        copy = self.folder / "copy.jsonl"
        copy.write_bytes(data)
        head_of(copy).write_bytes(self.head.read_bytes() if head is None else head)
        try:
            report = verify_file(copy, self.signer.public_key_hex)
        except UnreadableLogError:
            return True
        return not (report.ok and report.authenticated)


def head_of(log: Path) -> Path:
    """Give the file of the head of a log."""
    return log.with_name(log.name + ".head")


def write_some(log: Path, signer: Ed25519Signer, *, amounts: Sequence[int] = (300, 150, 100)) -> None:
    """Write a small log: allowed and refused, with steps."""
    with EvidenceFile(log, signer=signer, record="steps", session_id="s-1") as evidence:
        rules = [must_precede("backup", "delete"), at_most_total("refund", "amount", 500)]
        session = Session(contracts=rules, evidence=evidence, session_id="s-1")
        session.reserve("delete", {"id": 1})
        session.call("backup", result="ok")
        for amount in amounts:
            reservation = session.reserve("refund", {"to": "ann", "amount": amount})
            if reservation.allowed:
                reservation.commit("paid")
        session.end_session()
