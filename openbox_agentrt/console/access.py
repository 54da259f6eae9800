"""
Let in who may use the console: one address, one person with the link of the terminal, no other page.

Every request has to name a host that the console is served under, since a page whose name was bound to this
address sends no `Origin` when it reads. Whatever is not public needs the cookie that a link of the terminal
was exchanged for. Whatever changes something needs, besides, an `Origin` that is the console's own, and the
token that stands in the console's own forms.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .._files.whole_write import write_private
from .._plain.digest import text_digest
from .._plain.strict_json import read_json

SIGNED_IN_SECONDS = 12 * 3600.0
MAX_FORM_BYTES = 64 * 1024

logger = logging.getLogger(__name__)

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    # Not "no-referrer": with it a browser sends forms with the origin "null". No other host is ever asked.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_READS = ("GET", "HEAD")
_PUBLIC = ("/sign-in", "/static/")


class Access:
    """
    Give out links and cookies, and say what a request may do. Any thread may use it.

    Args:
        hosts: What the header `Host` may be, with the port.
        secure: Whether the console is served over TLS.
        now: Seconds since 1970.
        tell: Called with each new link; a link works once.
        kept_in: A file that remembers who is signed in, so that a console which is started anew is found
            again. It holds hashes of cookies, and the key of the tokens in forms.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        *,
        secure: bool,
        now: Callable[[], float],
        tell: Callable[[str], object],
        kept_in: Path,
    ) -> None:
        self.hosts = tuple(hosts)
        self.scheme = "https" if secure else "http"
        self.origins = frozenset(f"{self.scheme}://{host}" for host in self.hosts)
        self._now = now
        self._tell = tell
        self._lock = threading.Lock()
        self._file = kept_in
        self._links: set[str] = set()
        self._secret, self._until = _kept(kept_in)
        # Browsers keep cookies by host and not by port: two consoles must not overwrite each other's, at two
        # ports or one after the other at the same. Over TLS, the prefix keeps other servers from setting it.
        port, key = self.hosts[0].rpartition(":")[2], hashlib.sha256(self._secret).hexdigest()[:8]
        self.cookie = f"{'__Host-' if secure else ''}openbox_console_{port}_{key}"

    def offer_link(self) -> None:
        """Tell a new link."""
        once = secrets.token_urlsafe(24)
        with self._lock:
            self._links = {text_digest(once)}
        self._tell(f"{self.scheme}://{self.hosts[0]}/sign-in?once={once}")

    def sign_in(self, once: str) -> str | None:
        """Exchange the last part of a link for the value of a cookie; None if it is used up or wrong."""
        with self._lock:
            known = text_digest(once) in self._links
            self._links.discard(text_digest(once))
            if not known:
                return None
            now = self._now()
            self._until = {name: until for name, until in self._until.items() if until > now}
            value = secrets.token_urlsafe(32)
            self._until[text_digest(value)] = now + SIGNED_IN_SECONDS
            self._keep()
        self.offer_link()
        return value

    def sign_out(self, request: HTTPConnection) -> None:
        """Forget a browser: its cookie is good for nothing from now on, and its streams end."""
        value = request.cookies.get(self.cookie, "")
        with self._lock:
            self._until.pop(text_digest(value), None)
            self._keep()

    def _keep(self) -> None:
        kept = {"secret": self._secret.hex(), "until": self._until}
        try:
            write_private(self._file, json.dumps(kept).encode())
        except OSError as error:
            # Who is signed in stays so until this console ends, and signs in again after that.
            logger.warning("who is signed in cannot be kept: %s", error.strerror)

    def signed_in_until(self, request: HTTPConnection) -> float | None:
        """Say until when a browser is signed in; None if it is not."""
        value = request.cookies.get(self.cookie, "")
        until = self._until.get(text_digest(value))
        return until if until is not None and until > self._now() else None

    def form_token(self, request: HTTPConnection) -> str:
        """Give the token that forms of this browser carry."""
        value = request.cookies.get(self.cookie, "")
        return hmac.new(self._secret, value.encode(), hashlib.sha256).hexdigest()

    def refusal(self, request: HTTPConnection, path: str, method: str) -> tuple[int, str] | None:
        """Say with which status and why a request is refused, as far as its headers tell."""
        if request.headers.get("host") not in self.hosts:
            return 421, "this console is not served under that name"
        if not path.startswith(_PUBLIC) and self.signed_in_until(request) is None:
            return 401, "open the link that the terminal shows: each works once, and for 12 hours"
        if method in _READS:
            return None
        if request.headers.get("origin") not in self.origins:
            return 403, "only the console's own pages may change something"
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "only the console's own pages may change something"
        return None

    def takes(self, request: HTTPConnection, form: Mapping[str, str]) -> bool:
        """Tell whether a form carries the token of this browser."""
        return hmac.compare_digest(form.get("token", "").encode(), self.form_token(request).encode())


class AccessGuard:
    """Ask `Access` about every request, read forms, and put the headers of security on every answer."""

    def __init__(self, app: ASGIApp, *, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = await self._refused(scope, receive)
        await (answer or self._app)(scope, receive, send_guarded)

    async def _refused(self, scope: Scope, receive: Receive) -> Response | None:
        request = Request(scope, receive)
        refused = self._access.refusal(request, scope["path"], scope["method"])
        if refused is not None:
            return self._answer(*refused)
        if scope["method"] in _READS:
            return None
        form = await _form_of(request)
        if form is None:
            return self._answer(413, f"the form has more than {MAX_FORM_BYTES:,} bytes")
        if not self._access.takes(request, form):
            return self._answer(403, "the form is too old: load the page again")
        scope.setdefault("state", {})["form"] = form
        return None

    def _answer(self, status: int, why: str) -> Response:
        return PlainTextResponse(f"{why}\n", status)


async def _form_of(request: Request) -> dict[str, str] | None:
    if int(Headers(scope=request.scope).get("content-length", "0") or 0) > MAX_FORM_BYTES:
        return None
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM_BYTES:
                return None
    except ClientDisconnect:
        return {}  # no token in it, so it is refused, and nobody is there to hear
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return {}  # no token in it, so it is refused
    return {name: values[0] for name, values in fields.items()}


def _kept(file: Path) -> tuple[bytes, dict[str, float]]:
    try:
        kept = read_json(file.read_text(encoding="utf-8"))
        return bytes.fromhex(kept["secret"]), {
            str(name): float(until) for name, until in kept["until"].items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        # There is none, or it is none: everybody signs in again.
        return secrets.token_bytes(32), {}
