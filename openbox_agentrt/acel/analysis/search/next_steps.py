"""
One machine, or two beside each other, and what can happen next to all of them.

Values of keys are alike until a session has seen them. So a state is called by the names that its values have
in the first state that is like it, and of values of which the same is known, one stands for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from ...match.keys import OF_SUBJECT
from ..calls.alphabet import MOST_FOUND, Alphabet
from ..calls.call_kind import ALL_ARGUMENTS, CallKind, with_values
from ..rules.found_values import result_with
from .alike_values import Names
from .engine_machine import Machine
from .state import Outcome, State, Transition, Try
from .zone import first_zone

__all__ = ("Beside", "Ends", "Time", "World")

Beside: TypeAlias = tuple[State, ...]
"""The state of each machine."""

Ends: TypeAlias = "list[tuple[Outcome, Beside, Names]]"
"""The ways in which a step can end, each with how values are called after it."""

Time: TypeAlias = Literal["in waits", "freely", "in a zone"]
"""
By some waits; or, for one machine, by whatever waits, so that each thing that is remembered gets too old at
any time by itself, or only as ages allow. See `passing`.
"""

_Present: TypeAlias = dict[str, dict[str, list[Any]]]

# What a result has in the place of a value, if it has none there.
_NOTHING = "\0"

_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_ALIVE = "abcdefghijklmnopqrstuvwxyz"


class World:
    """
    Let the same happen to some machines.

    Args:
        machines: The machines.
        alphabet: The calls.
        values: So many values of a key may be needed.
        time: How time passes.

    Attributes:
        machines: See above.
        time: See above.
        limited: Whether a call with one more value was left out.
    """

    def __init__(
        self, machines: Sequence[Machine], alphabet: Alphabet, *, values: int, time: Time = "in waits"
    ) -> None:
        self.machines = tuple(machines)
        self.time = time
        self._alphabet = alphabet
        self._needed = values
        self._values = min(values, alphabet.most_values)
        self._related = frozenset().union(*(machine.values.related for machine in machines))
        self._written = _written(machines)
        self.limited = False

    def first(self) -> Beside:
        """Give the state of a new session in each machine."""
        zone = first_zone() if self.time == "in a zone" else None
        return tuple(replace(machine.first(), zone=zone) for machine in self.machines)

    def steps(self, states: Beside) -> Iterator[Transition]:
        """List what can happen next."""
        if all(state.shut for state in states):
            return
        present = self._present(states)
        for kind in self._alphabet.kinds:
            yield from (Transition(kind=kind, values=values) for values in self._values_for(kind, present))
        # What lacks a key comes last: of two traces of a length, the one with all arguments reads better.
        for kind in self._alphabet.kinds:
            yield from (
                Transition(kind=kind, values=values) for values in self._values_without(kind, present)
            )
        yield from self._other_steps(states, present)

    def calls_of(self, tools: Collection[str], states: Beside) -> Iterator[Transition]:
        """List the calls of some tools that have all keys."""
        present = self._present(states)
        for kind in self._alphabet.kinds:
            for values in self._values_for(kind, present) if kind.tool in tools else ():
                yield Transition(kind=kind, values=values)

    def _other_steps(self, states: Beside, present: _Present) -> Iterator[Transition]:
        if self.time == "in waits":
            yield from (Transition(seconds=seconds) for seconds in self._alphabet.waits)
        else:
            ((machine,), (state,)) = self.machines, states
            yield from machine.windows.steps(state)
        yield from (Transition(period=period) for period in self._alphabet.periods)
        for kind, values in dict.fromkeys((kind, values) for _, kind, values in states[0].flying):
            yield Transition(kind=kind, values=values, ended=True)
        for entry, (values, group) in self._written.items():
            names = [None] if group is None else self._choices(group, present)
            yield from (Transition(entry=(entry, value, name)) for value in values for name in names)

    def tried(self, states: Beside, call: Transition, contract: int | None) -> tuple[Try, bool]:
        """Do as `Machine.tried` where there is one machine."""
        (machine,), (state,) = self.machines, states
        return machine.tried(state, call, contract)

    @property
    def is_crowded(self) -> bool:
        """Tell whether a state was left out in which too many ages would have to be followed."""
        return any(machine.windows.crowded for machine in self.machines)

    @property
    def lacks_values(self) -> bool:
        """Tell whether a call that may be needed was left out: with one more value than are told apart."""
        return self.limited and self._needed > self._values

    def has_values(self, states: Beside, count: int) -> bool:
        """Tell whether so many values of each key are left in a state that no session has seen."""
        known = self._present(states)
        keyed = {group for kind in self._alphabet.kinds for _, group in kind.slots}
        return all(self._left(group, known.get(group, {})) >= count for group in keyed)

    def _left(self, group: str, known: Mapping[str, Any]) -> int:
        """Say how many values of a group no session has seen, of those that there are the fewest of."""
        if group.startswith(OF_SUBJECT):
            return self._values
        tried = min(self._values, MOST_FOUND) if group in self._alphabet.found else self._values
        return tried - len(known)

    def answer(self, states: Beside, step: Transition) -> tuple[list[Try], Ends]:
        """
        Tell what a step comes to.

        Returns:
            What each machine says of a call, and how it can end; in no way where they do not agree.
        """
        answers = [m.answer(state, step) for m, state in zip(self.machines, states, strict=True)]
        tries = [tried for tried, _ in answers if tried is not None]
        if len({tried.admitted for tried in tries}) > 1:
            return tries, []
        ends: Ends = []
        for outcome in _OUTCOMES:
            if not any(outcome in of for _, of in answers):
                continue
            after = [of.get(outcome, state) for (_, of), state in zip(answers, states, strict=True)]
            named, names = self._named(tuple(after))
            if all(named != known for _, known, _ in ends):
                ends.append((outcome, named, names))
        return tries, ends

    def args_of(self, step: Transition, names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        """Write the arguments of a call, with its values called as `names` says of each group."""
        assert step.kind is not None
        return with_values(step.kind, self._called(step.kind, step, names))

    def result_of(self, step: Transition, names: Mapping[str, Mapping[str, str]]) -> Any:
        """Write what a call returns that contracts look at; None if there is nothing."""
        assert step.kind is not None
        return result_with(step.kind.results, self._called(step.kind, step, names), step.kind.told)

    def is_written_out(self, group: str) -> bool:
        """Tell whether the values of a group are as people read them, so that none gets another name."""
        return group in self._alphabet.fixed

    def _called(
        self, kind: CallKind, step: Transition, names: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        groups = dict(kind.slots)
        return {path: names[groups[path]].get(value, value) for path, value in step.values}

    def group_of_entry(self, entry: str) -> str | None:
        """Give the group of the names in an entry of the state that is a mapping, or None."""
        return self._written[entry][1]

    def _present(self, states: Beside) -> _Present:
        found: _Present = {}
        for place, (machine, state) in enumerate(zip(self.machines, states, strict=True)):
            for group, name, about in machine.values.present(state):
                found.setdefault(group, {}).setdefault(name, []).append((place, about))
        return found

    def _values_for(self, kind: CallKind, present: _Present) -> Iterator[tuple[tuple[str, str], ...]]:
        if not kind.slots:
            yield ()
            return
        results = dict(kind.results)
        groups = [group for _, group in kind.slots]
        choices = [
            [*self._found(group, present), _NOTHING]
            if path in results
            else self._choices(group, present, fresh=groups.count(group))
            for path, group in kind.slots
        ]
        paths = [path for path, _ in kind.slots]
        for chosen in itertools.product(*choices):
            yield tuple((p, value) for p, value in zip(paths, chosen, strict=True) if value != _NOTHING)

    def _values_without(self, kind: CallKind, present: _Present) -> Iterator[tuple[tuple[str, str], ...]]:
        results = dict(kind.results)
        slots = [(path, group) for path, group in kind.slots if path not in results]
        paths = [path for path, _ in slots]
        choices = [self._choices(group, present) for _, group in slots]
        for left_out in paths:
            if left_out != ALL_ARGUMENTS:
                some = zip(paths, choices, strict=True)
                yield tuple((path, of[0]) for path, of in some if path != left_out and of)

    def _found(self, group: str, present: _Present) -> Iterable[str]:
        """List the values that a result can have in it."""
        known = self._alphabet.found.get(group)
        return self._choices(group, present) if known is None else known

    def _choices(self, group: str, present: _Present, *, fresh: int = 1) -> list[str]:
        known = present.get(group, {})
        fixed = self._alphabet.fixed.get(group)
        if fixed is not None:
            self.limited = self.limited or self._left(group, known) <= 0
            return list(fixed)
        if group == ALL_ARGUMENTS:
            self.limited = self.limited or self._left(group, known) <= 0
            return list(_ALIVE[: self._values])
        if group in self._related:
            names = list(known)
        else:
            # Of values of which the same is known, one stands for all.
            names = list({repr(sorted(map(repr, about))): name for name, about in known.items()}.values())
        new = [name for name in _ALIVE[: self._values] if name not in known][:fresh]
        self.limited = self.limited or not new
        return [*sorted(names), *new]

    def _named(self, states: Beside) -> tuple[Beside, Names]:
        """Call values by the names that they have in the first state that is like this one."""
        names: Names = {}
        for group, known in self._present(states).items():
            if group in self._alphabet.fixed or group == ALL_ARGUMENTS:
                continue
            order = sorted(known, key=lambda name: (repr(sorted(map(repr, known[name]))), name))
            names[group] = dict(zip(order, _ALIVE, strict=False))
        if all(old == new for known in names.values() for old, new in known.items()):
            return states, names
        renamed = (m.values.renamed(state, names) for m, state in zip(self.machines, states, strict=True))
        return tuple(renamed), names


def _written(machines: Sequence[Machine]) -> dict[str, tuple[tuple[Any, ...], str | None]]:
    """Find the values of each entry of the state that one of the machines tells from others."""
    values: dict[str, dict[str, Any]] = {}
    groups: dict[str, str | None] = {}
    for machine in machines:
        for entry, some in machine.entries.values.items():
            values.setdefault(entry, {}).update(some)
            groups.setdefault(entry, machine.entries.groups[entry])
    return {entry: (tuple(some.values()), groups[entry]) for entry, some in values.items()}
