"""
Tell a web hook of something, and never keep whoever tells it waiting.

Messages are signed as Standard Webhooks are: ``webhook-id``, ``webhook-timestamp`` and ``webhook-signature``,
which is ``v1,`` and the Base64 of the HMAC-SHA256 of id, timestamp and body, joined by dots. A secret that
begins with ``whsec_`` is the Base64 of the key, as there; any other is the key itself.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import json
import logging
import os
import queue
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ._loopback import is_loopback, opener_for

ATTEMPTS = 6
MOST_WAITING = 1_000
_SECONDS = 5.0
_FIRST_WAIT = 1.0

logger = logging.getLogger(__name__)


class WebhookError(ValueError):
    """A URL cannot be told anything. Nothing was sent."""


class Webhook:
    """
    Send messages to one URL, in order, from a thread of its own.

    A message is sent up to `ATTEMPTS` times, with growing waits, as long as the other side is away or busy;
    one that it does not take is dropped and said in the log. Not promised: that a message arrives, nor that
    it does so once. Where too many wait, the oldest is dropped.

    Args:
        url: An ``https`` address; ``http`` for this machine only.
        secret: The key of the signature; without one nothing is signed.
        pause: Waits between two attempts.

    Raises:
        WebhookError: The URL is none of these, or the secret is no Base64 behind its ``whsec_``.
    """

    def __init__(
        self, url: str, *, secret: str | None = None, pause: Callable[[float], object] = time.sleep
    ) -> None:
        self._url = check_url(url)
        self._opener = opener_for(url, _NoRedirects)
        self._key = None if secret is None else _key_of(secret)
        self._pause = pause
        # Part of an address may be a secret, so the log has the host alone.
        self._host = urlsplit(url).hostname or ""
        self._waiting: queue.Queue[Mapping[str, Any] | None] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self.sent = self.lost = 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message for sending. Never raises, and never waits for the other side."""
        with self._lock:
            if self._process != os.getpid():
                # A forked process has the queue and not the thread.
                self._process, self._thread, self._waiting = os.getpid(), None, queue.Queue(MOST_WAITING)
            self._queue(dict(message))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
                self._thread.start()

    def _queue(self, message: Mapping[str, Any] | None) -> None:
        while True:
            try:
                return self._waiting.put_nowait(message)
            except queue.Full:
                # The thread may take the last one at this moment.
                with contextlib.suppress(queue.Empty):
                    self._waiting.get_nowait()
                    self.lost += 1

    def close(self, seconds: float = 2.0) -> None:
        """Send what waits, for so long at most. May be called twice."""
        with self._lock:
            thread = self._thread
            if thread is None or self._process != os.getpid():
                return
            self._thread = None  # what is sent after this gets a thread of its own
            self._queue(None)
        thread.join(seconds)

    def _run(self) -> None:
        while (message := self._waiting.get()) is not None:
            if self._deliver(message):
                self.sent += 1
            else:
                self.lost += 1

    def _deliver(self, message: Mapping[str, Any]) -> bool:
        body = json.dumps(message, ensure_ascii=True).encode()
        name = f"msg_{uuid.uuid4().hex}"
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._pause(_FIRST_WAIT * 2 ** (attempt - 1))
            problem, again = self._attempt(name, body)
            if not problem:
                return True
            if not again:
                break
        logger.error("the web hook at %s was not told: %s", self._host, problem)
        return False

    def _attempt(self, name: str, body: bytes) -> tuple[str, bool]:
        """Try once; give the problem, and whether trying again may help."""
        request = urllib.request.Request(self._url, body, self._headers(name, body), method="POST")
        try:
            with self._opener.open(request, timeout=_SECONDS):
                return "", False
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP {error.code}", error.code in (408, 425, 429) or error.code >= 500
        except OSError as error:
            return type(error).__name__, True
        except Exception as error:  # noqa: BLE001 - whatever it is must not end the thread that sends the rest
            return type(error).__name__, False

    def _headers(self, name: str, body: bytes) -> dict[str, str]:
        now = str(int(time.time()))
        headers = {"content-type": "application/json", "webhook-id": name, "webhook-timestamp": now}
        if self._key is not None:
            signed = f"{name}.{now}.".encode() + body
            digest = hmac.new(self._key, signed, hashlib.sha256).digest()
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return headers


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the message to a place that nobody named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def check_url(url: str) -> str:
    """
    Give a URL back that a web hook may have.

    Raises:
        WebhookError: It is none.
    """
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise WebhookError("a web hook has no name and password in its address: they would not be sent")
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and parts.hostname and is_loopback(parts.hostname):
        return url
    raise WebhookError(f"a web hook is an https address, got one with scheme {parts.scheme!r}")


def _key_of(secret: str) -> bytes:
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        # Not the original: it might quote a part of the secret.
        raise WebhookError("the secret of a web hook has Base64 behind whsec_, got something else") from None
