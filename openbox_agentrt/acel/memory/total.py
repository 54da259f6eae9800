"""Add up an argument, and guard the limit on what it comes to."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from ..._plain.amounts import BIGGEST, Amount, AmountError, add, read_amount, show, subtract
from ..._values import dataclass
from ..contracts.rules import MAX_IN_WINDOW, Guard
from ..match.paths import FieldError, FieldPath
from .call import JudgedCall
from .cell import LiveCell, after
from .clock import MonotoneClock
from .deferred import Guess
from .guard import Breach, CellGuard, wait_for
from .window import put_in_time

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract

_MOST_DIGITS = 15


@dataclass(frozen=True, slots=True)
class _Deferred:
    """
    Ticket of a call whose amount is to be measured.

    Attributes:
        taken: What stands for it until then.
        said: Whether that was said of it, and is no guess.
    """

    taken: tuple[float | None, Amount] | None
    said: bool


_Ticket: TypeAlias = "tuple[float | None, Amount] | tuple[None, Amount, float]"
"""When an amount was put, and the amount; of one that was not put, when its call was let through."""


class Sum(LiveCell):
    """
    Add up what an argument holds.

    An amount below zero makes room for other calls, so it counts once the call has succeeded.

    Attributes:
        name: The argument, if it is no path.
        total: The exact sum.
        unread: Step of a call whose amount was to be measured and was not. The total is then unknown, for as
            long as the call is in the window.
    """

    __slots__ = (
        "_entries",
        "_estimate",
        "_field",
        "_how",
        "_refund",
        "_unmeasured",
        "_unread_at",
        "heeds_success",
        "name",
        "timeline",
        "total",
        "unread",
        "within",
    )

    settles_by_ticket = True

    def __init__(
        self,
        field: str,
        *,
        text: bool = False,
        negative: bool = False,
        refund: bool = False,
        estimate: Amount | None = None,
        timeline: MonotoneClock | None = None,
        within: float | None = None,
    ) -> None:
        self._field = FieldPath(field)
        # Where a whole number is most often found. A path is not a name.
        self.name: Any = field if self._field.plain else None
        self._how = ("amount", field, text, negative)
        # An amount that makes room does so once the call has succeeded.
        self.heeds_success = negative
        self._refund = refund
        self._estimate = estimate
        self.timeline = timeline
        self.within = within
        self._entries: deque[tuple[float, Amount]] = deque()
        self.total: Amount = 0
        self.unread: int | None = None
        self._unread_at = 0.0
        # Steps of the calls under way whose amounts nothing stands for.
        self._unmeasured: tuple[int, ...] = ()

    def is_deferred(self, call: JudgedCall) -> bool:
        """Tell whether the call's amount is to be measured."""
        return bool(call.deferred) and self._field.text in call.deferred

    def estimate(self, call: JudgedCall) -> Amount:
        """Give what a call whose amount is to be measured is taken for until then; 0 if nothing says."""
        said = call.deferred.get(self._field.text) if isinstance(call.deferred, dict) else None
        return (None if type(said) is Guess else said) or self._estimate or 0

    def guess(self, call: JudgedCall) -> Amount:
        """Give what somebody guesses that it is; 0 if nobody does, or something is said."""
        said = call.deferred.get(self._field.text) if isinstance(call.deferred, dict) else None
        return said.amount if type(said) is Guess and not self._estimate else 0

    def is_guessing(self) -> bool:
        """Tell whether a call is under way of whose amount nothing is said."""
        return bool(self._unmeasured)

    def amount(self, call: JudgedCall) -> Amount | ValueError:
        """Read the call's amount, or say why it cannot be read."""
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

    def is_illegible(self, call: JudgedCall) -> bool:
        """Tell whether what really ran holds no amount that can be read, and so would have been refused."""
        if call.final is None or self.is_deferred(call):
            return False
        return isinstance(self._read(call.final), ValueError)

    def spent(self) -> Amount:
        """Give the sum of the window."""
        if self.timeline is not None and self.within is not None:
            while self._entries and self.timeline.now - self._entries[0][0] > self.within:
                self.total = subtract(self.total, self._entries.popleft()[1])
            if self.unread is not None and self.timeline.now - self._unread_at > self.within:
                self.unread = None
        return self.total

    def full(self) -> bool:
        """Tell whether the window keeps as many calls as it can."""
        return len(self._entries) >= MAX_IN_WINDOW

    def free_at(self, amount: Amount, limit: Amount) -> float | None:
        """Say when `amount` will fit under `limit`; None if waiting does not help."""
        if self.within is None:
            return None
        left = self.total
        for at, old in self._entries:
            left = subtract(left, old)
            if add(left, amount) <= limit:
                return after(at + self.within)
        return None

    def reserve(self, call: JudgedCall) -> Any:
        value = call.args.get(self.name)
        if type(value) is int and 0 < value < BIGGEST and self.timeline is None and not call.deferred:
            # As `_put`, and in most calls a few steps less.
            self.total = self.total + value if type(self.total) is int else add(self.total, value)
            return 0.0, value
        if call.deferred and self.is_deferred(call):
            estimate = self.estimate(call)
            if estimate:
                return _Deferred(self._put(estimate), said=True)
            self._unmeasured += (call.step,)
            guess = self.guess(call)
            return _Deferred(self._put(guess) if guess else None, said=False)
        amount = self.amount(call)
        if isinstance(amount, ValueError):
            # It got here in shadow mode: there is nothing to add.
            amount = 0
        return self._put(amount) if amount > 0 else (None, amount, self.now())

    def commit(self, ticket: Any, call: JudgedCall) -> None:
        if type(ticket) is _Deferred:
            self._ended(ticket, call)
            if not self._measure(ticket, call) and not ticket.said:
                # fail-closed: what was spent is not known, so nothing more is let through.
                self._unknown(call)
        elif call.final is not None:
            self._correct(ticket, self._read(call.final))
        elif ticket[1] < 0:
            self._put(ticket[1])

    def fail(self, ticket: Any, call: JudgedCall) -> None:
        if self._refund:
            self.undo(ticket, call)
        elif type(ticket) is _Deferred:
            self._ended(ticket, call)
            if not self._measure(ticket, call) and ticket.taken is None:
                # fail-closed, as above. Where something stands for it, that is what it may have spent.
                self._unknown(call)
        else:
            self._keep(ticket, call)

    def lose(self, ticket: Any, call: JudgedCall) -> None:
        if type(ticket) is _Deferred:
            self.commit(ticket, call)
        else:
            self._keep(ticket, call)

    def undo(self, ticket: Any, call: JudgedCall) -> None:
        entry = ticket
        if type(ticket) is _Deferred:
            self._ended(ticket, call)
            entry = ticket.taken
        if entry is not None:
            self._take(entry)

    def idle(self) -> bool:
        return not (self.spent() or self._entries or self._unmeasured) and self.unread is None

    def dump(self) -> dict[str, Any]:
        entries = [[at, show(amount)] for at, amount in self._entries]
        # A call under way is an unknown outcome, and so may have spent anything.
        unread = self._unmeasured[-1] if self.unread is None and self._unmeasured else self.unread
        data: dict[str, Any] = {"total": show(self.total), "entries": entries, "unread": unread}
        if unread is not None and self.timeline is not None:
            # Until when a call under way may spend, is for whoever goes on without it to say.
            data["unread_at"] = None if self.unread is None else self._unread_at
        return data

    def load(self, data: dict[str, Any]) -> None:
        self.total = _read_shown(data["total"])
        self._entries = deque((float(at), _read_shown(amount)) for at, amount in data["entries"])
        self.unread = data["unread"]
        self._unmeasured = ()
        at = data.get("unread_at")
        self._unread_at = 0.0 if self.unread is None else self.now() if at is None else float(at)

    def _read(self, args: Any) -> Amount | ValueError:
        _, _, text, negative = self._how
        try:
            value = self._field.read(args)
            if not self._field.many:
                return read_amount(value, text=text, negative=negative)
            total: Amount = 0
            for part in value:
                total = add(total, read_amount(part, text=text, negative=negative))
            return total
        except FieldError as error:
            return error.kept()
        except AmountError as error:
            return AmountError(f"{self._field.text} {error}")

    def _keep(self, ticket: _Ticket, call: JudgedCall) -> None:
        # A call that did not succeed stays counted as what ran, and makes no room.
        ran = None if call.final is None else self._read(call.final)
        if ran is not None and not isinstance(ran, ValueError):
            self._correct(ticket, max(ran, 0))

    def _correct(self, ticket: _Ticket, ran: Amount | ValueError) -> None:
        self._take(ticket)
        # If what was spent is no longer told, what was judged still counts.
        amount = ticket[1] if isinstance(ran, ValueError) else ran
        # It limits from when it was let through, and makes room from when it has succeeded.
        self._put(amount, at=ticket[2] if len(ticket) == 3 and amount > 0 else ticket[0])

    def _unknown(self, call: JudgedCall) -> None:
        self.unread = call.step
        self._unread_at = self.now()

    def _ended(self, ticket: _Deferred, call: JudgedCall) -> None:
        if not ticket.said:
            self._unmeasured = tuple(step for step in self._unmeasured if step != call.step)

    def _measure(self, ticket: _Deferred, call: JudgedCall) -> bool:
        measured = {} if call.measured is None else call.measured
        if self._field.text not in measured:
            return False
        _, _, text, negative = self._how
        try:
            amount = read_amount(measured[self._field.text], text=text, negative=negative)
        except AmountError:
            # fail-closed: what was spent is not known, so nothing more is let through.
            self._unknown(call)
            return True
        if ticket.taken is not None:
            self._take(ticket.taken)
        self._put(amount)
        return True

    def _put(self, amount: Amount, at: float | None = None) -> tuple[float | None, Amount]:
        total = self.total
        self.total = total + amount if type(total) is int and type(amount) is int else add(total, amount)
        if self.timeline is None:
            return 0.0, amount
        if self.full():
            # Only shadow mode gets here; enforced, a full window has refused.
            self.total = subtract(self.total, self._entries.popleft()[1])
        entry = (self.timeline.now if at is None else at, amount)
        put_in_time(self._entries, entry)
        return entry

    def _take(self, ticket: _Ticket) -> None:
        if ticket[0] is None:
            return
        if self.timeline is not None:
            if ticket not in self._entries:
                return
            self._entries.remove(ticket)  # type: ignore[arg-type]  # the time is None only above
        self.total = subtract(self.total, ticket[1])


