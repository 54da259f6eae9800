"""SHA-256, from where it is at hand, and digests of texts, those that are no valid Unicode included."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    # A hook is a process for each call of a tool, and `typing` takes longer to load than this does.
    from collections.abc import Callable
    from typing import Any


def _sha256() -> Callable[..., Any]:
    if "hashlib" not in sys.modules:
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


sha256 = _sha256()
"""Begin a SHA-256, as `hashlib.sha256` does."""


def text_digest(text: str) -> str:
    """Give the SHA-256 of a text in UTF-8, as 64 digits. A lone surrogate counts as what it is."""
    digest: str = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest
