"""A Core in this process, as the option `core` takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


class InProcessCore(Protocol):
    """Answer for a Core in this process: the whole wire is one function."""

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Answer one request with a status, headers and a body."""


@runtime_checkable
class HaltingCore(Protocol):
    """A Core that can be told to answer HALT from now on."""

    def halt(
        self, *, run_id: str | None, session_id: str | None, agent: str | None, reason: str, by: str
    ) -> object:
        """Let nothing more start in one run, in one session, or by one agent."""


@runtime_checkable
class WaitingCore(InProcessCore, Protocol):
    """
    A Core whose answers may take time.

    Attributes:
        waits: Whether they may; where not, `handle` is enough.
    """

    @property
    def waits(self) -> bool: ...

    async def ahandle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """
        Answer like `handle`, and let other tasks run meanwhile.

        Nothing that is done meanwhile may belong to the activity that is asked about: a core sees to its own
        context.
        """
