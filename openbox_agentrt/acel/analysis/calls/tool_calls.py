"""The calls of one tool that contracts tell apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...._plain.amounts import Amount
from ...condition.fact import Fact
from ...contracts.declaration import Declaration
from ...match.keys import OF_SUBJECT
from ...match.matchers import name_matches
from ...match.names import normal_name
from ..budget import Budget
from ..conditions.compared_values import ComparedValues, Domains, ReadPlace
from ..conditions.facts_told import facts_in, key_slot, places_told, slots_by_keys
from ..conditions.followed import Followed, asked_by, free_name, read_together, tools_told_by
from ..patterns.automaton import of_pattern
from ..patterns.shortest_texts import alike_texts, combinations
from ..rules.analysable import field_paths, guards_of, key_paths, patterns_of
from ..rules.components import values_needed
from ..rules.found_values import fields_looked_for, slot_of, sources_of
from .call_kind import CallKind

__all__ = ("ToolCalls", "is_about")

_MAX_TEXTS = 64
_MAX_KINDS = 4096
_MAX_TRIED = 100_000
_MAX_WHEN = 4
_MAX_PARTS = 4
_MISSING: Any = object()
_AMOUNT_IN_TEXT = "1"
# What a result has in it stands among the arguments, under names that no argument has.
_TOLD = "\0result."


class _Choice(NamedTuple):
    """A value of an argument, and whether a pattern fits it for which alone a call is refused."""

    value: Any
    refused: bool = False


class ToolCalls:
    """
    List the calls of one tool that contracts tell apart.

    Args:
        contracts: The contracts.
        tool: The tool.
        groups: Of each path of a key, the group of values that it is of.
        amounts: Of each path of an amount, the amounts that are tried.
        domains: The values of places that conditions compare with one another.
        budget: How long is searched for texts.
        most_values: So many values of a key are tried at most.

    Attributes:
        kinds: The calls.
        fixed: Of groups whose values patterns tell apart, the values.
        whole: Whether there is a call of every kind that contracts tell apart.
    """

    def __init__(
        self,
        contracts: Sequence[Declaration],
        tool: str,
        groups: Mapping[str, str],
        amounts: Mapping[str, Sequence[Amount]],
        domains: Domains,
        budget: Budget | None,
        most_values: int,
    ) -> None:
        self._about = [contract for contract in contracts if is_about(contract, tool)]
        self._judging = [contract for contract in self._about if _judges(contract, tool)]
        self._domains = domains
        self._tool = tool
        self._groups = groups
        self._budget = budget
        self.fixed: dict[str, tuple[str, ...]] = {}
        self.whole = True
        values = min(values_needed(contracts), most_values)
        sums = {path: amounts[path] for c in self._about for path in field_paths(c, "spend")}
        choices = {path: [*map(_Choice, of), _Choice(_MISSING)] for path, of in sums.items()}
        for path in choices.keys() & self._read_unlike():
            choices[path].insert(-1, _Choice(_AMOUNT_IN_TEXT))
        slots, results = self._slots()
        self._add_compared(choices, slots, values)
        self._add_told(choices, slots)
        compared = frozenset(choices)
        for path, patterns in self._patterns().items():
            texts = self._texts(path, list(patterns))
            if path in slots:
                self.fixed[slots[path]] = self._values(list(patterns), [text.value for text in texts], values)
            if path not in slots and path not in sums:
                choices[path] = [*choices.get(path, [_Choice(_MISSING)]), *texts]
            # Of what is compared otherwise as well, no text that a pattern fits is tried.
            self.whole = self.whole and path not in compared
        self.kinds = list(itertools.islice(self._kinds(choices, slots, results), _MAX_KINDS))
        self.whole = self.whole and len(self.kinds) < _MAX_KINDS

    def _read_unlike(self) -> set[str]:
        """Find the amounts that some contracts read out of a text as well, and others do not."""
        guards = (guard for contract in self._about for guard in guards_of(contract))
        cells = [guard.cell for guard in guards if guard.kind == "spend" and guard.cell is not None]
        either = ({cell.field for cell in cells if cell.text is text} for text in (True, False))
        return {path for path in set.intersection(*either) if path is not None}

    def _add_compared(self, choices: dict[str, list[_Choice]], slots: Mapping[str, str], count: int) -> None:
        """Add the values of arguments that show every answer of conditions."""
        for path, values in self._compared().items():
            place = ReadPlace("args", path)
            tried = self._domains.tried(place, values)
            if path in slots and not self._domains.are_texts(place, values):
                self.whole = False
            elif path in slots:
                texts = [value for value in tried if isinstance(value, str)]
                self.fixed[slots[path]] = (*texts, *(f"{texts[-1]} {n}" for n in range(2, count + 1)))
            else:
                self.whole = self.whole and self._domains.is_whole(place, values)
                # Amounts that are added up may come nearer to a bound than whole numbers.
                bounds = sorted(values.bounds) if path in choices else []
                near = [bound + little for bound in bounds for little in (-0.01, 0.01)]
                _offer(choices, path, [*tried, *near])

    def _compared(self) -> dict[str, ComparedValues]:
        """Find what the conditions of those contracts that judge a call compare its arguments with."""
        compared = read_together(self._asked()).compared
        return {place.name: values for place, values in compared.items() if place.of == "args"}

    def _add_told(self, choices: dict[str, list[_Choice]], slots: Mapping[str, str]) -> None:
        """Add the values that a call can tell, among its arguments or in its result."""
        told: dict[str, list[Any]] = {}
        places = places_told(self._about)
        for fact in self._facts():
            for value, source in fact.values:
                place = ReadPlace("fact", fact.label, value)
                if place not in places:
                    continue
                path = str(source.path) if source.of == "args" else f"{_TOLD}{source.path or ''}"
                told.setdefault(path, []).extend(self._domains.tried(place, places[place]))
                alone = path not in slots and (source.of == "result" or path not in choices)
                self.whole = self.whole and alone and self._domains.is_whole(place, places[place])
        # One that stands in another, or in the place of a key, is not tried by itself.
        nested = [path for path in told if any(_is_within(path, other) for other in told)]
        self.whole = self.whole and not nested
        for path, values in told.items():
            if path not in slots and path not in nested:
                _offer(choices, path, values)

    def _facts(self) -> list[Fact]:
        return [fact for fact in facts_in(self._about) if normal_name(self._tool) in fact.tools]

    def _asked(self) -> Iterator[Followed]:
        """Give the conditions that are asked of a call."""
        for contract in self._judging:
            yield from () if contract.asked_at_end else asked_by(contract)

    def _answers(self) -> list[tuple[tuple[str, bool], ...]]:
        """
        Give the answers of conditions that are free, and of the open parts of others.

        A call that is refused for one condition shows nothing more if it is for another as well.
        """
        parts = list(dict.fromkeys(name for asked in self._asked() for name in asked.open))
        self.whole = self.whole and len(parts) <= _MAX_PARTS
        # Whether such a part holds, does not, or cannot be told.
        either = (True, False) if self._domains.few else (True, False, None)
        chosen = itertools.product(either, repeat=min(len(parts), _MAX_PARTS))
        answered = [
            tuple((name, answer) for name, answer in zip(parts, of, strict=False) if answer is not None)
            for of in chosen
        ]
        return [(*answers, *of) for answers in self._free_answers() for of in answered]

    def _free_answers(self) -> list[tuple[tuple[str, bool], ...]]:
        asked = dict.fromkeys(asked.condition for asked in self._asked() if asked.is_free)
        when = [c for c in asked if any(c == contract.when for contract in self._judging)]
        checks = [c for c in asked if c not in when]
        self.whole = self.whole and len(when) <= _MAX_WHEN
        either = itertools.product((True, False), repeat=min(len(when), _MAX_WHEN))
        always = (True,) * max(0, len(when) - _MAX_WHEN)
        return [
            (
                *zip(map(free_name, when), (*chosen, *always), strict=True),
                *((free_name(condition), condition is not refused) for condition in checks),
            )
            for chosen in either
            for refused in (None, *checks)
        ]

    def _slots(self) -> tuple[dict[str, str], dict[str, str | None]]:
        """Find the arguments that are keys, and those of the slots that stand for parts of a result."""
        slots: dict[str, None] = dict.fromkeys(slots_by_keys(self._judging))
        results: dict[str, str | None] = {}
        for fact in self._facts():
            slot = key_slot(fact)
            if slot is not None and fact.key is not None:
                slots[slot] = None
                results.update({slot: fact.key.path} if fact.key.of == "result" else {})
        for contract in self._about:
            keys = key_paths(contract, self._tool)
            slots |= dict.fromkeys(path for path in keys if not path.startswith(OF_SUBJECT))
            slots |= dict.fromkeys(sorted(field_paths(contract, "distinct")))
            slots |= dict.fromkeys(fields_looked_for(contract, self._tool))
            for source in sources_of(contract):
                if source.selector.on(self._tool) is not False:
                    slots[slot_of(source)] = None
                    results.update({} if source.given else {slot_of(source): source.path})
        return {path: self._groups[path] for path in slots}, results

    def _patterns(self) -> dict[str, dict[str, None]]:
        """Find the patterns over each argument."""
        patterns: dict[str, dict[str, None]] = {}
        for contract in self._about:
            for pattern, path in _patterns_on(contract, self._tool):
                patterns.setdefault(path, {})[pattern] = None
        return patterns

    def _texts(self, path: str, patterns: Sequence[str]) -> list[_Choice]:
        """Find a text for each combination of the patterns over an argument."""
        alone = {place for place, pattern in enumerate(patterns) if self._refuses_alone(path, pattern)}
        found = combinations(list(map(of_pattern, patterns)), alone=alone, budget=self._budget)
        texts = {text: any(hits[place] for place in alone) for hits, text in found.texts.items()}
        self.whole = self.whole and found.whole and len(texts) <= _MAX_TEXTS
        return list(itertools.starmap(_Choice, texts.items()))[:_MAX_TEXTS]

    def _values(self, patterns: Sequence[str], texts: Sequence[str], count: int) -> tuple[str, ...]:
        """Give so many values of a key for each combination of patterns, as far as they are found."""
        automata = list(map(of_pattern, patterns))
        found = [alike_texts(automata, text, count) for text in texts]
        self.whole = self.whole and all(len(some) == count for some in found)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))

    def _refuses_alone(self, path: str, pattern: str) -> bool:
        """Tell whether each contract that looks for a pattern refuses a call for it, whatever happened."""
        return all(
            _refuses_what_it_names(contract)
            for contract in self._about
            if (pattern, path) in _patterns_on(contract, self._tool)
        )

    def _kinds(
        self,
        choices: Mapping[str, Sequence[_Choice]],
        slots: Mapping[str, str],
        results: Mapping[str, str | None],
    ) -> Iterator[CallKind]:
        every = self._answers()
        for number, chosen in enumerate(itertools.product(*choices.values())):
            if number >= _MAX_TRIED:
                self.whole = False
                return
            # A call that is refused for one argument shows nothing more if it is for another as well.
            if sum(choice.refused for choice in chosen) > 1:
                continue
            for answers in every:
                yield self._kind(choices, chosen, answers, slots, results)

    def _kind(
        self,
        choices: Mapping[str, Sequence[_Choice]],
        chosen: Sequence[_Choice],
        answers: tuple[tuple[str, bool], ...],
        slots: Mapping[str, str],
        results: Mapping[str, str | None],
    ) -> CallKind:
        given = zip(choices, (choice.value for choice in chosen), strict=True)
        every = [(path, value) for path, value in given if value is not _MISSING]
        args = tuple((path, value) for path, value in every if not path.startswith(_TOLD))
        told = [(path.removeprefix(_TOLD), value) for path, value in every if path.startswith(_TOLD)]
        return CallKind(
            answers=answers,
            tool=self._tool,
            args=args,
            slots=tuple(slots.items()),
            complete=len(every) == len(choices),
            told=tuple(told),
            results=tuple(results.items()),
        )


def _offer(choices: dict[str, list[_Choice]], path: str, values: Sequence[Any]) -> None:
    """Let values be tried before what is tried already, each once."""
    every = (*map(_Choice, values), *choices.get(path, [_Choice(_MISSING)]))
    choices[path] = list({repr(choice): choice for choice in every}.values())


def _is_within(path: str, other: str) -> bool:
    return path != other and (path.startswith(f"{other}.") or (other == _TOLD and path.startswith(_TOLD)))


def is_about(contract: Declaration, tool: str) -> bool:
    """Tell whether a contract can be about calls of a tool, or about what they tell."""
    return _judges(contract, tool) or normal_name(tool) in tools_told_by(contract)


def _judges(contract: Declaration, tool: str) -> bool:
    return contract.everywhere or any(role.selector.on(tool) is not False for role in contract.roles)


def _patterns_on(contract: Declaration, tool: str) -> list[tuple[str, str]]:
    """Find the patterns that a contract looks for in calls of a tool, each with its argument."""
    found = (item for role in contract.roles for item in patterns_of(role.selector.form()))
    return [(pattern, path) for name, pattern, path in found if name_matches(name, tool)]


def _refuses_what_it_names(contract: Declaration) -> bool:
    """Tell whether a contract refuses every call that it names: nothing is left to remember or to ask."""
    banned = contract.template == "never" or getattr(contract, "n", None) == 0
    (first, *_) = contract.roles
    plain = contract.mode == "enforce" and contract.excepted is None and contract.when is None
    return banned and plain and _is_of_patterns(first.selector.form())


def _is_of_patterns(form: list[Any]) -> bool:
    word, *rest = form
    return all(map(_is_of_patterns, rest)) if word == "any_of" else word in ("tool", "matching")
