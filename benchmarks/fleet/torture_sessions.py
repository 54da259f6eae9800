"""Workers of the attack that pay in durable sessions, each of which several of them want at once."""

from __future__ import annotations

import random
import signal
import time
from contextlib import closing
from pathlib import Path

from openbox_agentrt.acel import Session, at_most_n_times, must_precede
from openbox_agentrt.fleet import Fleet, open_fleet

from .ledger import KEYS, pay


def session_of(fleet: Fleet, key: str, limit: int) -> Session:
    """Make this worker's own end of a session."""
    rules = (must_precede("verify", "pay"), at_most_n_times("pay", limit))
    return Session(contracts=rules, fleet=fleet, durable=True, session_id=key)


def work(url: str, paid: Path, limit: int, lease: float) -> None:
    """Be a worker until somebody ends it."""
    rnd, ending = random.Random(), []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    with closing(open_fleet(url, lease_seconds=lease, timeout_seconds=0.5)) as fleet:
        sessions = {f"c{n}": session_of(fleet, f"c{n}", limit) for n in range(KEYS)}
        while not ending:
            key = rnd.choice(list(sessions))
            one_call(sessions[key], paid, key, rnd)
            if rnd.random() < 0.3:
                sessions[key].release()


def one_call(session: Session, paid: Path, key: str, rnd: random.Random) -> bool:
    """Pay once, if the session lets it through. Returns whether it may be tried again."""
    call = session.reserve("pay")
    if call.refusal is not None:
        if all(broken.needs == "verify" for broken in call.refusal.broken):
            session.reserve("verify", started=True).commit("yes") if session.would("verify") is None else None
            return True
        time.sleep(0.01)
        return any(broken.of_store for broken in call.refusal.broken)
    time.sleep(rnd.choice([0, 0, 0.005, 0.05]))
    if call.start():
        pay(paid, key)
        time.sleep(rnd.choice([0, 0.01]))
        call.commit("paid")
    return True


def spend_what_is_left(url: str, paid: Path, limit: int, lease: float) -> None:
    """Pay in every session until it refuses for good."""
    rnd = random.Random(0)
    with closing(open_fleet(url, lease_seconds=lease, timeout_seconds=5)) as fleet:
        for n in range(KEYS):
            session = session_of(fleet, f"c{n}", limit)
            until = time.monotonic() + 60
            while one_call(session, paid, f"c{n}", rnd) and time.monotonic() < until:
                pass
            session.release()
