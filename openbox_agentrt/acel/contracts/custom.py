"""Contracts with code of their own: subclasses of `TemporalContract` that implement `_step`."""

from __future__ import annotations

from typing import Any

from ..._plain.arguments import plain_args
from ..callbacks import fault_text
from ..memory.call import JudgedCall
from ..memory.cell import Mover
from ..memory.guard import Breach, LiveGuard
from ..verdict import Verdict
from .base import TemporalContract
from .rules import Guard


class CustomMover(Mover):
    """
    Follows calls with the attributes of a contract object, which are what it remembers.

    A call that never ran is taken back only if no other call came after it: what `_step` did cannot be
    undone out of order.
    """

    __slots__ = ("_contract", "_version")

    def __init__(self, contract: TemporalContract) -> None:
        self._contract = contract
        self._version = 0

    def would_break(self, call: JudgedCall) -> bool | str:
        """Tell whether the call would break the contract, or give the fault that hides it."""
        contract = self._contract
        if contract.verdict is Verdict.VIOLATED:
            return False
        saved = contract._save()
        try:
            return contract.on_event(call.tool, plain_args(call.args)) is Verdict.VIOLATED
        except Exception as error:  # noqa: BLE001 - fail-closed: a contract that cannot judge refuses
            return fault_text("the contract", error)
        finally:
            contract._load(saved)

    def reserve(self, call: JudgedCall) -> tuple[int, Any]:
        saved = self._contract._save()
        self._version += 1
        try:
            self._contract.on_event(call.tool, plain_args(call.args))
        except Exception:  # noqa: BLE001 - only shadow mode gets here, and `would_break` has reported it
            self._contract._load(saved)
        return self._version, saved

    def undo(self, ticket: tuple[int, Any], call: JudgedCall) -> None:
        version, saved = ticket
        if version == self._version:
            self._contract._load(saved)


class CustomGuard(LiveGuard):
    """The contract's own code does not object."""

    __slots__ = ("mover",)

    contract: TemporalContract

    def __init__(self, contract: TemporalContract) -> None:
        super().__init__(contract, Guard(kind="never"))
        self.mover = CustomMover(contract)

    def passes(self, call: JudgedCall) -> bool:
        return self.mover.would_break(call) is False

    def explain(self, call: JudgedCall) -> Breach:
        answer = self.mover.would_break(call)
        return Breach(contract=self.contract, fault=answer if isinstance(answer, str) else None)

    def at_end(self, call: JudgedCall) -> Breach | None:
        """Ask the contract when the session ends, if it was not broken before."""
        if self.contract.verdict is Verdict.VIOLATED:
            return None
        try:
            broken = self.contract.on_session_end() is Verdict.VIOLATED
            return Breach(contract=self.contract, stops=False) if broken else None
        except Exception as error:  # noqa: BLE001 - fail-closed: a contract that cannot tell is reported
            return Breach(contract=self.contract, stops=False, fault=fault_text("the contract", error))
