"""Note what happened on the wire during one question: written by the transport, read by the gate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import httpx
import msgspec
from openbox_core.instrumentation.http import suppress_http_instrumentation

MAX_ANSWER_BYTES: Final = 4_000_000
EVALUATE: Final = "/governance/evaluate"
APPROVAL: Final = "/governance/approval"


class AnswerTooLargeError(Exception):
    """An answer is larger than any that Core sends. It was not read to its end."""

    def __init__(self) -> None:
        super().__init__(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")


class CutAnswerError(httpx.ReadError):
    """An answer has no end, or is no HTTP. Somebody has judged, and what is not known."""


class Exchange(msgspec.Struct, eq=False):
    """
    The last request of a question; a question may need others first, such as fetching a token.

    openbox_core turns a refused connection, a 422 and half an answer into the same result. This is what tells
    them apart. All fields are None for a client whose transport is not ours.

    Attributes:
        path: Path of the request, which tells the question from what was needed before it.
        status: HTTP status of the answer.
        retry_after: ``Retry-After`` of the answer, as it was sent.
        body: The answer's body.
        error: What the request failed with instead.
    """

    path: str | None = None
    status: int | None = None
    retry_after: str | None = None
    body: bytes | None = None
    error: Exception | None = None

    def begin(self, path: str) -> None:
        """Forget the request before this one."""
        self.path = path
        self.status = self.retry_after = self.body = self.error = None

    def is_about(self, path: str) -> bool:
        """Tell whether the request was to `path`, in any version of the interface."""
        return self.path is not None and self.path.endswith(path)


def is_outage_status(status: int) -> bool:
    """
    Tell a Core that is not there for the moment from one that says what it thinks of the request.
    """
    return status in (408, 429) or status >= 500


_current: ContextVar[Exchange | None] = ContextVar("openbox_agentrt_exchange", default=None)


def current_exchange() -> Exchange | None:
    """The record of the question that the current task is asking; None for requests that no gate makes."""
    return _current.get()


@contextmanager
def recording() -> Iterator[Exchange]:
    """
    Record the requests inside, and keep openbox_core's HTTP hooks away from them.

    The hooks know the address of the one Core whose governance owns them. Without this, another governance's
    questions would themselves be put to that Core.
    """
    exchange = Exchange()
    token = _current.set(exchange)
    try:
        with suppress_http_instrumentation():
            yield exchange
    finally:
        _current.reset(token)
