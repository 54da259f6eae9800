"""Name what a console looks at: Core's database, evidence, rules, and whoever decides."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._halt import halt_of
from ..acel.rulesfile import Rules, read_rules
from ..evidence.logs import logs_in
from ..evidence.redaction.redactor import Redactor, redactor_of
from ..local_core import LocalCore
from ..local_core.reading import CoreReader
from .evidence_log import FollowedLog
from .fleet_state import FleetState

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sources:
    """
    Hold what a console looks at.

    Attributes:
        core: Takes decisions down.
        reader: Reads the same database.
        logs: The evidence, followed as it grows.
        rules: What the contracts are meant to be; None without a file.
        rules_file: The name of that file.
        redactor: Puts marks in the place of secrets before anything is shown.
        who: Who decides here.
        now: Seconds since 1970.
        began: When the console was started.
        fleet: The store that many processes share; None if none is named.
        refreshing: Held while a log is read.
    """

    core: LocalCore
    reader: CoreReader
    logs: tuple[FollowedLog, ...]
    rules: Rules | None
    rules_file: str
    redactor: Redactor
    who: str
    now: Callable[[], float]
    began: float
    fleet: FleetState | None
    refreshing: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(
        cls,
        core: LocalCore,
        db: str | os.PathLike[str],
        *,
        evidence: Iterable[str | os.PathLike[str]] = (),
        rules: str | os.PathLike[str] | None = None,
        public_key: str | None = None,
        redact_fields: Iterable[str] = (),
        who: str = "",
        fleet: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> Sources:
        """
        Open what is named.

        Args:
            core: Takes decisions down.
            db: Its database.
            evidence: Logs and folders of them. One that is not there yet is followed from when it is.
            rules: A rules file.
            public_key: The key that the logs have to be signed with, in hexadecimal.
            redact_fields: Names of arguments that nobody may see.
            who: Who decides.
            fleet: The URL of a store that many processes share.

        Raises:
            StoreError: `db` is not the database of a local Core.
            UnreadableLogError: A file is no evidence log.
            ConfigError: The rules are not understood.
        """
        followed = tuple(FollowedLog(path, public_key) for path in _logs(evidence))
        meant = None if rules is None else read_rules(rules)
        redactor = redactor_of(redact_fields)
        return cls(
            core=core,
            # Last: it is what has to be closed again.
            reader=CoreReader(db, hide=redactor.redact_text),
            logs=followed,
            rules=meant,
            rules_file="" if rules is None else Path(rules).name,
            redactor=redactor,
            who=who,
            now=now,
            began=now(),
            fleet=None if fleet is None else FleetState(fleet),
        )

    def shown(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Give an event with marks in the place of secrets."""
        redacted: Any = self.redactor.redact(dict(event))
        return dict(redacted)

    def halt(self, kind: str, value: str, reason: str) -> None:
        """
        Halt a run, a session or an agent in Core, and in every process that shares a store.

        Raises:
            ValueError: There is no reason.
            FleetError: The store was not told. In Core it is halted.
        """
        named = {"run": "run_id", "session": "session_id", "agent": "agent"}[kind]
        given = dict.fromkeys(("run_id", "session_id", "agent")) | {named: value}
        halt = halt_of(**given, reason=reason, by=self.who, at=self.now())
        self.core.halt(**given, reason=reason, by=self.who)
        if self.fleet is not None:
            self.fleet.halt(halt)

    def changes(self) -> int:
        """Give a number that changes when a log was read or verified anew."""
        return sum(log.changes for log in self.logs)

    def refresh(self) -> None:
        """Read what has come to the logs."""
        for log in self.logs:
            try:
                with self.refreshing:
                    log.refresh()
            except Exception as error:  # noqa: BLE001
                # Whoever can write one log must not keep the others from being followed.
                logger.error("%s cannot be followed: %s", log.name, type(error).__name__)

    def close(self) -> None:
        """Close what was opened; the Core is whoever gave it's to close."""
        self.reader.close()


def _logs(given: Iterable[str | os.PathLike[str]]) -> list[Path]:
    found: list[Path] = []
    for name in given:
        path = Path(name).expanduser()
        found += logs_in([path]) if path.exists() and (path.is_dir() or path.stat().st_size) else [path]
    return found
