"""
The state of a session: a key-value store that only results of calls write.

Predicates read it through a `StateView`. A commit writes through a `StateDraft`, whose writes
reach the store together, and only if the commit function returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..._plain.arguments import plain
from ..contracts.rules import Guard
from ..match.paths import FieldError
from .call import JudgedCall
from .clock import MonotoneClock
from .guard import Breach, LiveGuard

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract

_SCALARS = (str, int, float, bool, type(None))
_NEVER: Mapping[str, float] = {}
# What an entry is that is not there. It equals no value that a rule can ask for.
_NOTHING = object()


class StateView:
    """Read a session's state. Containers come out as copies, so a reader cannot reach into the store."""

    __slots__ = ("_data",)

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def get(self, key: str, default: Any = None) -> Any:
        """Give the value of `key`, or `default`."""
        return plain(self._data[key]) if key in self._data else default

    def snapshot(self) -> dict[str, Any]:
        """Copy every entry with its value."""
        return {key: plain(value) for key, value in list(self._data.items())}

    def __getitem__(self, key: str) -> Any:
        return plain(self._data[key])

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._data))

    def __len__(self) -> int:
        return len(self._data)

    def set(self, key: str, value: Any) -> None:
        """Refuse to write with a `TypeError`: predicates only read."""
        raise TypeError(f"state is read-only here, cannot set {key!r}")

    def update(self, values: Mapping[str, Any]) -> None:
        """Refuse to write with a `TypeError`: predicates only read."""
        raise TypeError("state is read-only here, cannot update it")

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"


class StateStore(StateView):
    """Hold the state of one session."""

    __slots__ = ("_accept", "_admit", "_stamp", "_told", "_written")

    def __init__(self, initial: Mapping[str, Any] | None = None) -> None:
        super().__init__(dict(initial or {}))
        self._accept: Callable[[Mapping[str, Any]], object] | None = None
        self._admit: Callable[[Mapping[str, Any]], object] | None = None
        self._told: Callable[[Mapping[str, Any]], None] | None = None
        self._stamp: Callable[[], float] | None = None
        self._written: Mapping[str, float] = _NEVER

    # acel-core hands out the stored objects themselves, and programs build on it:
    # state["seen"].append(x) in a commit works. Only a view copies.
    def get(self, key: str, default: Any = None) -> Any:
        """Give the value of `key`, or `default`."""
        return self._data.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def set(self, key: str, value: Any) -> None:
        """Write the value of one key."""
        self.update({key: value})

    def update(self, values: Mapping[str, Any]) -> None:
        """Write several values at once, or none where one of them is not accepted."""
        if self._admit is not None and values:
            self._admit(values)
        self.take(values)

    def take(self, values: Mapping[str, Any]) -> None:
        """Write what the end of a call has changed, whenever it comes, as `update` does."""
        if self._accept is not None:
            self._accept(values)
        self._data.update(values)
        if self._stamp is not None:
            now = self._stamp()
            self._written = {**self._written, **dict.fromkeys(values, now)}
        if self._told is not None:
            self._told(values)

    def check(self, accept: Callable[[Mapping[str, Any]], object]) -> None:
        """From now on, write only what `accept` raises nothing for."""
        self._accept = accept

    def admit(self, admit: Callable[[Mapping[str, Any]], object]) -> None:
        """From now on, write what no call has changed only if `admit` raises nothing."""
        self._admit = admit

    def tell(self, told: Callable[[Mapping[str, Any]], None]) -> None:
        """From now on, tell of each write."""
        self._told = told

    def snapshot(self) -> dict[str, Any]:
        """Copy everything, values themselves excepted."""
        return dict(self._data)

    def raw(self, key: str) -> Any:
        """Give the stored value of `key` itself, or None."""
        return self._data.get(key)

    def view(self) -> StateView:
        """Give the same state, to be read only. It follows later writes."""
        return StateView(self._data)

    def keep_times(self, clock: Callable[[], float]) -> None:
        """From now on, remember when each key was written. What is there already was written now."""
        if self._stamp is None:
            self._stamp = clock
            self._written = dict.fromkeys(self._data, clock())

    def load(self, data: Mapping[str, Any]) -> None:
        """Hold what another store held."""
        self._data.clear()
        self._data.update(data)

    def renew(self, data: Mapping[str, Any], *, written: Mapping[str, float] | None = None) -> None:
        """Hold other entries in place of all there are, as of when they were `written`, or now."""
        self.load(data)
        if written is None:
            written = _NEVER if self._stamp is None else dict.fromkeys(data, self._stamp())
        self._written = written

    def written(self) -> dict[str, float]:
        """Tell when each key was last written, as far as times are kept."""
        return dict(self._written)

    def resume(self, written: Mapping[str, float]) -> None:
        """Go on with the times of another store."""
        self._written = {**self._written, **written}

    def written_at(self, key: str) -> float | None:
        """Tell when `key` was last written; None if it never was, or times are not kept."""
        return self._written.get(key)


