"""What a run needs from its local contracts, and nothing more. An `acel.Session` has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

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
    ) -> Violation | None: ...

    def abort(self, error: BaseException | None = None, *, ran: bool = False) -> None: ...


class Contracts(Protocol):
    """Judges a call against the contracts of a session. A refusal is an answer, not an exception."""

    def reserve(
        self, tool: str, args: Mapping[str, Any] | None = None, *, deferred: Collection[str] = ()
    ) -> Reservation: ...
