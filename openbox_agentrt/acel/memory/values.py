"""
Remember values that calls have returned, and guard where the values of an argument come from.

A value is known by its digest. What names values, such as the user's request, is known by the digests of its
words and their places. At the bound the oldest is forgotten, which can only refuse more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..._plain.arguments import plain_value
from ..contracts.rules import Guard
from ..match.paths import MISSING, FieldError, FieldPath
from ..match.provenance import ValueReading, reading_of, texts_in
from ..match.results import Result
from .call import JudgedCall
from .cell import LearnsFrom, LiveCell
from .clock import MonotoneClock
from .digests import Digests
from .guard import Breach, LiveGuard

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract


# So many words of texts that name values are kept, however few values are.
MAX_WORDS = 20_000


class AskedValue:
    """
    Hold a value of a call as the memories of its session know it.

    Attributes:
        spelt: What of it is compared.
    """

    __slots__ = ("_digests", "_name", "_reading", "_value", "_whole", "_words", "spelt")

    def __init__(self, value: Any, name: str, reading: ValueReading, digests: Digests) -> None:
        self.spelt = reading.value(value, name)
        self._value = value
        self._name = name
        self._reading = reading
        self._digests = digests
        self._whole: str | None = None
        self._words: list[str] | None = None

    @property
    def whole(self) -> str:
        """Give the digest of the whole value."""
        if self._whole is None:
            self._whole = self._digests.of(self.spelt)
        return self._whole

    @property
    def words(self) -> list[str]:
        """Give the digests of the words that name it; none if it has no words."""
        if self._words is None:
            try:
                words = self._reading.name(self._value, self._name)
            except FieldError:
                words = []
            self._words = [self._digests.of(word) for word in words]
        return self._words


class LearningCell(LiveCell):
    """
    Remember what calls have found out, at a path of their results or arguments.

    Attributes:
        learns: See `Mover`.
        learns_from: See `Mover`.
    """

    __slots__ = ("_bound", "_digests", "_path", "_reading", "learns", "learns_from", "timeline", "within")

    settles_by_ticket = True

    def __init__(
        self,
        name: str,
        path: str | None,
        reading: ValueReading,
        *,
        digests: Digests,
        bound: int,
        learns_from: LearnsFrom = "result",
        timeline: MonotoneClock | None = None,
        within: float | None = None,
    ) -> None:
        self.learns: str = name
        self.learns_from: LearnsFrom = learns_from
        self.timeline = timeline
        self.within = within
        self._path = None if path is None else FieldPath(path)
        self._reading = reading
        self._digests = digests
        self._bound = bound

    def learn(self, call: JudgedCall, result: Result) -> dict[str, list[Any]] | None:
        found = result.find(self._path) if self.learns_from == "result" else self._in_arguments(call)
        read = self._read(found)
        # By the field's own name, so that it is not recorded if that must not be.
        name = "result" if self._path is None else self._path.text.rpartition(".")[2]
        return {name: read} if read else None

    def commit(self, ticket: Any, call: JudgedCall) -> None:
        learnt = (call.learnt or {}).get(self.learns)
        if learnt is not None:
            self.keep(learnt, call)

    def keep(self, learnt: Any, call: JudgedCall) -> None:
        # What stands in a journal may be hidden there; it then vouches for nothing.
        for read in learnt.values() if isinstance(learnt, Mapping) else ():
            if isinstance(read, list):
                self._put(read, call.step if self.timeline is None else self.timeline.now)

    @abstractmethod
    def _read(self, found: Iterator[Any]) -> list[Any]:
        """Read what stands at the path into what is remembered."""

    @abstractmethod
    def _put(self, read: list[Any], at: float) -> None:
        """Remember what was read, as of a step or a time."""

    def _in_arguments(self, call: JudgedCall) -> Iterator[Any]:
        if call.args.get("nested") is True:
            # The prompt of an agent that another one has asked: its words are a model's, and no user's.
            return iter(())
        return iter((call.args,)) if self._path is None else self._path.reach(call.args)

    def _counts(self, at: float) -> bool:
        """Tell whether what is remembered as of `at` counts still."""
        return self.timeline is None or self.within is None or self.timeline.now - at <= self.within


class Values(LearningCell):
    """Remember values by their digests, each with the step or time at which it was last found."""

    __slots__ = ("_last",)

    def __init__(self, name: str, path: str | None, reading: ValueReading, **more: Any) -> None:
        super().__init__(name, path, reading, **more)
        self._last: dict[str, float] = {}

    def vouches_for(self, asked: AskedValue) -> bool:
        """Tell whether a call has found out the value."""
        at = self._last.get(asked.whole)
        return at is not None and self._counts(at)

    def _read(self, found: Iterator[Any]) -> list[str]:
        digests: dict[str, None] = {}
        for value in islice(elements(found), self._bound):
            try:
                digests[self._digests.of(self._reading.value(value, ""))] = None
            except FieldError:
                # What is no name of anything vouches for nothing.
                continue
        return list(digests)

    def _put(self, read: list[Any], at: float) -> None:
        last = self._last
        for digest in read:
            last.pop(digest, None)
            last[digest] = at
        while len(last) > self._bound:
            del last[next(iter(last))]

    def idle(self) -> bool:
        return not self._last

    def dump(self) -> dict[str, float]:
        return dict(self._last)

    def load(self, data: dict[str, Any]) -> None:
        self._last = {str(digest): float(at) for digest, at in data.items()}


class Words(LearningCell):
    """
    Remember texts by the digests of their words, and where in them each word stands.

    A text names a value whose words stand in it, whole, next to each other and in their order.
    """

    __slots__ = ("_end", "_places", "_size", "_texts")

    def __init__(self, name: str, path: str | None, reading: ValueReading, **more: Any) -> None:
        super().__init__(name, path, reading, **more)
        self._clear()

    def vouches_for(self, asked: AskedValue) -> bool:
        """Tell whether a text that a call has found out names the value."""
        self._forget_past()
        words = asked.words
        if not words:
            return False
        first, *others = (self._places.get(word) for word in words)
        if first is None or None in others:
            return False
        return any(all(place + n in after for n, after in enumerate(others, 1) if after) for place in first)

    def _read(self, found: Iterator[Any]) -> list[Any]:
        texts = []
        left = MAX_WORDS
        for text in (text for value in found for text in texts_in(plain_value(value), names=True)):
            words = [[*map(self._digests.of, spellings)] for spellings in self._reading.words(text)[:left]]
            if words:
                texts.append(words)
                left -= len(words)
            if left <= 0:
                break
        return texts

    def _put(self, read: list[Any], at: float) -> None:
        for words in read:
            self._texts.append((at, self._end, words))
            for place, spellings in enumerate(words, self._end):
                for word in spellings:
                    self._places.setdefault(word, set()).add(place)
            # Between two texts, nothing is next to each other.
            self._end += len(words) + 1
            self._size += len(words)
        while self._size > MAX_WORDS:
            self._forget()

    def _forget_past(self) -> None:
        while self._texts and not self._counts(self._texts[0][0]):
            self._forget()

    def _forget(self) -> None:
        _, start, words = self._texts.popleft()
        self._size -= len(words)
        for place, spellings in enumerate(words, start):
            for word in set(spellings):
                self._places[word].discard(place)
                if not self._places[word]:
                    del self._places[word]

    def _clear(self) -> None:
        self._texts: deque[tuple[float, int, list[list[str]]]] = deque()
        self._places: dict[str, set[int]] = {}
        self._end = 0
        self._size = 0

    def idle(self) -> bool:
        self._forget_past()
        return not self._texts

    def dump(self) -> list[list[Any]]:
        return [[at, words] for at, _, words in self._texts]

    def load(self, data: list[list[Any]]) -> None:
        self._clear()
        for at, words in data:
            self._put([words], float(at))


class Known(LiveGuard):
    """Require that each value of an argument was found out by an earlier call, or is one of a list."""

    __slots__ = ("_digests", "_field", "_how", "_listed", "_optional", "_reading", "_sources")

    def __init__(
        self,
        contract: TemporalContract | SessionRule,
        guard: Guard,
        sources: Sequence[Values | Words],
        digests: Digests,
    ) -> None:
        super().__init__(contract, guard)
        assert guard.field is not None
        self._field = FieldPath(guard.field)
        self._reading = reading_of(guard.match, guard.fold)
        self._listed = guard.listed
        self._optional = guard.optional
        self._sources = tuple(sources)
        self._digests = digests
        # Contracts over the same argument read it once.
        self._how = (self._field.text, self._reading, self._optional)

    def passes(self, call: JudgedCall) -> bool:
        asked = self._asked(call)
        return not isinstance(asked, FieldError) and all(map(self._is_known, asked))

    def explain(self, call: JudgedCall) -> Breach:
        breach = super().explain(call)
        asked = self._asked(call)
        if isinstance(asked, FieldError):
            breach.fault = str(asked)
            return breach
        # Which one, and not what: a refusal holds no argument.
        unknown = [place for place, value in enumerate(asked) if not self._is_known(value)]
        if unknown and len(asked) > 1:
            breach.needs = f"{breach.needs}, for value {unknown[0] + 1} of {len(asked)}"
        faults = (source.timeline.fault for source in self._sources if source.timeline is not None)
        breach.fault = next(filter(None, faults), None)
        return breach

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        judged, after = self._asked(call), self._asked(ran)
        if isinstance(judged, FieldError) or isinstance(after, FieldError):
            return False
        return {value.spelt for value in after} <= {value.spelt for value in judged}

    def clocked(self) -> Any:
        return self._sources[0] if self._sources else None

    def _is_known(self, asked: AskedValue) -> bool:
        if asked.spelt in self._listed:
            return True
        for source in self._sources:
            if source.vouches_for(asked) and (source.timeline is None or source.timeline.fault is None):
                return True
        return False

    def _asked(self, call: JudgedCall) -> list[AskedValue] | FieldError:
        memo = call.memo
        if memo is None:
            memo = call.memo = {}
        asked: list[AskedValue] | FieldError | None = memo.get(self._how)
        if asked is None:
            try:
                asked = self._read(call)
            except FieldError as error:
                asked = error.kept()
            memo[self._how] = asked
        return asked

    def _read(self, call: JudgedCall) -> list[AskedValue]:
        field = self._field
        if self._optional and self._is_left_out(call.args):
            return []
        value = field.read(call.args)
        if type(value) is str and self._reading.match == "exact":
            # By far the most frequent.
            return [AskedValue(value, field.text, self._reading, self._digests)]
        values = elements(value if field.many else (value,))
        asked = [one for value in values for one in self._reading.asked(value, field.text)]
        return [AskedValue(one, field.text, self._reading, self._digests) for one in asked]

    def _is_left_out(self, args: Mapping[str, Any]) -> bool:
        named, found = args.get(self._field.text), self._field.find(args)
        return named is None and all(value is MISSING or value is None for value in found)


def elements(values: Iterable[Any]) -> Iterator[Any]:
    """Give each value, and of a list each element."""
    for value in values:
        if isinstance(value, list | tuple | set):
            yield from value
        else:
            yield value
