"""The rules that are in force in a governance, and how others take their place while it runs."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import OptionError

if TYPE_CHECKING:
    from ...acel.contracts.base import TemporalContract
    from ...acel.session import Session


log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
"""How often a watched rules file is looked at."""


BuildOwn = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractSource:
    """
    Hold what the option ``contracts`` stands for.

    Attributes:
        contracts: The contracts, for sessions that are built here.
        state: Initial state of such a session.
        build: The user's own way to build a session; None for sessions that are built here.
        rules_hash: Hash of `contracts`.
    """

    contracts: tuple[TemporalContract, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    build: BuildOwn | None = None
    rules_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """
    Say what reading the rules again has changed.

    Attributes:
        before: Hash of the rules that were in force.
        after: Hash of those that are.
        sessions: How many open sessions go on under the new ones.
    """

    before: str
    after: str
    sessions: int

    @property
    def changed(self) -> bool:
        """Tell whether the rules are other rules."""
        return self.before != self.after


class RulesInForce:
    """
    Hold the contracts of a governance and the sessions that are judged by them. Safe for several threads.

    Args:
        source: The contracts; None where there are none.
        read: Reads the rules file again; None where the contracts are no file.

    Attributes:
        source: The contracts that are in force.
        reloads: How often others took their place.
        refused: How often what was read could not be used.
    """

    def __init__(
        self,
        source: ContractSource | None,
        read: Callable[[], ContractSource | None] | None = None,
    ) -> None:
        self.source = source
        self.reloads = 0
        self.refused = 0
        self._read = read
        self._tell: list[Callable[[ContractSource, Reloaded], object]] = []
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        # Held while a session is made, which may be the user's code: it may come back here.
        self._lock = threading.RLock()
        self._reloading = threading.Lock()

    @property
    def hash(self) -> str | None:
        """Name the contracts by their hash; None where there are none, or code builds them."""
        return None if self.source is None else self.source.rules_hash

    def tell(self, changed: Callable[[ContractSource, Reloaded], object]) -> None:
        """Have `changed` told of each change, once it is in force everywhere."""
        self._tell.append(changed)

    @contextmanager
    def building(self) -> Iterator[Callable[[Session], None]]:
        """Make a block in which a session is built of `source`; what it gives takes note of the session."""
        with self._lock:
            yield self._sessions.add

    def reload(self) -> Reloaded:
        """
        Read the rules file again, and put it in force in every open session and for all that come.

        Raises:
            OptionError: The contracts are no file, or it cannot be used. The rules that were in force stay.
        """
        if self._read is None or self.source is None or self.source.rules_hash is None:
            raise OptionError("contracts", "is no rules file, so there is nothing to read again")
        with self._reloading:
            try:
                source = self._read()
            except OptionError:
                self.refused += 1
                raise
            assert source is not None
            assert source.rules_hash is not None
            before = self.source.rules_hash
            with self._lock:
                self.source = source
                sessions = [session for session in self._sessions if session.closed is None]
            if before != source.rules_hash:
                for session in sessions:
                    session.replace_contracts(source.contracts)
            reloaded = Reloaded(before=before, after=source.rules_hash, sessions=len(sessions))
            if reloaded.changed:
                self.reloads += 1
                log.warning("other rules are in force: %s, before them %s", reloaded.after, reloaded.before)
                for tell in self._tell:
                    tell(source, reloaded)
        return reloaded


class RulesFileWatch:
    """
    Reload the rules whenever their file changes, from a thread of its own, until it is closed.

    A file that cannot be used is said in the log, once for each change of it, and the rules stay.
    """

    def __init__(self, path: str | os.PathLike[str], rules: RulesInForce) -> None:
        self._path = Path(path).expanduser()
        self._rules = rules
        self._seen = self._look()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="openbox-rules-file", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching the rules file."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_SECONDS):
            now = self._look()
            if now == self._seen:
                continue
            self._seen = now
            try:
                self._rules.reload()
            except OptionError as error:
                log.error("the rules that were in force stay: %s", error)
            except Exception:
                # Nothing else is told of what happens here, and the next change is looked at again.
                log.exception(
                    "reading the rules again failed; those that were in force may be only partly replaced"
                )

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None  # it is being replaced; reading it says why, if it stays away
        return found.st_ino, found.st_size, found.st_mtime_ns
