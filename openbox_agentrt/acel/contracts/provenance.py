"""
Contracts about where a value comes from, and where it must not go.

What a call finds out counts once it has succeeded. These contracts judge whom a call is about, and not
whether it is wanted: a source that an attacker can write to vouches for the attacker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, get_args

from ..match.matchers import ToolMatcher
from ..match.paths import FieldError, FieldPath
from ..match.provenance import Match, reading_of
from ..match.selector import select
from ..wording import shown
from .declaration import Role
from .options import Options
from .rules import Guard, Move, Rule
from .sources import SourceGiven, read_sources
from .template import Template


class CameFrom(Template):
    """
    Every value of the argument `field` of `tool` comes from one of `sources`.

    Of a list, each element has to. A call whose argument is missing or cannot be read is refused, and one
    with an empty list is not. A failed or refused call vouches for nothing.

    Args:
        tool: The calls that are judged.
        field: Name or path of the argument.
        sources: See `sources`: "prompt", ``{"tool", "path", "named"}``, ``{"values"}``.
        match: What is compared: the "exact" value, the "host" of a URL, the "domain" of a mail address, or
            the hosts of the "links" in a text, of which there may be none.
        optional: Whether a call without the argument, or with null in its place, is fine.
    """

    template = "came_from"
    tells_values_apart = True
    excepts_roles = 1
    without = frozenset({"key"})
    local_because = "what calls have found out is known in one session"

    def __init__(
        self,
        tool: ToolMatcher,
        field: str,
        sources: Sequence[SourceGiven],
        *,
        match: Match = "exact",
        optional: bool = False,
        **options: Unpack[Options],
    ) -> None:
        what = select(tool)
        FieldPath(field)
        if match not in get_args(Match):
            raise ValueError(f"match must be one of {', '.join(get_args(Match))}, got {shown(match)}")
        calls, listed = read_sources(sources)
        parts = [
            what.label,
            field,
            f"sources=[{', '.join([*(one.text() for one in calls), *_values(listed)])}]",
        ]
        parts += [f"match={match}"] * (match != "exact") + ["optional=True"] * optional
        super().__init__(parts, options)
        self.tool = tool
        self.field = field
        self.sources = calls
        self.listed = listed
        self.match: Match = match
        self.optional = optional
        self.roles = (
            Role(selector=what, strict=True),
            *(Role(selector=source.selector, strict=False) for source in calls),
        )
        cells = tuple(
            self.cell(
                "words" if source.named else "values",
                source.selector,
                strict=False,
                field=source.path,
                fold=self.fold,
                match=match,
                given=source.given,
            )
            for source in calls
        )
        self._moves = tuple(Move(cell=cell, strict=False) for cell in cells)
        wheres = [one.described() for one in calls] + ["the values that are listed"] * bool(listed)
        self._known = Guard(
            kind="known",
            needs=f"{field!r} from {', or '.join(wheres)}",
            sources=cells,
            field=field,
            match=match,
            fold=self.fold,
            listed=self._listed(),
            optional=optional,
        )

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        moves = tuple(move for move, hit in zip(self._moves, hits[1:], strict=True) if hit)
        return Rule(guards=(self._known,) * hits[0], moves=moves)

    def combinations(self) -> list[tuple[bool, ...]]:
        # Each role alone shows all there is: the roles have nothing to do with each other.
        count = len(self.roles)
        return [tuple(place == only for place in range(count)) for only in range(count)]

    def _listed(self) -> frozenset[str]:
        reading = reading_of(self.match, self.fold)
        try:
            return frozenset(reading.value(value, "a listed value") for value in self.listed)
        except FieldError as error:
            raise ValueError(str(error)) from None


class KeepsOut(Template):
    """
    No value that stands in a result at `source` stands in the argument `field` of `tool`.

    Neither as the whole of it nor as a part, in any case and however it is spaced. What is encoded or put in
    other words is not found: it is a net for accidents, and no wall. A call without the argument is fine, and
    one whose argument cannot be looked into is refused.

    Args:
        tool: The calls that are judged.
        field: Name or path of the argument; ``"*"`` for all.
        source: The secrets: ``{"tool": ..., "path": ...}``.
    """

    template = "keeps_out"
    excepts_roles = 1
    without = frozenset({"key", "fold", "within"})
    local_because = "what calls have found out is known in one session"

    def __init__(
        self, tool: ToolMatcher, field: str, source: SourceGiven, **options: Unpack[Options]
    ) -> None:
        what = select(tool)
        FieldPath(field)
        calls, listed = read_sources([source])
        if listed or any(one.named for one in calls):
            raise ValueError(f"secrets must be named by a tool and a path, got {shown(source)}")
        (secret,) = calls
        super().__init__([what.label, field, f"source={secret.text()}"], options)
        self.tool = tool
        self.field = field
        self.source = secret
        self.roles = (Role(selector=what, strict=True), Role(selector=secret.selector, strict=True))
        secrets = self.cell("secrets", secret.selector, field=secret.path)
        self._move = Move(cell=secrets)
        needs = f"{field} without what is secret: {secret.described()}"
        self._guard = Guard(kind="kept_out", cell=secrets, needs=needs, field=field)

    def rule(self, hits: tuple[bool, ...]) -> Rule:
        return Rule(guards=(self._guard,) * hits[0], moves=(self._move,) * hits[1])


# The names that contracts are written with.
came_from = CameFrom
keeps_out = KeepsOut


def _values(listed: Sequence[Any]) -> list[str]:
    return [f"one of {len(listed)} values"] if listed else []
