"""
A thread that gives the worker's signs of life, over a connection of its own.

An event loop that is busy, or a dispatcher whose question hangs, must not cost the worker its leases.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ..steps import Beat, NoAnswerError, StoreLine
from .membership import Membership
from .settling import settle_all

BEATS_PER_LEASE = 3
SWEEP_EVERY = 6

_log = logging.getLogger("openbox_agentrt.fleet")


class Heartbeat:
    """
    Renew the worker's lease three times in its length, and settle the leases of workers that died.

    Args:
        connect: Makes a connection.
        membership: What the worker knows of itself.
        wake: Tells the dispatcher that there is something to repeat.
    """

    def __init__(
        self, connect: Callable[[], StoreLine], membership: Membership, wake: Callable[[], None]
    ) -> None:
        self._line = connect()
        self._membership = membership
        self._wake = wake
        self._stop = threading.Event()
        self._turn = 0
        self._is_more_over = False
        self.thread = threading.Thread(target=self._run, name="openbox-fleet-beat", daemon=True)

    def stop(self) -> None:
        """End the thread after the beat that it is giving."""
        self._stop.set()

    def beat(self) -> None:
        """
        Give one sign of life.

        Raises:
            NoAnswerError: The store gave no answer.
        """
        worker, asked = self._membership.worker, time.monotonic()
        if not worker.beaten:
            return
        step = Beat(worker=worker.id, lease_us=self._membership.lease_us, acked=worker.acked)
        answer = self._line.run([step])[0]
        if answer.said == "ok":
            self._membership.beaten(worker, asked)
        if worker is self._membership.worker:
            self._membership.heard(worker, answer)
        if self._membership.suspect:
            self._wake()
        dead = (other for other in answer.dead if other != worker.id)
        self._membership.counts.settled += settle_all(self._line, dead)
        self._turn += 1
        if self._is_more_over or self._turn % SWEEP_EVERY == 0:
            # Much less than is left until the next beat.
            self._is_more_over = self._line.sweep(self._membership.lease_seconds / (5 * BEATS_PER_LEASE))

    def _run(self) -> None:
        while not self._stop.wait(self._membership.lease_seconds / BEATS_PER_LEASE):
            try:
                self.beat()
            except NoAnswerError as error:
                # Whoever reserves is told of the outage. If it lasts, the lease ends, on the strict side.
                _log.debug("no sign of life could be given: %s", error)
            except Exception:  # noqa: BLE001 - logged, and the next beat follows
                # The thread has to live on: without it, every lease of this worker ends.
                _log.exception("the fleet's heartbeat failed")
        self._line.close()
