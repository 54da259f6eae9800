"""
Changes of a contract that no trace can show.

A trace is of one session, on its own, in which every call is judged once and ends. What people are told, what
holds across runs and processes, and what happens to a call that waits is not in it. Each such change is said
in words instead, so that nobody takes it for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ("WATCHES", "changed_names", "seen_in_traces", "unshown_changes")

_UNSHOWN: Mapping[str, str] = {
    "id": "is what reports, tests and evidence call the contract, and decides nothing",
    "description": "is what people are told it is for, and decides nothing",
    "remedy": "is what whoever is refused is told, and decides nothing",
    "severity": "is how bad reports call a violation, and decides nothing",
    "scope": "says whose calls count together, and a trace is of one run of one session",
    "forever": "says that a limit of the fleet is meant never to count anew, and a trace is of one session",
    "name": "says under what name the fleet counts, and a trace begins with nothing counted",
    "overshoot": "says whether amounts that are known later may pass the limit, and a trace knows them all",
    "estimate": "says what an amount is taken for until it is known, and a trace knows them all",
    "recheck": "says whether a call that has waited is judged again, and in a trace none waits",
}
WATCHES = "it only watches, so what is recorded changes, and no call is let through or refused for it"
"""Of a contract in shadow mode."""


def changed_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Name what differs between two forms of a contract."""
    return [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]


def unshown_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Say what changed of a contract that no trace can show, a sentence each."""
    names = changed_names(old, new)
    yield from (f"{name} {_UNSHOWN[name]}" for name in names if name in _UNSHOWN)
    if old.get("mode") == new.get("mode") == "shadow" and not _UNSHOWN.keys() >= set(names):
        yield WATCHES


def seen_in_traces(form: Mapping[str, Any]) -> dict[str, Any]:
    """Give of the form of a contract what traces can show; nothing of one that only watches."""
    if form.get("mode") == "shadow":
        return {}
    return {name: value for name, value in form.items() if name not in _UNSHOWN}
