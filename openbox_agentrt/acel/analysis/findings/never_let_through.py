"""Find tools and sources of values whose calls no session ever lets through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...contracts.declaration import Declaration
from ..questions.searched import (
    FEW_VALUES,
    SearchResult,
    Subject,
    may_need_more_values,
    tried_note,
)
from ..questions.witness import UNSHOWN
from ..rules.found_values import sources_of
from ..search.state import Transition
from .finding import Finding

__all__ = (
    "source_findings",
    "tool_findings",
    "tools_shut",
)


def tools_shut(
    subject: Subject, searched: Sequence[SearchResult], names: Mapping[str, bool]
) -> dict[str, SearchResult]:
    """Find the tools that no call of is let through in a search, and that nothing bans on purpose."""
    denying: dict[str, list[SearchResult]] = {}
    for some in searched:
        for name in some.found.denied if some.whole else ():
            denying.setdefault(name, []).append(some)
    found: dict[str, SearchResult] = {}
    for name in (name for name, literal in names.items() if literal):
        about = denying.get(name, [])
        shut = [some for some in about if name not in some.found.allowed]
        if shut and not _is_meant(subject, about, name):
            found[name] = shut[0]
    return found


def tool_findings(subject: Subject, shut: Mapping[str, SearchResult]) -> Iterator[Finding]:
    """Say which tools no call of is ever let through, by what `tools_shut` found."""
    for name, some in shut.items():
        places, first = _first_denial(some, name)
        if some.found.world.limited and any(may_need_more_values(subject.contracts[p]) for p in places):
            if name not in subject.examples.let:
                subject.unshown.append(f"whether calls of {name!r} are ever let through: {FEW_VALUES}")
            continue
        trace = subject.shown(some.trace(*first), places)
        yield Finding(
            kind="tool-never-allowed",
            message=f"no call of {name!r} is ever let through",
            contracts=subject.names(places),
            witness=trace,
            advice="look for contracts that contradict each other; if no call is meant to pass, say never",
            note=UNSHOWN if trace is None else tried_note(subject, some.contracts),
        )


def source_findings(
    subject: Subject, searched: Sequence[SearchResult], names: Iterable[str]
) -> Iterator[Finding]:
    """Find the sources of values whose calls are never let through, so that nothing comes from them."""
    shut = {
        name: some
        for some in searched
        for name in some.found.denied
        if some.whole and name not in some.found.allowed
    }
    for place, contract in enumerate(subject.contracts):
        for source in sources_of(contract) if contract.template == "came_from" else ():
            calls = [name for name in names if source.selector.on(name) is not False]
            if not calls or not all(name in shut for name in calls):
                continue
            places, first = _first_denial(shut[calls[0]], calls[0])
            trace = subject.shown(shut[calls[0]].trace(*first), places)
            yield Finding(
                kind="source-never-vouches",
                message=f"no value ever comes from {source.described()}: its calls are never let through",
                contracts=(subject.named[place], *subject.names(places - {place})),
                witness=trace,
                advice="let its calls through, or take the source out",
                note=UNSHOWN if trace is None else None,
            )


def _first_denial(some: SearchResult, name: str) -> tuple[set[int], tuple[int, Transition]]:
    """Find few contracts of which one refuses every call of a tool, and the first call that is refused."""
    denied = some.found.denied[name]
    left, blamed = list(denied), set[int]()
    while left:
        # Those first that refuse alone, and then those that refuse most.
        single = min(left, key=len)
        own = max(sorted(single), key=lambda one: sum(one in blocking for blocking in left))
        blamed.add(some.place(own))
        left = [blocking for blocking in left if own not in blocking]
    return blamed, next(iter(denied.values()))


def _is_meant(subject: Subject, about: Iterable[SearchResult], name: str) -> bool:
    """Tell whether each call of a tool breaks a contract that bans it outright."""
    for some in about:
        denied = some.found.denied[name]
        if name not in some.found.allowed and all(
            any(_bans(subject.contracts[some.place(own)]) for own in blocking) for blocking in denied
        ):
            return True
    return False


def _bans(contract: Declaration) -> bool:
    return contract.template in ("never", "only") or getattr(contract, "n", None) == 0
