"""Remember what calls have told a session, by key."""

from __future__ import annotations

from typing import Any

from ..._values import dataclass
from ..condition.fact import Fact
from ..match.results import Result
from .call import JudgedCall
from .cell import LiveCell


@dataclass(frozen=True, slots=True)
class KnownFact:
    """
    Hold a fact that a call told.

    Attributes:
        step: The step of the call that told it.
        values: Its values.
    """

    step: int
    values: dict[str, Any]


class FactMemory(LiveCell):
    """
    Keep the latest of what calls told about each key. At the bound, the oldest is forgotten.

    A fact is what a tool returned, whoever was shown something else of it.

    Attributes:
        fact: What is told, and by which calls.
    """

    __slots__ = ("_bound", "_known", "_name", "fact", "learns")

    settles_by_ticket = True

    def __init__(self, fact: Fact, *, bound: int) -> None:
        self.fact = fact
        self.learns = self._name = f"facts.{fact.label}"
        self._bound = bound
        self._known: dict[str, KnownFact] = {}

    def find(self, key: Any) -> KnownFact | None:
        """
        Find what is known about a key, however it is spelt.

        Raises:
            FieldError: It is no key.
        """
        return self._known.get("" if self.fact.key is None else self.fact.spelt(key))

    def learn(self, call: JudgedCall, result: Result) -> Any:
        told = self.fact.told(call.args, result.data)
        if told is None:
            return None
        # Each under the name of the field that it comes from, by which it may have to be hidden.
        values = {name: {self.fact.field_of(name): value} for name, value in told.values.items()}
        return {"key": {self.fact.field_of(None): told.key}, "values": values}

    def commit(self, ticket: Any, call: JudgedCall) -> None:
        told = None if call.learnt is None else call.learnt.get(self._name)
        if told is not None:
            (key,) = told["key"].values()
            values = {name: next(iter(held.values())) for name, held in told["values"].items()}
            # The latest stands last, so that the oldest is the first.
            self._known.pop(key, None)
            self._known[key] = KnownFact(call.step, values)
            if len(self._known) > self._bound:
                del self._known[next(iter(self._known))]

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        return False

    def idle(self) -> bool:
        return not self._known

    def dump(self) -> dict[str, list[Any]]:
        return {key: [known.step, known.values] for key, known in self._known.items()}

    def load(self, data: dict[str, list[Any]]) -> None:
        known = {key: KnownFact(int(step), dict(values)) for key, (step, values) in data.items()}
        # What was written down has no order, and the oldest is forgotten first.
        self._known = dict(sorted(known.items(), key=lambda entry: (entry[1].step, entry[0])))
