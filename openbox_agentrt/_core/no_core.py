"""No Core at all, where local contracts alone judge."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ("NoCore",)


class NoCore:
    """Stand where no Core is. Who asked it all the same would be told of an outage, and no ALLOW."""

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Answer that there is no Core."""
        return 503, {}, b""