def _read_shown(text: Any) -> Amount:
    """Read what `show` wrote. A whole number stays one, by which most amounts are compared."""
    if type(text) is str and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return read_amount(text, text=True, negative=True)


class Spend(CellGuard):
    """Require that an amount fits under the limit. One that is measured later fits while anything is left."""

    __slots__ = ("_whole",)

    heeds_success = False

    def __init__(self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell) -> None:
        super().__init__(contract, guard, cell)
        # By far the most frequent: whole numbers, a whole session, one total.
        self._whole: Any = guard.n if self._fixed is not None and type(guard.n) is int else None

    def passes(self, call: JudgedCall) -> bool:
        cell, whole = self.cell, self._whole
        if whole is not None and cell.unread is None and not call.deferred:
            amount, total = call.args.get(cell.name), cell.total
            if type(amount) is int and type(total) is int and 0 <= amount <= whole - total:
                return True
        return super().passes(call)

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        spent = cell.spent()
        if cell.unread is not None:
            return False
        if call.deferred and cell.is_deferred(call):
            estimate = cell.estimate(call)
            if estimate:
                return bool(add(spent, estimate) <= self.guard.n)
            return bool(spent < self.guard.n) and not self._crowds(cell, call)
        amount = cell.amount(call)
        if isinstance(amount, ValueError) or cell.full():
            return False
        return bool(add(spent, amount) <= self.guard.n)

    def fits_alone(self, cell: Any, call: JudgedCall) -> bool:
        amount = cell.estimate(call) if cell.is_deferred(call) else cell.amount(call)
        return bool(amount <= self.guard.n if amount else self.guard.n)

    def _crowds(self, cell: Any, call: JudgedCall) -> bool:
        guess = cell.guess(call) if cell.is_guessing() else 0
        return bool(guess and add(cell.spent(), guess) > self.guard.n)

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        left = subtract(self.guard.n, cell.spent())
        breach.remaining = f"{show(max(left, 0))} left of {show(self.guard.n)}"
        amount = cell.estimate(call) or cell.guess(call) if cell.is_deferred(call) else cell.amount(call)
        if cell.is_deferred(call) and not cell.estimate(call) and cell.spent() < self.guard.n:
            breach.needs = "the calls under way to be measured, or an estimate that fits"
        if cell.unread is not None:
            breach.blame, breach.needs = cell.unread, None
            breach.fault = f"{self.guard.cell.field if self.guard.cell else 'the amount'} was not measured"
        elif isinstance(amount, ValueError):
            breach.fault = str(amount)
        elif cell.full():
            breach.fault = "the window holds as many calls as it can"
        else:
            wait_for(breach, cell, cell.free_at(amount, self.guard.n))

    def overshoots(self, call: JudgedCall) -> bool:
        """Tell whether an amount that was known only after the call broke the limit, or cannot be read."""
        cell = self.cell.at(call)
        if cell is None or not (cell.is_deferred(call) or call.final is not None):
            return False
        # First of all, which forgets what is older than the window.
        spent = cell.spent()
        return cell.unread is not None or cell.is_illegible(call) or bool(spent > self.guard.n)
