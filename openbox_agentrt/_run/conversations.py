"""
What is remembered of a conversation over its runs: redactions, and what Core has been shown.

The runs of one session are a conversation, and so are a run and the runs nested in it. A run without a
session is one of its own; where its history quotes a text that was redacted in another run, as that of a chat
server does, the text is redacted all the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from .judged_content import JudgedContent
from .redactions import Redactions

__all__ = ("Conversation", "Conversations")

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


class Conversations:
    """
    Find the conversation of a run. Safe for several threads.

    Args:
        limit: How many sessions are remembered. Of more than that, those without redactions are forgotten,
            which only makes Core judge again.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._sessions: OrderedDict[str, Conversation] = OrderedDict()
        self._quoted: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def of_run(self, session_id: str | None) -> Conversation:
        """Give the conversation of a session, or a new one."""
        if session_id is None:
            return self._new()
        with self._lock:
            conversation = self._sessions.get(session_id)
            if conversation is None:
                self._make_room()
                conversation = self._sessions[session_id] = self._new()
            self._sessions.move_to_end(session_id)
        return conversation

    def end(self, session_id: str) -> None:
        """Forget a session."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def recall(self, text: str) -> str | None:
        """Look up what `text` became when it was redacted, in any run; None if it was not."""
        if not self._quoted:
            return None
        return self._quoted.get(_hash_of(text))

    def _new(self) -> Conversation:
        return Conversation(redactions=Redactions(on_text=self._note), recall=self.recall)

    def _note(self, text: str, redacted: str) -> None:
        with self._lock:
            self._quoted[_hash_of(text)] = redacted
            while len(self._quoted) > MAX_QUOTED:
                self._quoted.popitem(last=False)

    def _make_room(self) -> None:
        if len(self._sessions) < self._limit:
            return
        for session_id, conversation in self._sessions.items():
            if not conversation.redactions:
                del self._sessions[session_id]
                return


def _hash_of(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