class StateDraft(StateStore):
    """
    Collect writes on top of a store, which reach it only through `publish`.

    A container that is read becomes a write: it is handed out as a copy, and what the commit function
    does to the copy counts.
    """

    __slots__ = ("_target",)

    def __init__(self, target: StateStore) -> None:
        super().__init__(None)
        self._target = target

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __getitem__(self, key: str) -> Any:
        if key in self._data:
            return self._data[key]
        value = self._target[key]
        copy = plain(value)
        if copy is not value:
            self._data[key] = copy
        return copy

    def __contains__(self, key: object) -> bool:
        return key in self._data or key in self._target

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.snapshot()))

    def __len__(self) -> int:
        return len(self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        return {**self._target.view().snapshot(), **self._data}

    def publish(self) -> None:
        """Let the writes reach the store, together."""
        if self._data:
            self._target.take(self._data)


class InState(LiveGuard):
    """Require that a state entry has a value."""

    __slots__ = ("_key", "_state", "timeline")

    def __init__(
        self,
        contract: TemporalContract | SessionRule,
        guard: Guard,
        state: StateStore,
        timeline: MonotoneClock | None,
    ) -> None:
        super().__init__(contract, guard)
        self._state = state
        self._key = guard.key
        self.timeline = timeline

    def passes(self, call: JudgedCall) -> bool:
        found = self._state.raw(self.guard.entry)
        if self._key is not None:
            found = self._entry(found, call.key(self._key))
        return self._is_recent() and same_scalar(found, self.guard.value)

    def explain(self, call: JudgedCall) -> Breach:
        breach = super().explain(call)
        key = None if self._key is None else call.key(self._key)
        if isinstance(key, FieldError):
            breach.needs, breach.fault = None, str(key)
        elif self.timeline is not None:
            breach.fault = self.timeline.fault
        return breach

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        return self._key is None or call.key(self._key) == ran.key(self._key)

    def clocked(self) -> Any:
        return self

    def _entry(self, found: Any, key: str | FieldError) -> Any:
        if not isinstance(key, str) or not isinstance(found, dict) or self._key is None:
            return _NOTHING
        if key in found:
            return found[key]
        # Whoever wrote the entry may have spelt its name otherwise. Of two spellings, none is the one.
        names = [name for name in found if isinstance(name, str) and self._key.spelt(name) == key]
        return found[names[0]] if len(names) == 1 else _NOTHING

    def _is_recent(self) -> bool:
        if self.timeline is None or self.guard.within is None:
            return True
        written = self._state.written_at(self.guard.entry)
        if self.timeline.fault is not None or written is None:
            return False
        return self.timeline.now - written <= self.guard.within


def same_scalar(found: Any, wanted: Any) -> bool:
    """
    Tell whether a state entry is the wanted value. A number is no boolean: 1 is not True.

    Only plain values are compared, so no object's own idea of equality runs here.
    """
    if type(found) not in _SCALARS or isinstance(found, bool) is not isinstance(wanted, bool):
        return False
    return bool(found == wanted)
