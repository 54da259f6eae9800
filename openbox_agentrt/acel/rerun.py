"""Evidence with steps, read back: every decision in it is derived again from the steps and the rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ..evidence import Entry, read_entries
from .engine.divergence import Divergence
from .engine.followed_rules import RerunError
from .engine.rerun import Rerun
from .fleet_account import FleetAccount

__all__ = ("Divergence", "RerunReport", "rerun_file")


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
        on_core: How many decisions are Core's or a person's word.
        problems: Sessions that could not be followed to their end, and why, one line each.
        sessions: How many sessions there are.
        rules: The hashes of their rules.
    """

    derived: int
    differences: tuple[Divergence, ...]
    on_code: int
    on_fleet: int
    on_shadow: int
    not_derivable: int
    on_core: int
    problems: tuple[str, ...]
    sessions: int
    rules: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if there are decisions, and each that can be derived is what was recorded."""
        return not self.differences and not self.problems and self.derived + self.not_derivable > 0

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {**asdict(self), "ok": self.ok}


@dataclass(slots=True)
class _Log:
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    on_core: int = 0


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
    log = _Log()
    for entry in counted(read_entries(path)):
        _sort_in(log, entry)
    total, problems = Rerun(), []
    hashes: dict[str, None] = {}
    for steps in log.runs.values():
        rerun = Rerun()
        hashes |= {step["rules"]: None for _, step in steps if step.get("rules") in log.rules}
        try:
            for _ in rerun.follow(steps, log.rules):
                pass
        except RerunError as error:
            problems.append(str(error))
        total.derived += rerun.derived
        total.on_code += rerun.on_code
        total.on_fleet += rerun.on_fleet
        total.on_shadow += rerun.on_shadow
        total.not_derivable += rerun.not_derivable
        total.differences += rerun.differences
        if account is not None:
            account.take(os.fspath(path), rerun.answers)
    return RerunReport(
        derived=total.derived,
        differences=tuple(sorted(total.differences, key=lambda difference: difference.number)),
        on_code=total.on_code,
        on_fleet=total.on_fleet,
        on_shadow=total.on_shadow,
        not_derivable=total.not_derivable,
        on_core=log.on_core,
        problems=tuple(problems),
        sessions=len(log.runs),
        rules=tuple(hashes),
    )


def _sort_in(log: _Log, entry: Entry) -> None:
    data = entry.data
    if entry.type == "step" and isinstance(data.get("run"), str):
        log.runs.setdefault(data["run"], []).append((entry.number, data))
    elif entry.type == "rules" and isinstance(data.get("hash"), str):
        log.rules[data["hash"]] = data
    elif entry.type == "decision":
        log.on_core += data.get("source") not in (None, "contracts", "disabled", "skipped")
