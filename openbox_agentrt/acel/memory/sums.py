"""Cells that read an argument's value: what adds up, and what differs."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..contracts.rules import MAX_IN_WINDOW
from ..match.amounts import BIGGEST, Amount, AmountError, add, read_amount, show, subtract
from ..match.paths import FieldError, FieldPath, key_text
from .call import Call
from .cells import LiveCell, after
from .clock import Timeline

DEFERRED = "deferred"


class Sum(LiveCell):
    """
    What an argument adds up to.

    An amount below zero makes room for other calls, so it counts once the call has succeeded.

    Attributes:
        name: The argument, if it is no path.
        total: The exact sum.
        unread: Step of a call whose amount was to be measured and was not. The total is then unknown.
    """

    __slots__ = ("_entries", "_field", "_how", "_refund", "name", "timeline", "total", "unread", "within")

    def __init__(
        self,
        field: str,
        *,
        text: bool = False,
        negative: bool = False,
        refund: bool = False,
        timeline: Timeline | None = None,
        within: float | None = None,
    ) -> None:
        self._field = FieldPath(field)
        # Where a whole number is most often found. A path is not a name.
        self.name: Any = None if self._field.dotted else field
        self._how = ("amount", field, text, negative)
        self._refund = refund
        self.timeline = timeline
        self.within = within
        self._entries: deque[tuple[float, Amount]] = deque()
        self.total: Amount = 0
        self.unread: int | None = None

    def is_deferred(self, call: Call) -> bool:
        """Whether the call's amount is to be measured."""
        return bool(call.deferred) and self._field.text in call.deferred

    def amount(self, call: Call) -> Amount | ValueError:
        """The call's amount, or why it cannot be read."""
        value = call.args.get(self.name)
        if type(value) is int and 0 <= value < BIGGEST:
            return value
        memo = call.memo
        if memo is None:
            memo = call.memo = {}
        if self._how not in memo:
            memo[self._how] = self._read(call.args)
        amount: Amount | ValueError = memo[self._how]
        return amount

    def spent(self) -> Amount:
        """The sum of the window."""
        if self.timeline is not None and self.within is not None:
            while self._entries and self.timeline.now - self._entries[0][0] > self.within:
                self.total = subtract(self.total, self._entries.popleft()[1])
        return self.total

    def full(self) -> bool:
        """Whether the window keeps as many calls as it can."""
        return len(self._entries) >= MAX_IN_WINDOW

    def free_at(self, amount: Amount, limit: Amount) -> float | None:
        """When `amount` will fit under `limit`; None if waiting does not help."""
        if self.within is None:
            return None
        left = self.total
        for at, old in self._entries:
            left = subtract(left, old)
            if add(left, amount) <= limit:
                return after(at + self.within)
        return None

    def reserve(self, call: Call) -> Any:
        if call.deferred and self.is_deferred(call):
            return DEFERRED
        amount = self.amount(call)
        if isinstance(amount, ValueError):
            # It got here in shadow mode: there is nothing to add.
            return None
        return self._put(amount) if amount > 0 else (None, amount)

    def commit(self, ticket: Any, call: Call) -> None:
        if ticket is DEFERRED:
            self._measure(call, must=True)
        elif ticket is not None:
            _, amount = ticket
            if call.final is not None:
                self._correct(ticket, call)
            elif amount < 0:
                self._put(amount)

    def fail(self, ticket: Any, call: Call) -> None:
        if self._refund:
            self.undo(ticket, call)
        elif ticket is DEFERRED:
            self._measure(call, must=False)

    def undo(self, ticket: Any, call: Call) -> None:
        if ticket is not None and ticket != DEFERRED:
            self._take(ticket)

    def idle(self) -> bool:
        return not self.spent() and not self._entries and self.unread is None

    def dump(self) -> dict[str, Any]:
        entries = [[at, show(amount)] for at, amount in self._entries]
        return {"total": show(self.total), "entries": entries, "unread": self.unread}

    def load(self, data: dict[str, Any]) -> None:
        self.total = read_amount(data["total"], text=True, negative=True)
        self._entries = deque(
            (float(at), read_amount(amount, text=True, negative=True)) for at, amount in data["entries"]
        )
        self.unread = data["unread"]

    def _read(self, args: Any) -> Amount | ValueError:
        _, _, text, negative = self._how
        try:
            return read_amount(self._field.read(args), text=text, negative=negative)
        except FieldError as error:
            return error
        except AmountError as error:
            return AmountError(f"{self._field.text} {error}")

    def _correct(self, ticket: tuple[float | None, Amount], call: Call) -> None:
        ran = self._read(call.final)
        if isinstance(ran, ValueError):
            # What is spent is no longer told. What was judged still counts.
            ran = ticket[1]
        self._take(ticket)
        self._put(ran)

    def _measure(self, call: Call, *, must: bool) -> None:
        measured = {} if call.measured is None else call.measured
        if must or self._field.text in measured:
            try:
                _, _, text, negative = self._how
                self._put(read_amount(measured.get(self._field.text), text=text, negative=negative))
            except AmountError:
                # fail-closed: what was spent is not known, so nothing more is let through.
                self.unread = call.step

    def _put(self, amount: Amount) -> tuple[float | None, Amount]:
        total = self.total
        self.total = total + amount if type(total) is int and type(amount) is int else add(total, amount)
        if self.timeline is None:
            return 0.0, amount
        if self.full():
            # Only shadow mode gets here; enforced, a full window has refused.
            self.total = subtract(self.total, self._entries.popleft()[1])
        entry = (self.timeline.now, amount)
        self._entries.append(entry)
        return entry

    def _take(self, ticket: tuple[float | None, Amount]) -> None:
        if ticket[0] is None:
            return
        if self.timeline is not None:
            if ticket not in self._entries:
                return
            self._entries.remove(ticket)  # type: ignore[arg-type]  # the time is None only above
        self.total = subtract(self.total, ticket[1])


