"""Remember values that must not go out again, and guard the arguments in which they may stand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..contracts.rules import Guard
from ..match.kept_out_parts import Searched, searched_for
from ..match.paths import MISSING, FieldError, FieldPath
from .call import JudgedCall
from .guard import Breach, CellGuard
from .values import LearningCell, elements

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract
    from .cell import LiveCell


class Secrets(LearningCell):
    """
    Remember secrets that calls returned.

    They are kept as they are while the session lives, and in a snapshot by their length and digest.

    At the bound it is full, and the guard refuses: a secret that was forgotten could go out.
    """

    __slots__ = ("_known", "_read_just_now", "_too_many")

    def __init__(self, name: str, path: str | None, reading: Any, **more: Any) -> None:
        super().__init__(name, path, reading, **more)
        # By digest; None for one of which only its length and digest are known.
        self._known: dict[str, tuple[int, str | None]] = {}
        self._read_just_now: dict[str, str] = {}
        self._too_many = False

    def full(self) -> bool:
        """Tell whether there were more than can be kept."""
        return self._too_many

    def finds(self, searched: Searched) -> bool:
        """Tell whether one of the secrets is in a value."""
        hidden: dict[int, set[str]] = {}
        for digest, (length, secret) in self._known.items():
            if secret is None:
                hidden.setdefault(length, set()).add(digest)
            elif searched.has(secret):
                return True
        return any(self._finds_hidden(searched, length, digests) for length, digests in hidden.items())

    def _finds_hidden(self, searched: Searched, length: int, digests: set[str]) -> bool:
        # Negative for one that is short, and searched for between blanks.
        parts = searched.parts(abs(length), short=length < 0)
        return any(self._digests.of(part) in digests for part in parts)

    def _read(self, found: Iterator[Any]) -> list[Any]:
        read = []
        for value in islice(elements(found), self._bound + 1):
            secret = searched_for(value)
            if secret is not None:
                digest = self._digests.of(secret)
                if digest not in self._known:
                    self._read_just_now[digest] = secret
                read.append([-len(secret) if secret[0] == " " else len(secret), digest])
        return read

    def _put(self, read: list[Any], at: float) -> None:
        for length, digest in read:
            secret = self._read_just_now.pop(digest, None)
            if digest not in self._known and len(self._known) >= self._bound:
                self._too_many = True
            elif secret is not None or digest not in self._known:
                self._known[digest] = (int(length), secret)

    def idle(self) -> bool:
        return not self._known

    def dump(self) -> dict[str, Any]:
        secrets = [[length, digest] for digest, (length, _) in self._known.items()]
        return {"secrets": secrets, "full": self._too_many}

    def load(self, data: dict[str, Any]) -> None:
        self._known = {str(digest): (int(length), None) for length, digest in data["secrets"]}
        self._too_many = bool(data["full"])
        self._read_just_now.clear()


class KeptOut(CellGuard):
    """Require that no secret stands in an argument."""

    __slots__ = ("_field",)

    def __init__(self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell) -> None:
        super().__init__(contract, guard, cell)
        assert guard.field is not None
        self._field = FieldPath(guard.field)

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        if cell.full():
            return False
        if cell.idle():
            return True
        searched = self._searched(call)
        return searched is None or (isinstance(searched, Searched) and not cell.finds(searched))

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        searched = self._searched(call)
        if cell.full():
            breach.fault = "there were more secrets than can be kept"
        elif isinstance(searched, FieldError):
            breach.fault = str(searched)

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        return False

    def _searched(self, call: JudgedCall) -> Searched | FieldError | None:
        memo = call.memo
        if memo is None:
            memo = call.memo = {}
        how = ("searched", self._field.text)
        if how not in memo:
            try:
                memo[how] = self._read(call.args)
            except FieldError as error:
                memo[how] = error.kept()
        searched: Searched | FieldError | None = memo[how]
        return searched

    def _read(self, args: dict[str, Any]) -> Searched | None:
        # What is not there cannot hold a secret.
        found = [value for value in self._field.find(args) if value is not MISSING]
        if self._field.text in args:
            found.append(args[self._field.text])
        return Searched(found, self._field.text) if found else None
