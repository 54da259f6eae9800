"""A worker in a process of its own: it makes a call of a durable session, and waits to be told to go on."""

from __future__ import annotations

import sys
from typing import Any

from openbox_agentrt.acel import Session, at_most_n_times, must_precede
from openbox_agentrt.acel.engine.durable.keep import kept_of
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.fleet import Fleet, open_fleet


def rules() -> list[Any]:
    return [must_precede("verify", "pay"), at_most_n_times("pay", 1), must_precede("pay", "ship")]


def session_of(fleet: Fleet) -> Session:
    """The one session of these tests."""
    return Session(contracts=rules(), fleet=fleet, durable=True, session_id="c-1")


def main() -> None:
    """Arguments: the store's URL, and the length of a lease. Each line that is read is a step."""
    url, lease_seconds = sys.argv[1:]
    session = session_of(open_fleet(url, lease_seconds=float(lease_seconds), timeout_seconds=20))
    call: Any = None
    for line in sys.stdin:
        word = line.strip()
        if word == "verify":
            session.call("verify", result="yes")
        elif word == "reserve":
            call = session.reserve("pay")
        elif word == "start":
            print("may" if call.start() else call.refusal.message, flush=True)
            continue
        elif word == "commit":
            call.commit("paid")
        elif word == "settle":
            kept = kept_of(engine_of(session)).session
            kept.wait(kept.write())
        elif word == "release":
            session.release()
        print("done", flush=True)


if __name__ == "__main__":
    main()
