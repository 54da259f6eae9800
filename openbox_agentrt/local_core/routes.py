"""The requests that a Core answers."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping

from .approval_desk import ApprovalDesk
from .evaluation import Evaluator, Reply
from .identity import Authenticator
from .records import RefusedRequest
from .store import EventStore
from .wire import WireError, read_event, read_handoff, read_poll

HttpAnswer = tuple[int, dict[str, str], bytes]

_METHODS = {
    "governance/evaluate": "POST",
    "governance/approval": "POST",
    "auth/validate": "GET",
    "handoffs": "POST",
}
_ROUTES = {
    f"/api/{version}/{route}": (version, route) for version in ("v1", "v2", "v3") for route in _METHODS
}

logger = logging.getLogger(__name__)


class Routes:
    """
    Dispatch requests to what answers them.

    v1, v2 and v3 differ in how the caller proves who it is, and in nothing else. The bootstrap
    documents of v2 and v3 describe keys that a local Core does not have, so it has no such route:
    SDKs then use the identity that they were given.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        evaluator: Evaluator,
        desk: ApprovalDesk,
        store: EventStore,
        clock: Callable[[], float],
        max_body_bytes: int,
    ) -> None:
        self._authenticator = authenticator
        self._evaluator = evaluator
        self._desk = desk
        self._store = store
        self._clock = clock
        self._max_body_bytes = max_body_bytes

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer | Reply:
        """Answer a request, or begin to. Raises what SQLite and the given clock raise."""
        path = path.partition("?")[0]
        try:
            return self._dispatch(method.upper(), path, headers, body)
        except WireError as error:
            self._store.refuse(
                RefusedRequest(
                    received_at=self._clock(),
                    path=path[:200].encode("utf-8", errors="replace").decode(),
                    status=error.status,
                    message=error.message,
                )
            )
            return error_answer(error)

    def _dispatch(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if path not in _ROUTES:
            raise WireError(404, "not_found", "there is no such route")
        version, route = _ROUTES[path]
        expected = _METHODS[route]
        if method != expected:
            raise WireError(405, "method_not_allowed", f"this route takes {expected} only")
        if len(body) > self._max_body_bytes:
            raise WireError(413, "too_large", f"the body has more than {self._max_body_bytes} bytes")
        lowered = {name.lower(): value for name, value in headers.items()}
        caller = self._authenticator.admit(version, method, path, lowered, body)
        if route == "governance/evaluate":
            return self._evaluator.answer(read_event(body), caller)
        if route == "governance/approval":
            return self._poll(body)
        if route == "handoffs":
            if not self._authenticator.has_identity(version, caller):
                raise WireError(401, "identity_required", "a handoff has to say which agent sends it")
            handoff = read_handoff(body)
            return json.dumps({"handoff_id": str(uuid.uuid4()), "status": "accepted", **handoff}).encode()
        return json.dumps({"valid": True, **caller}).encode()

    def _poll(self, body: bytes) -> bytes:
        approval = self._desk.polled(read_poll(body))
        if approval is None:
            raise WireError(404, "unknown_approval", "nothing of that run and activity waits for approval")
        return json.dumps(approval.poll_answer(self._clock())).encode()


def answered(said: HttpAnswer | bytes) -> HttpAnswer:
    """Put an answer as HTTP, unless it is."""
    return said if isinstance(said, tuple) else (200, {"content-type": "application/json"}, said)


def error_answer(error: WireError) -> HttpAnswer:
    """Put an error as HTTP."""
    body = {"error": error.code, "reason_code": error.code, "message": error.message}
    headers = {"content-type": "application/json"}
    if error.status == 405:
        headers["allow"] = "GET, POST"
    return error.status, headers, json.dumps(body).encode()
