"""
Remember conversations over their runs: what was redacted, and what Core has been shown.

The runs of one session are a conversation, and so are a run and the runs nested in it. A run without a
session is one of its own; where its history quotes a text that was redacted in another run, as that of a
chat server does, the text is redacted all the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from .judged_content import JudgedContent
from .redaction.redactions import Redactions

MAX_QUOTED: Final = 10_000
"""How many redacted texts are known by their hash, for runs without a session."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conversation:
    """
    Hold what the runs of one conversation share.

    Attributes:
        redactions: What was redacted in it.
        judged: What of it Core has been shown.
        recall: Tells what a text became that was redacted in any run; None if it was not.
    """

    redactions: Redactions
    recall: Callable[[str], str | None]
    judged: JudgedContent = field(default_factory=JudgedContent)

    def rest(self) -> None:
        """Let go of the messages while no run is under way; what they said stays known."""
        self.redactions.rest()
        self.judged.rest()


class Quotes:
    """Know the texts that were redacted in any conversation, by their hash. Safe for several threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    def conversation(self) -> Conversation:
        """Begin a conversation whose redactions are known from then on."""
        return Conversation(redactions=Redactions(on_text=self._note), recall=self.recall)

    def recall(self, text: str) -> str | None:
        """Look up what `text` became when it was redacted; None if it was not."""
        return self._known.get(_hash_of(text)) if self._known else None

    def _note(self, text: str, redacted: str) -> None:
        with self._lock:
            self._known[_hash_of(text)] = redacted
            while len(self._known) > MAX_QUOTED:
                self._known.popitem(last=False)


def _hash_of(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
