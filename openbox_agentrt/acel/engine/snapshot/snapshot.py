"""
Take a session as JSON, to go on in another process.

A snapshot belongs to a set of rules: what a contract remembers means nothing to another. Restoring it
under other rules is therefore refused, unless it is asked for as a migration: contracts that are the
same keep what they remember, new ones start empty.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...contracts.base import ENDED, HALTED, TemporalContract
from ...contracts.identity import forms_hash, meaning_of, rules_hash
from ...memory.cell import LiveCell
from ...memory.clock import advance, look, together
from ...wording import shown
from ..engine import Engine
from ..store.session_store import SessionStore

VERSION = 1
_HASH = len(" #") + 16
# What is said of a contract and says nothing about what it remembers.
_NOT_ITS_MEMORY = frozenset({"id", "mode", "severity", "on_violation", "recheck"})
SHUT = {rule.spec: rule for rule in (ENDED, HALTED)}
"""Why a session may admit nothing more that is written down, by what is written of it."""


class SnapshotError(ValueError):
    """A session cannot be taken as a snapshot, or a snapshot cannot be restored."""


def take_snapshot(engine: Engine) -> dict[str, Any]:
    """
    Give what a session knows as JSON-safe data.

    Calls under way are unknown outcomes: they count where they limit, and allow nothing.

    Raises:
        SnapshotError: The state holds something that is no JSON, or a contract has code of its own.
    """
    for key, value in engine.state.snapshot().items():
        if not is_json({key: value}):
            raise SnapshotError(f"state entry {shown(key)} is not JSON")
    rows, length, digest = engine.rows.whole()
    return {
        "version": VERSION,
        "rules_hash": rules_hash(engine.store.contracts),
        "session_id": engine.session_id,
        "state": engine.state.view().snapshot(),
        "memory": _dump(engine.store),
        # Rows are only for people to look at, and what has been hashed is in the hash.
        "trace": {"length": length, "hash": digest, "rows": [row for row in rows if is_json(row)]},
    }


def read_session_id(snapshot: object) -> str | None:
    """
    Read which session a snapshot was taken of.

    Raises:
        SnapshotError: It is no snapshot, or of another version.
    """
    version = snapshot.get("version") if isinstance(snapshot, Mapping) else None
    if not isinstance(snapshot, Mapping) or version != VERSION:
        raise SnapshotError(f"snapshot version must be {VERSION}, got {shown(version)}")
    session_id = snapshot.get("session_id")
    return session_id if isinstance(session_id, str) else None


def restore_snapshot(engine: Engine, snapshot: Mapping[str, Any], *, migrate: bool = False) -> None:
    """
    Let a new session know what a snapshot knows.

    Raises:
        SnapshotError: It cannot be read, or was taken under other rules.
    """
    taken, here = snapshot.get("rules_hash"), rules_hash(engine.store.contracts)
    if taken != here and not migrate:
        raise SnapshotError(f"snapshot was taken under rules {shown(taken)}, not {here!r}")
    try:
        trace = snapshot["trace"]
        load_memory(engine.store, snapshot["memory"], migrate=migrate)
        engine.rows.resume([dict(row) for row in trace["rows"]], int(trace["length"]), str(trace["hash"]))
        engine.state.load(dict(snapshot["state"]))
        engine.store.note_restored(snapshot["memory"], snapshot["state"])
    except SnapshotError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(f"snapshot cannot be read, {type(error).__name__}") from error


def _dump(store: SessionStore) -> dict[str, Any]:
    # A call under way is an unknown outcome from now on, and not since the clock was last read.
    timeline = together(store.memory.timelines())
    moment = look(timeline, None)
    store.settle()
    with store.lock:
        advance(timeline, moment)
        cells = cells_of(store)
        dumped = {name: cell.dump() for name, cell in cells.items() if not cell.idle()}
        return {**common_memory(store), "cells": dumped}


def common_memory(store: SessionStore) -> dict[str, Any]:
    """Give what a store remembers beside its cells. Its lock is held."""
    since = store.book.since
    names = _names(store) if since or store.violated else {}
    return {
        "step": store.step,
        "time": store.memory.now,
        "closed": None if store.shut is None else store.shut.spec,
        "since": [[*name, since[key]] for key, name in names.items() if key in since],
        "violated": [name for key, name in names.items() if key in store.violated],
        "written": store.memory.state.written(),
        **_digest_key(store),
    }


def load_memory(store: SessionStore, data: Mapping[str, Any], *, migrate: bool = False) -> None:
    """
    Let a new store remember what another one did.

    Raises:
        SnapshotError: It remembers something that no contract here does.
    """
    with store.lock:
        remember(store, data, migrate=migrate)


def remember(store: SessionStore, data: Mapping[str, Any], *, migrate: bool = False) -> None:
    """Do as `load_memory`, for a caller that holds the lock."""
    # Most remember nothing of a contract as such: to name all of them is a third of what a restart takes.
    names = _names(store) if data["since"] or data["violated"] else {}
    _begin_since(store, data["since"], names)
    if "digest_key" in data:
        store.memory.keep_digest_key(bytes.fromhex(data["digest_key"]))
    cells = cells_of(store)
    unknown = data["cells"].keys() - cells.keys()
    if unknown and not migrate:
        raise SnapshotError(f"snapshot remembers {shown(min(unknown))}, which no contract does")
    shut = None if data["closed"] is None else SHUT[data["closed"]]
    violated = frozenset(key for name in data["violated"] for key in _named(names, name))
    store.resume(step=int(data["step"]), shut=shut, violated=violated)
    if data["time"] is not None:
        store.memory.timeline.advance(float(data["time"]))
    store.memory.state.resume({str(key): float(at) for key, at in data["written"].items()})
    for name, cell in cells.items():
        if name in data["cells"]:
            cell.load(data["cells"][name])


def begin_since(store: SessionStore, since: Iterable[Sequence[Any]]) -> None:
    """Take note which contracts were added on the way, and when: the names of their cells say so too."""
    if since:
        _begin_since(store, since, _names(store))


def _begin_since(store: SessionStore, since: Iterable[Sequence[Any]], names: Mapping[int, list[Any]]) -> None:
    for *name, step in since:
        added = dict.fromkeys(_named(names, name)[:1], int(step))
        store.book.since = {**store.book.since, **added}


def _digest_key(store: SessionStore) -> dict[str, str]:
    key = store.memory.digest_key
    return {} if key is None else {"digest_key": key.hex()}


def _names(store: SessionStore) -> dict[int, list[Any]]:
    """
    Name each contract, by identity: its text, its id, and which it is of those that are alike.

    The text is for people. It is followed by a hash of what the contract means, which it goes by.
    """
    alike: Counter[tuple[str, str | None]] = Counter()
    names: dict[int, list[Any]] = {}
    for contract in store.contracts:
        meaning = _meaning(contract)
        names[id(contract)] = [f"{contract.spec} #{meaning}", contract.id, alike[meaning, contract.id]]
        alike[meaning, contract.id] += 1
    return names


def _meaning(contract: TemporalContract) -> str:
    form = {name: part for name, part in meaning_of(contract).items() if name not in _NOT_ITS_MEMORY}
    return forms_hash([form])[:16]


def _named(names: Mapping[int, list[Any]], name: Sequence[Any]) -> list[int]:
    """Find the contracts of a name, by what they mean."""
    text, *others = name
    return [
        key for key, (known, *more) in names.items() if known[-_HASH:] == text[-_HASH:] and more == others
    ]


def cells_of(store: SessionStore) -> dict[str, LiveCell]:
    """
    Give every piece of memory that a store can have, by its name. Its lock is held.

    Raises:
        SnapshotError: A contract has code of its own, or two pieces have one name.
    """
    if store.book.rules.custom:
        own = store.book.rules.custom[0].contract.spec
        raise SnapshotError(f"contract {shown(own)} has code of its own, which has no snapshot")
    named: dict[str, LiveCell] = {}
    for name, cell in store.book.every_cell():
        if name in named:
            raise SnapshotError(f"two matchers are written alike in {name!r:.200}, give them labels")
        named[name] = cell
    return named


def is_json(value: Any) -> bool:
    """Tell whether a value is the same after it was written as JSON."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
