"""SHA-256 and its HMAC, from where they are at hand, and digests of texts, also of no valid Unicode."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    # A hook is a process for each call of a tool, and `typing` takes longer to load than this does.
    from collections.abc import Callable
    from typing import Any


def _own_sha256() -> Callable[..., Any]:
    # `hashlib` has this very function for builds without OpenSSL, and loads OpenSSL where there is one: a
    # quarter of the time that Python takes to start, which a process pays that hashes a few lines. The
    # names are Python's own; `random` imports them in the same way, with the same way out.
    for name in ("_sha2", "_sha256"):  # since Python 3.12, and before
        try:
            function: Callable[..., Any] = import_module(name).sha256
        except ImportError:
            continue
        return function
    import hashlib

    return hashlib.sha256


def sha256(data: bytes = b"") -> Any:
    """Begin a SHA-256, as `hashlib.sha256` does: by OpenSSL, several times as quick, once that is loaded."""
    # The default is also for another thread that is in the middle of loading it.
    return getattr(sys.modules.get("hashlib"), "sha256", _sha256)(data)


_sha256 = _own_sha256()


def text_digest(text: str) -> str:
    """Give the SHA-256 of a text in UTF-8, as 64 digits. A lone surrogate counts as what it is."""
    digest: str = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest


def hmac_sha256(key: bytes, data: bytes) -> str:
    """Give the HMAC-SHA256 of data (RFC 2104), as 64 digits."""
    if "hashlib" in sys.modules:
        import hmac

        return hmac.digest(key, data, "sha256").hex()
    # `hmac` loads OpenSSL as `hashlib` does.
    block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    inner: bytes = sha256(block.translate(_INNER) + data).digest()
    digest: str = sha256(block.translate(_OUTER) + inner).hexdigest()
    return digest


_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))
