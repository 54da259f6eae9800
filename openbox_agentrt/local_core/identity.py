"""Check who sends a request: the key, and the signature where there is one."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from .wire import WireError

_DID = "x-openbox-agent-did"
_ASSERTION = "x-openbox-agent-assertion"
_WORKLOAD_TOKEN = "x-openbox-workload-token"
_SIGNED_HEADERS = (
    _DID,
    "x-openbox-agent-timestamp",
    "x-openbox-agent-nonce",
    "x-openbox-agent-signature",
    "x-openbox-body-sha256",
)
_SIGNED = frozenset(_SIGNED_HEADERS)
_WINDOW_SECONDS = 300.0
_NONCES_KEPT = 100_000


class Authenticator:
    """
    Let requests in that carry the key, and signed ones whose signature fits.

    Without `agents` a signature is checked as far as that goes without a public key: all its headers,
    the hash of the body, the time, and that the nonce is new. With `agents` it has to verify, and an
    agent that is not listed is turned away.

    Args:
        api_key: The key to ask for.
        agents: Public keys (raw Ed25519, base64) by agent DID.
        clock: Seconds since 1970.
    """

    def __init__(self, *, api_key: str, agents: Mapping[str, str] | None, clock: Callable[[], float]) -> None:
        self._authorization = f"Bearer {api_key}".encode()
        self._agents = None if agents is None else dict(agents)
        self._clock = clock
        self._nonces: OrderedDict[tuple[str, str], None] = OrderedDict()

    def admit(
        self, version: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> Mapping[str, str]:
        """
        Check who sends a request, and return what it says of itself: ``sdk``, and ``agent_did`` when signed.

        Raises:
            WireError: 401, with the reason codes that OpenBox SDKs explain to their users.
        """
        given = headers.get("authorization", "").encode("utf-8", errors="replace")
        if not hmac.compare_digest(given, self._authorization):
            raise WireError(401, "invalid_api_key", "the API key is missing or wrong")
        caller = _caller(headers.get("x-openbox-sdk-version"))
        if version == "v2" and not headers.get(_ASSERTION):
            raise WireError(401, "assertion_missing", "a v2 request needs an agent assertion")
        if version == "v3" and not headers.get(_WORKLOAD_TOKEN):
            raise WireError(401, "workload_token_missing", "a v3 request needs a workload token")
        if version == "v2" and headers[_ASSERTION].count(".") != 2:
            raise WireError(401, "assertion_malformed", "the agent assertion is not a compact JWT")
        if version == "v1" and not _SIGNED.isdisjoint(headers):
            self._check_signature(method, path, headers, body)
            return {**caller, "agent_did": headers[_DID]}
        return caller

    def has_identity(self, version: str, caller: Mapping[str, str]) -> bool:
        """Tell whether a request says which agent sends it, beyond the key."""
        return version != "v1" or "agent_did" in caller

    def _check_signature(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        did, timestamp, nonce, signature, digest = (headers.get(name, "") for name in _SIGNED_HEADERS)
        if not (did and timestamp and nonce and signature and digest):
            raise WireError(401, "signature_invalid", "the signed request lacks one of its headers")
        if hashlib.sha256(body).hexdigest() != digest:
            raise WireError(401, "signature_invalid", "the body is not the one that was signed")
        if not self._is_recent(timestamp):
            raise WireError(401, "timestamp_outside_window", "the request was signed at another time")
        if self._agents is not None:
            key = self._agents.get(did)
            if key is None:
                raise WireError(401, "did_agent_mismatch", "no agent with this DID is known")
            canonical = "\n".join([method.upper(), path, timestamp, nonce, digest])
            if not _verifies(key, signature, canonical.encode()):
                raise WireError(401, "signature_invalid", "the signature does not verify")
        # Last, so that a request that was turned away does not use up its nonce.
        if (did, nonce) in self._nonces:
            raise WireError(401, "nonce_replayed", "the nonce was used before")
        self._nonces[did, nonce] = None
        if len(self._nonces) > _NONCES_KEPT:
            self._nonces.popitem(last=False)

    def _is_recent(self, timestamp: str) -> bool:
        try:
            signed_at = datetime.fromisoformat(timestamp)
            return signed_at.tzinfo is not None and (
                abs(self._clock() - signed_at.timestamp()) <= _WINDOW_SECONDS
            )
        except (ValueError, OverflowError):
            return False


@lru_cache(maxsize=64)
def _caller(sdk: str | None) -> Mapping[str, str]:
    """Share one mapping among all requests of an SDK: every event is kept with it."""
    return MappingProxyType({} if sdk is None else {"sdk": sdk})


def _verifies(public_key: str, signature: str, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(signature, validate=True), message)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
