"""A Core in this process, as the option `core` takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ("InProcessCore",)


class InProcessCore(Protocol):
    """Answer for a Core in this process: the whole wire is one function."""

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Answer one request with a status, headers and a body."""
