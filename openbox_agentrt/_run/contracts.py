"""What a run needs from its local contracts, and nothing more. An `acel.Session` has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..acel.contracts.conditions import collect_checks

if TYPE_CHECKING:
    from ..acel.refusal import Refusal
    from ..acel.violations import Violation


class Reservation(Protocol):
    """A call that was judged and has not happened yet: to be committed or aborted exactly once."""

    @property
    def allowed(self) -> bool: ...

    @property
    def refusal(self) -> Refusal | None: ...

    @property
    def violations(self) -> tuple[Violation, ...]: ...

    def commit(
        self,
        result: Any = None,
        *,
        args: Mapping[str, Any] | None = None,
        measured: Mapping[str, Any] | None = None,
        shown: Mapping[str, Any] | None = None,
        conceal: Callable[[Any], Any] | None = None,
    ) -> Violation | None: ...

    async def acommit(
        self,
        result: Any = None,
        *,
        args: Mapping[str, Any] | None = None,
        measured: Mapping[str, Any] | None = None,
        shown: Mapping[str, Any] | None = None,
        conceal: Callable[[Any], Any] | None = None,
    ) -> Violation | None: ...

    def abort(self, error: BaseException | None = None, *, ran: bool = False) -> None: ...


class Contracts(Protocol):
    """Judges a call against the contracts of a session. A refusal is an answer, not an exception."""

    def reserve(
        self, tool: str, args: Mapping[str, Any] | None = None, *, deferred: Collection[str] = ()
    ) -> Reservation: ...

    async def areserve(
        self, tool: str, args: Mapping[str, Any] | None = None, *, deferred: Collection[str] = ()
    ) -> Reservation: ...

    def has_conditions(self, tool: str) -> bool: ...

    def register(self, func: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]: ...

    def end_session(self) -> Sequence[Violation]: ...


def adopt_conditions(contracts: Contracts | None, tool: str, handler: object) -> None:
    """Let preconditions and postconditions that decorate a tool's handler apply to the tool."""
    if contracts is None or not callable(handler):
        return
    before, after = collect_checks(handler)
    # What was registered for the tool on purpose comes first.
    if (before or after) and not contracts.has_conditions(tool):
        contracts.register(handler, name=tool)
