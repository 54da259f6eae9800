"""
Looking at a shared store from outside of any worker: what is spent, who holds what, whether it is fit.

This reads without a lock, so numbers of a store that is in use may be of moments that differ a little.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from .errors import FleetConfigError
from .opening import sqlite_path
from .periods import end_of_period
from .redis.fleet import split_url, without_password
from .redis.line import RedisLine
from .sqlite import SqliteLine
from .steps import Mend, NoAnswerError, StoreLine
from .wire import CellDescription, WirePlan

_PATIENCE = 5.0
_OLDEST = (6, 0)
_CLOCK_SECONDS = 5.0
_PLANS = msgspec.json.Decoder(WirePlan)
_ABOUT = msgspec.json.Decoder(CellDescription)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStand:
    """A lease that is open: its worker, `r` reserved or `s` started, and how long its worker's word holds."""

    id: str
    worker: str
    state: str
    seconds_left: float
    plan: WirePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStand:
    """
    Describe how one cell stands.

    Attributes:
        id: Its name in the store, which `settle` takes.
        about: What it is about; None where no worker has said so.
        key: The value that splits it.
        spent: Units, calls, values or unused prerequisites that count now.
        outstanding: The part of it that is reserved or under way.
        unread: Whether an amount is missing that nobody measured, so that it refuses.
        ahead: Seconds by which its time is ahead of the store's clock.
        period: When its period began, in microseconds.
    """

    id: str
    about: CellDescription | None
    key: str
    spent: int
    outstanding: int
    unread: bool
    ahead: float
    period: int | None

    @property
    def free(self) -> int | None:
        """Units that are left under the limit that was last asked for."""
        limit = None if self.about is None else self.about.limit
        return None if limit is None else max(0, limit - self.spent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """
    Say whether a store is fit to be a fleet's.

    Attributes:
        facts: What it is, line by line.
        faults: What makes it unfit.
        doubts: What somebody should know.
    """

    facts: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


class _Gone(NamedTuple):
    """Count what has left a window since a call looked at it, `before` which nothing counts."""

    before: int
    values: int = 0
    amount: int = 0


class Survey(ABC):
    """
    Read a store without being a worker of it.

    Attributes:
        line: A connection to it, for steps.
    """

    line: StoreLine

    @abstractmethod
    def now(self) -> int:
        """Give the store's time in microseconds."""

    @abstractmethod
    def health(self) -> Health:
        """Look whether it is fit."""

    @abstractmethod
    def workers(self) -> dict[str, int]:
        """List the workers, each with the time when its lease is over."""

    @abstractmethod
    def _cells(self, most: int, key: str | None) -> Iterator[tuple[str, CellStand]]:
        """Read cells, of one key if that is given, each with the digits of its name."""

    @abstractmethod
    def _state(self, lease: str) -> str: ...

    def leases(self) -> list[LeaseStand]:
        """List what is open."""
        now = self.now()
        return [
            LeaseStand(
                id=lease,
                worker=worker,
                state=self._state(lease),
                seconds_left=(until - now) / 1e6,
                plan=plan,
            )
            for worker, until in self.workers().items()
            for lease, plan in self.line.open_leases(worker).items()
        ]

    def cells(self, most: int = 1000, *, key: str | None = None) -> list[CellStand]:
        """List how cells stand, at most so many, and only those of `key` if it is given."""
        return sorted((stand for _, stand in self._cells(most, key)), key=lambda c: (-c.spent, c.id))

    def outstanding(self) -> dict[str, int]:
        """Add up what open leases hold, by cell."""
        held: dict[str, int] = {}
        for lease in self.leases():
            for move in lease.plan.m:
                cell = lease.plan.c[move.c]
                units = (move.a or 0) if cell.k == "sum" else len(move.v or ()) if cell.k == "distinct" else 1
                held[cell.id] = held.get(cell.id, 0) + units
        return held

    def mend(self, cell: str) -> bool:
        """Set a cell's times that are ahead to now, and let it count again. Returns whether there is one."""
        return self.line.run([Mend(cell=cell)])[0].said == "ok"

    def close(self) -> None:
        """Let go of the store."""
        self.line.close()


class SqliteSurvey(Survey):
    """Read a store that is a file."""

    def __init__(self, path: str, *, timeout_seconds: float = _PATIENCE) -> None:
        self._path = Path(path).absolute()
        self.line: SqliteLine = SqliteLine(self._path, timeout_seconds=timeout_seconds, create=False)

    def now(self) -> int:
        return time.time_ns() // 1000

    def health(self) -> Health:
        with self.line.transaction() as tables:
            generation = tables.generation()
        facts = [f"file {self._path}", f"generation {generation or 'none: no worker has used it yet'}"]
        return Health(facts=facts)

    def workers(self) -> dict[str, int]:
        with self.line.transaction() as tables:
            return dict(tables.read("select id, until from worker"))

    def _state(self, lease: str) -> str:
        with self.line.transaction() as tables:
            rows = tables.read("select s from lease where id=?", lease)
        return str(rows[0][0]) if rows else ""

    def _cells(self, most: int, key: str | None) -> Iterator[tuple[str, CellStand]]:
        sql = (
            "select id, live, total, unread, now, period,"
            " (select count(*) from bucket where cell=cell.id) from cell"
            " where ?1 is null or substr(id, instr(id, ':') + 1)=?1 limit ?2"
        )
        with self.line.transaction() as tables:
            rows = tables.read(sql, key, most)
            told = {name: _ABOUT.decode(text) for name, text in tables.read("select id, told from about")}
            now = self.now()
            ended = "select count(*), coalesce(sum(value), 0) from bucket where cell=? and edge<?"
            gone = {
                name: _Gone(before, *tables.read(ended, name, before)[0])
                for name, _, _, _, at, _, _ in rows
                if (before := _before(told.get(name.partition(":")[0]), at, now)) is not None
            }
        held = self.outstanding()
        for name, live, total, unread, at, period, values in rows:
            yield _stand(name, (live, total, unread, at, period), values, told, held, now, gone.get(name))


class RedisSurvey(Survey):
    """Read a store that is a server."""

    def __init__(self, url: str, *, timeout_seconds: float = _PATIENCE) -> None:
        server, namespace = split_url(url)
        self._url = without_password(url)
        self._prefix = f"{{obx:{namespace}}}"
        self.line: RedisLine = RedisLine(server, namespace, timeout_seconds=timeout_seconds)

    def now(self) -> int:
        seconds, rest = self.line.execute([("TIME",)])[0]
        return int(seconds) * 1_000_000 + int(rest)

    def health(self) -> Health:
        answer = self.line.execute([("INFO",)])[0].decode()
        info = dict(line.split(":", 1) for line in answer.splitlines() if ":" in line)
        health = Health()
        version = info.get("valkey_version") or info.get("redis_version", "0")
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        health.facts.extend([f"server {self._url}", f"version {version}"])
        if numbers < _OLDEST:
            health.faults.append(f"version {version} is too old: 6.0 is needed")
        self._look_at_memory(info, health)
        saves = info.get("aof_enabled") == "1" or self._saves()
        health.facts.append(f"persistence {'on' if saves else 'off'}")
        if not saves:
            health.doubts.append("nothing is written to disk: a restart forgets what was counted")
        apart = self.now() / 1e6 - time.time()
        health.facts.append(f"clock {apart:+.1f} s beside this machine's")
        if abs(apart) > _CLOCK_SECONDS:
            health.doubts.append(f"its clock is {apart:+.0f} s apart from this machine's")
        return health

    def workers(self) -> dict[str, int]:
        told = self.line.execute([("ZRANGE", f"{self._prefix}:ws", 0, -1, "WITHSCORES")])[0]
        return {told[i].decode(): int(float(told[i + 1])) for i in range(0, len(told), 2)}

    def _look_at_memory(self, info: dict[str, str], health: Health) -> None:
        policy, bound = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", 0))
        health.facts.append(f"eviction {policy}, memory {info.get('used_memory_human', '?')} in use")
        if policy != "noeviction":
            health.faults.append(
                f"eviction policy {policy!r} would forget what was counted: set maxmemory-policy noeviction"
            )
        if bound and int(info.get("used_memory", 0)) > 0.9 * bound:
            health.doubts.append("more than 90 % of its memory is in use: full, it refuses every call")

    def _saves(self) -> bool:
        try:
            return bool(self.line.execute([("CONFIG", "GET", "save")])[0][1])
        except (NoAnswerError, FleetConfigError, IndexError):
            # Managed servers do not let everybody look; then nothing is known against it.
            return True

    def _state(self, lease: str) -> str:
        state = self.line.execute([("HGET", f"{self._prefix}:l:{lease}", "s")])[0]
        return state.decode() if state else ""

    def _names(self) -> Iterator[str]:
        cursor, prefix = b"0", f"{self._prefix}:c:"
        pattern = prefix.replace("[", "\\[").replace("*", "\\*").replace("?", "\\?") + "*"
        while True:
            cursor, keys = self.line.execute(
                [("SCAN", cursor, "MATCH", pattern, "COUNT", 500, "TYPE", "hash")]
            )[0]
            yield from (key.decode().removeprefix(prefix) for key in keys)
            if cursor == b"0":
                return

    def _cells(self, most: int, key: str | None) -> Iterator[tuple[str, CellStand]]:
        wanted = (name for name in self._names() if key is None or name.partition(":")[2] == key)
        names = list(islice(wanted, most))
        held, now = self.outstanding(), self.now()
        told = self._told({name.partition(":")[0] for name in names})
        for name in names:
            stored, values = self.line.execute(
                [
                    ("HMGET", f"{self._prefix}:c:{name}", "l", "t", "u", "n", "p"),
                    ("ZCARD", f"{self._prefix}:z:{name}"),
                ]
            )
            before = _before(told.get(name.partition(":")[0]), int(stored[3] or 0), now)
            gone = None if before is None else self._gone(name, before)
            yield _stand(name, stored, values, told, held, now, gone)

    def _gone(self, name: str, before: int) -> _Gone:
        ended = self.line.execute([("ZRANGEBYSCORE", f"{self._prefix}:z:{name}", "-inf", f"({before}")])[0]
        if not ended:
            return _Gone(before)
        fields = [b"b" + at for at in ended]
        amounts = self.line.execute([("HMGET", f"{self._prefix}:c:{name}", *fields)])[0]
        return _Gone(before, len(ended), sum(int(amount or 0) for amount in amounts))

    def _told(self, digits: Iterable[str]) -> dict[str, CellDescription]:
        names = list(digits)
        if not names:
            return {}
        fields = [f"c:{name}" for name in names]
        told = self.line.execute([("HMGET", f"{self._prefix}:m", *fields)])[0]
        return {name: _ABOUT.decode(text) for name, text in zip(names, told, strict=True) if text}


def survey(url: str, *, timeout_seconds: float = _PATIENCE) -> Survey:
    """
    Look at the store that a URL names, and wait so long for an answer.

    Raises:
        FleetConfigError: The URL names no store.
        NoAnswerError: Later, from any method: it does not answer.
    """
    if urlsplit(url).scheme == "sqlite":
        return SqliteSurvey(sqlite_path(url), timeout_seconds=timeout_seconds)
    return RedisSurvey(url, timeout_seconds=timeout_seconds)


def _stand(
    name: str,
    stored: Sequence[Any],
    values: int,
    told: Mapping[str, CellDescription],
    held: Mapping[str, int],
    now: int,
    gone: _Gone | None,
) -> tuple[str, CellStand]:
    """
    Put together what a store keeps of one cell, without what was over before any call looked at it again.

    A server keeps numbers as text, and leaves out zeros.
    """
    live, total, unread, at, period = stored
    digits, _, key = name.partition(":")
    about = told.get(digits)
    if _is_over(about, period, now):
        live = total = values = 0
        unread = period = None
    if gone is not None:
        values, total = values - gone.values, int(total or 0) - gone.amount
        if unread is not None and _time_of(unread) < gone.before:
            unread = None
    return digits, CellStand(
        id=name,
        about=about,
        key=key,
        spent=_spent(about, int(live or 0), int(total or 0), values),
        outstanding=held.get(name, 0),
        unread=unread is not None,
        ahead=max(0.0, (int(at or 0) - now) / 1e6),
        period=int(period) if period else None,
    )


def _before(about: CellDescription | None, at: int, now: int) -> int | None:
    """Give the time before which nothing counts in a window; None where there is none."""
    return None if about is None or about.within is None else max(now, at) - about.within


def _time_of(unread: int | bytes) -> int:
    # A server keeps with it whose amount is missing.
    return int(unread.split()[0]) if isinstance(unread, bytes) else unread


def _is_over(about: CellDescription | None, period: Any, now: int) -> bool:
    """Tell whether the period is over in which a cell was counted last."""
    if about is None or about.per is None or not period:
        return False
    return now >= end_of_period(about.per, about.tz, int(period))


def _spent(about: CellDescription | None, live: int, total: int, values: int) -> int:
    if about is None:
        return live or total
    if about.kind == "distinct":
        return values
    return live if about.kind == "tally" else total