class Distinct(LiveCell):
    """Which values an argument had. Each element of a list is a value."""

    __slots__ = ("_entries", "_field", "_how", "_refund", "counts", "timeline", "within")

    def __init__(
        self,
        field: str,
        *,
        refund: bool = False,
        timeline: Timeline | None = None,
        within: float | None = None,
    ) -> None:
        self._field = FieldPath(field)
        self._how = ("values", field)
        self._refund = refund
        self.timeline = timeline
        self.within = within
        self._entries: deque[tuple[float, str]] = deque()
        self.counts: dict[str, int] = {}

    def is_deferred(self, call: Call) -> bool:
        """Whether the call's values are to be measured."""
        return bool(call.deferred) and self._field.text in call.deferred

    def values(self, call: Call) -> list[str] | FieldError:
        """The call's values, or why they cannot be read."""
        memo = call.memo
        if memo is None:
            memo = call.memo = {}
        if self._how not in memo:
            memo[self._how] = self._read(call.args)
        values: list[str] | FieldError = memo[self._how]
        return values

    def known(self) -> dict[str, int]:
        """How often each value of the window was used."""
        if self.timeline is not None and self.within is not None:
            while self._entries and self.timeline.now - self._entries[0][0] > self.within:
                self._drop(self._entries.popleft()[1])
        return self.counts

    def full(self) -> bool:
        """Whether the window keeps as many uses as it can."""
        return len(self._entries) >= MAX_IN_WINDOW

    def reserve(self, call: Call) -> Any:
        if self.is_deferred(call):
            return DEFERRED
        values = self.values(call)
        return None if isinstance(values, FieldError) else [entry for v in values if (entry := self._put(v))]

    def commit(self, ticket: Any, call: Call) -> None:
        if ticket is DEFERRED and call.measured is not None:
            values = self._read(call.measured)
            for value in () if isinstance(values, FieldError) else values:
                self._put(value)

    def fail(self, ticket: Any, call: Call) -> None:
        if self._refund:
            self.undo(ticket, call)

    def undo(self, ticket: Any, call: Call) -> None:
        for entry in () if ticket is None or ticket is DEFERRED else ticket:
            if self.timeline is None:
                self._drop(entry[1])
            elif entry in self._entries:
                self._entries.remove(entry)
                self._drop(entry[1])

    def idle(self) -> bool:
        return not self.known()

    def dump(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "entries": [list(entry) for entry in self._entries]}

    def load(self, data: dict[str, Any]) -> None:
        self.counts = {value: int(count) for value, count in data["counts"].items()}
        self._entries = deque((float(at), value) for at, value in data["entries"])

    def _read(self, args: Any) -> list[str] | FieldError:
        try:
            value = self._field.read(args)
            items = value if isinstance(value, (list, tuple, set)) else [value]
            return list(dict.fromkeys(key_text(item, self._field.text) for item in items))
        except FieldError as error:
            return error

    def _put(self, value: str) -> tuple[float, str] | None:
        # Only shadow mode gets to a bound; enforced, the guard has refused.
        if value not in self.counts and len(self.counts) >= MAX_IN_WINDOW:
            return None
        if self.timeline is not None and self.full():
            self._drop(self._entries.popleft()[1])
        self.counts[value] = self.counts.get(value, 0) + 1
        entry = (0.0 if self.timeline is None else self.timeline.now, value)
        if self.timeline is not None:
            self._entries.append(entry)
        return entry

    def _drop(self, value: str) -> None:
        self.counts[value] -= 1
        if not self.counts[value]:
            del self.counts[value]
