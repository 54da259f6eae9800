"""
Say as plain data what a contract says about a call.

A contract is compiled per tool into a `Rule`: guards, which have to hold for the call to be
allowed, and moves, the cells that the call changes. A cell is a piece of the session's memory; here
it is only named. Two contracts that name the same cell share it, so a hundred contracts over one
tool count its calls once.

Nothing here holds state and nothing runs, so a store that keeps its cells elsewhere, behind an
atomic "judge and reserve", can execute the same rules.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal

from ..._plain.digest import text_digest
from ..._values import dataclass, field
from ..match.selector import is_plain

if TYPE_CHECKING:
    from ..._plain.amounts import Amount
    from ..._plain.calendar import Per
    from ..._plain.spelling import Fold
    from ..condition.condition import Condition
    from ..condition.fact import Fact
    from ..match.keys import Key
    from ..match.provenance import Match

# A window never remembers more calls than this; a larger limit could not be told from none.
MAX_IN_WINDOW = 10_000

CellKind = Literal[
    "tally",
    "stamps",
    "marks",
    "sum",
    "distinct",
    "tokens",
    "pending",
    "latest",
    "step",
    "fresh",
    "flights",
    "values",  # what calls have found out
    "words",  # texts that they have found out, which name values
    "secrets",  # what must not go out again
    "facts",
]

GuardKind = Literal[
    "need",  # so many successful calls
    "ban",  # no call that has started
    "cap",  # fewer than n calls that have started
    "spend",  # the amount fits under the limit
    "distinct",  # no new value beyond the n-th
    "token",  # one unused prerequisite
    "next",  # the call before was the one
    "fresh",  # a prerequisite since the latest call that voids them
    "state",  # a state entry has a value
    "condition",  # a condition holds
    "settled",  # nothing is owed
    "overdue",  # nothing is owed for too long
    "known",  # each value was found out by a call
    "kept_out",  # no secret stands in the argument
    "never",  # cannot hold
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """
    The name of one piece of memory. Equal names are one piece.

    Attributes:
        kind: What it remembers.
        of: The selectors whose calls it is about, and how they are read.
        label: Those selectors as text, which every process writes alike.
        forms: Those selectors, and how they are read, in a form that every process has.
        key: The argument that splits it: one piece per value.
        within: Seconds after which what it remembers no longer counts; None for the whole session.
        field: Path of the argument whose values it adds up or tells apart.
        fold: Which spellings of such a value are one.
        refund: Whether a call that ran and failed is taken back.
        text: Whether text is read as a number.
        negative: Whether amounts below zero are allowed.
        saving: Whether unused prerequisites add up.
        lasting: Whether a value that was used is remembered to the end.
        match: What of a value is compared.
        given: Whether the field is one of the arguments and not of the result.
        estimate: What an amount that is measured later is taken for until then.
        clock: A clock of its own, by identity.
        per: The calendar period after which it starts anew.
        tz: The time zone of the period.
        scale: Decimals that are counted of an amount, for a cell of the fleet.
        fact: What is kept of its calls.
    """

    kind: CellKind
    of: tuple[Hashable, ...]
    label: str = field(compare=False)
    forms: tuple[Any, ...] = field(compare=False, default=())
    key: Key | None = None
    within: float | None = None
    field: str | None = None
    fold: Fold | None = None
    refund: bool = False
    text: bool = False
    negative: bool = False
    saving: bool = True
    lasting: bool = False
    match: Match | None = None
    given: bool = False
    estimate: Amount | None = None
    clock: Hashable = None
    per: Per | None = None
    tz: str = "UTC"
    scale: int = 0
    fact: Fact | None = None

    def __hash__(self) -> int:
        # What tells most cells apart: a session looks for one whenever a tool is first called.
        return hash((self.kind, self.of, self.field, self.within))

    @property
    def is_tally(self) -> bool:
        """Tell whether it counts calls and nothing else: for the whole session, and all of them together."""
        return self.kind == "tally" and self.key is None and self.within is None and self.per is None

    def unique_name(self) -> str:
        """Name the cell in snapshots, so that a tool that is called like a pattern is not taken for it."""
        if all(map(is_plain, self.forms)):
            return self.name()
        said = json.dumps(self.forms, sort_keys=True, ensure_ascii=False)
        return f"{self.name()} #{text_digest(said)[:16]}"

    def name(self) -> str:
        """Write the cell as text."""
        flags = [
            flag
            for flag, on in (
                (f"key={self.key and self.key.text}", self.key is not None),
                (f"within={self.within}", self.within is not None),
                (f"field={self.field}", self.field is not None),
                (f"fold={self.fold}", self.fold is not None),
                ("refund", self.refund),
                ("text", self.text),
                ("negative", self.negative),
                ("once", not self.saving),
                ("lasting", self.lasting),
                (f"match={self.match}", self.match is not None),
                ("given", self.given),
                (f"estimate={self.estimate}", self.estimate is not None),
                ("own clock", self.clock is not None),
                (f"per={self.per} {self.tz}", self.per is not None),
            )
            if on
        ]
        return f"{self.kind}({'; '.join([self.label, *flags])})"

    def fleet_name(self) -> str:
        """
        Name the cell in a shared store: the same text in every process and version for the same thing.

        Limits are no part of it, so a contract whose limit is changed goes on with what was counted.
        """
        said = {
            "kind": self.kind,
            "of": self.forms,
            "key": None if self.key is None else self.key.form(),
            "fold": None if self.key is None else self.key.fold,
            "within": self.within,
            "per": None if self.per is None else [self.per, self.tz],
            "field": self.field,
            "values": self.fold,
            "flags": [name for name in ("refund", "text", "negative") if getattr(self, name)],
            "saving": self.saving,
            "scale": self.scale,
        }
        return json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """
    A comparison that has to hold.

    Attributes:
        kind: Which comparison.
        cell: What it looks at.
        other: A second cell, for "next".
        n: The limit.
        needs: What would make it hold, in the contract's own words.
        entry: The state entry that it is about.
        value: The value that the entry must have.
        key: The argument that says which entry of a mapping is meant.
        within: Seconds for which what was written counts.
        sources: The memory of what calls have found out.
        field: Path of the argument whose values have to be known.
        match: What of a value is compared.
        fold: Which spellings of a value are one.
        listed: Values that are known from the start, as they are compared.
        optional: Whether a call without the argument is fine.
        condition: What has to hold.
    """

    kind: GuardKind
    cell: Cell | None = None
    other: Cell | None = None
    n: Amount = 1
    needs: str | None = None
    entry: str = ""
    value: str | int | float | bool | None = None
    key: Key | None = None
    within: float | None = None
    sources: tuple[Cell, ...] = ()
    field: str | None = None
    match: Match = "exact"
    fold: Fold | None = None
    listed: frozenset[str] = frozenset()
    optional: bool = False
    condition: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """
    A cell that a call changes.

    Attributes:
        cell: The cell.
        role: What the call is to it, for a cell that tells two kinds of call apart.
        strict: Whether a call whose key cannot be read is refused. It is not if all that is lost is a
            prerequisite, which then simply does not count.
    """

    cell: Cell
    role: Literal["count", "give", "take", "void", "open", "close"] = "count"
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The guards and moves of one contract for one call."""

    guards: tuple[Guard, ...] = ()
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """
    A cell that calls of a tool change because a condition reads it, whatever the contract is about.

    Attributes:
        tool: The tool, in NFC.
        move: The cell.
    """

    tool: str
    move: Move


NOTHING = Rule()
