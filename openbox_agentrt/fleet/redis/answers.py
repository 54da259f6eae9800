"""Read back what the scripts answer."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ..answers import BrokenGuard
from ..steps import LeaseState, Said, SessionStand, StepAnswer
from ..wire import WirePlan

_PLANS = msgspec.json.Decoder(WirePlan)


def read_answer(raw: list[Any]) -> StepAnswer:
    """Read what every script answers: texts, and a list of them at the end."""
    said, now, generation, ops, state, broken, over, dead, plan, note, until, session = raw
    return StepAnswer(
        said=cast(Said, said.decode()),
        now=int(now),
        generation=generation.decode(),
        ops=int(ops),
        state=cast(LeaseState, state.decode()),
        broken=tuple(map(_broken, broken.decode().split(";"))) if broken else (),
        over=tuple(map(int, over.split())),
        dead=tuple(dead.decode().split()),
        plan=_PLANS.decode(plan) if plan else None,
        note=note.decode(),
        until=int(until),
        session=_session(session) if session else None,
    )


def _session(texts: list[bytes]) -> SessionStand:
    birth, version, writer, has_pieces, *told = (text.decode() for text in texts)
    pieces = dict(zip(told[::2], told[1::2], strict=True)) if has_pieces == "1" else None
    return SessionStand(birth=birth, version=int(version), writer=writer, pieces=pieces)


def _broken(text: str) -> BrokenGuard:
    guard, live, done, total, known, unread, last, free_at, period_end = text.split(" ")
    return BrokenGuard(
        guard=int(guard),
        live=int(live),
        done=int(done),
        total=int(total),
        known=_maybe(known),
        unread=unread == "1",
        last=_maybe(last),
        free_at=_maybe(free_at),
        period_end=_maybe(period_end),
    )


def _maybe(text: str) -> Any:
    return None if text == "-" else int(text)
