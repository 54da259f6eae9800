"""Evidence with steps, read back: every decision in it is derived again from the steps and the rules."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..evidence import Entry, read_entries
from .engine.rerun.comparison import Comparison, Divergence
from .engine.rerun.fleet_account import FleetAccount
from .engine.rerun.journal_rules import RerunError
from .engine.rerun.moved_sessions import Moves
from .engine.rerun.rerun import Rerun

__all__ = ("Divergence", "RerunReport", "rerun_file", "rerun_files")


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunReport:
    """
    Say what deriving the decisions of a log again has found.

    Attributes:
        derived: How many decisions were derived again.
        differences: Those of them that do not follow from the rules.
        on_code: How many of them rest on code as well, which is taken at its word.
        on_fleet: How many of them rest on what the store of a fleet answered, which is taken at its word.
        on_shadow: How many let a call through that contracts refuse, because the session only watched. That
            it did is the log's word.
        not_derivable: How many could not be derived, since what they need was redacted, cut or never told, or
            was remembered by a session that came from elsewhere.
        moved: How often a session went on with a memory that another of the logs shows to have been left.
        unproven: How often one went on with a memory that a store gave it, and that none of the logs shows to
            have been left there.
        restored: How often one went on from a snapshot that its program kept, which is taken at its word.
        on_core: How many decisions are Core's or a person's word.
        problems: Sessions that could not be followed to their end, and why, one line each.
        sessions: How many sessions there are.
        rules: The hashes of their rules.
        nothing_judged: True if the log keeps steps and says itself that no contract has judged anything,
            because none was in force or no call came so far: then there is nothing to derive.
    """

    derived: int
    differences: tuple[Divergence, ...]
    on_code: int
    on_fleet: int
    on_shadow: int
    not_derivable: int
    moved: int
    unproven: int
    restored: int
    on_core: int
    problems: tuple[str, ...]
    sessions: int
    rules: tuple[str, ...]
    nothing_judged: bool = False

    @property
    def ok(self) -> bool:
        """True if all that can be derived is what was recorded, and there is some or nothing was judged."""
        has_any = self.derived + self.not_derivable > 0
        return not self.differences and not self.problems and (has_any or self.nothing_judged)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {**asdict(self), "ok": self.ok}


@dataclass(slots=True)
class _Log:
    path: str
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    on_core: int = 0
    keeps_steps: bool = False
    judged: bool = False
    found: Comparison = field(default_factory=Comparison)
    problems: list[str] = field(default_factory=list)


def rerun_file(
    path: str | os.PathLike[str],
    *,
    counted: Callable[[Iterable[Entry]], Iterator[Entry]] = iter,
    account: FleetAccount | None = None,
) -> RerunReport:
    """
    Derive the decisions of a log again.

    The log is taken as it is: whether it was tampered with is for `verify_file` to say, and a decision that
    was changed together with its hashes is found here.

    Args:
        path: The log (format 2), written with ``record="steps"``.
        counted: Passes entries on and may take note of them, e.g. to show progress.
        account: Takes in what the store of a fleet answered, to set several logs against each other.

    Raises:
        UnreadableLogError: If the file is missing or is no evidence log.
    """
    (report,) = rerun_files([path], counted=counted, account=account)
    return report


def rerun_files(
    paths: Sequence[str | os.PathLike[str]],
    *,
    counted: Callable[[Iterable[Entry]], Iterator[Entry]] = iter,
    account: FleetAccount | None = None,
) -> list[RerunReport]:
    """
    Derive the decisions of several logs again, of workers that share a store perhaps.

    A durable session that moved between workers goes on with what the log of the one shows that it left; if
    the log of the other says that it remembered anything else, that is a difference.

    Args:
        paths: The logs.
        counted: See `rerun_file`.
        account: See `rerun_file`.

    Returns:
        A report for each log, in their order.

    Raises:
        UnreadableLogError: As `rerun_file`.
    """
    logs = [_Log(os.fspath(path)) for path in paths]
    moves, moving = Moves(), deque[_Following]()
    for log in logs:
        for entry in counted(read_entries(log.path)):
            _sort_in(log, entry)
        for run, steps in log.runs.items():
            following = _Following(log, run, Rerun(moves), steps)
            if moves.expect(run, steps):
                moving.append(following)
            else:
                following.go_on()
    _follow_together(moving, moves)
    if account is not None:
        for log in logs:
            account.take(log.path, log.found.answers)
    return [_report(log) for log in logs]


class _Following:
    """Follow one session as far as it goes."""

    def __init__(
        self, log: _Log, run: str, rerun: Rerun, steps: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> None:
        self.run = run
        self.has_moved_on = False
        self._log = log
        self._rerun = rerun
        self._steps = rerun.follow(steps, log.rules)

    def go_on(self) -> bool:
        """Go on until what is left by another is needed. Returns whether that is the end."""
        self.has_moved_on = False
        try:
            for is_ahead in self._steps:
                if not is_ahead:
                    return False
                self.has_moved_on = True
        except RerunError as error:
            self._log.problems.append(str(error))
        self._log.found.add(self._rerun.found)
        return True


def _follow_together(moving: deque[_Following], moves: Moves) -> None:
    """Follow sessions that moved, each as far as what the others left lets it."""
    stuck = 0
    while moving:
        following = moving.popleft()
        if following.go_on():
            moves.end(following.run)
            stuck = 0
            continue
        moving.append(following)
        stuck = 0 if following.has_moved_on else stuck + 1
        if stuck > len(moving):
            moves.end_all()


def _report(log: _Log) -> RerunReport:
    known = {
        step["rules"]: None
        for steps in log.runs.values()
        for _, step in steps
        if step.get("rules") in log.rules
    }
    found = log.found
    return RerunReport(
        derived=found.derived,
        differences=tuple(sorted(found.differences, key=lambda difference: difference.number)),
        on_code=found.on_code,
        on_fleet=len(found.answers),
        on_shadow=found.on_shadow,
        not_derivable=found.not_derivable,
        moved=found.moved,
        unproven=found.unproven,
        restored=found.restored,
        on_core=log.on_core,
        problems=tuple(log.problems),
        sessions=len(log.runs),
        rules=tuple(known),
        nothing_judged=log.keeps_steps and not (log.runs or log.rules or log.judged),
    )


def _sort_in(log: _Log, entry: Entry) -> None:
    data = entry.data
    if entry.type == "step" and isinstance(data.get("run"), str):
        log.runs.setdefault(data["run"], []).append((entry.number, data))
    elif entry.type == "rules" and isinstance(data.get("hash"), str):
        log.rules[data["hash"]] = data
    elif entry.type == "header":
        log.keeps_steps = data.get("record") == "steps"
    # A session says under which rules it runs, and by a violation of one that there were some. One of what is
    # no contract may be a call that was refused before it could be judged.
    elif entry.type == "session":
        log.judged |= data.get("rules_hash") is not None
    elif entry.type == "violation":
        log.judged |= data.get("kind") != "session"
    elif data.get("source") == "contracts":
        log.judged = True
    elif entry.type == "decision":
        log.on_core += data.get("source") not in (None, "session", "disabled", "skipped")
