"""Reports arrive in order, once as a rule, and not at the expense of whoever made them."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest
from openbox_core.contracts.events import EventEnvelope, EventType

from openbox_agentrt._core.attempt import stamped
from openbox_agentrt._core.counts import GateCounts
from openbox_agentrt._core.reports import ReportQueue

PLACE: ContextVar[str] = ContextVar("place", default="nowhere")


def event(name: str) -> EventEnvelope:
    return EventEnvelope(event_type=EventType.SIGNAL_RECEIVED, payload={"name": name})


class Sent:
    """A Core that writes down what it hears; `seconds` before it answers."""

    def __init__(self, *, seconds: float = 0.0, errors: int = 0) -> None:
        self.names: list[str] = []
        self.places: list[str] = []
        self.stamps: list[str | None] = []
        self._seconds = seconds
        self._errors = errors

    async def __call__(self, event: EventEnvelope, **how: Any) -> Any:
        await asyncio.sleep(self._seconds)
        if self._errors:
            self._errors -= 1
            raise ValueError("broken report")
        self.names.append(event.payload["name"])
        self.places.append(PLACE.get())
        self.stamps.append(event.timestamp)
        return f"answer to {event.payload['name']}"


def queue_to(sent: Any) -> ReportQueue:
    return ReportQueue(
        sent, lambda event: stamped(event, "2026-01-02T03:04:05.678Z"), GateCounts(), catch_up_seconds=1.0
    )


async def test_a_report_is_sent_and_answered() -> None:
    """The ordinary way waits for the answer and leaves nothing behind."""
    sent = Sent()
    queue = queue_to(sent)
    outbox = queue.outbox()

    answer: Any = await outbox.send(event("a"))

    assert answer == "answer to a"
    assert sent.names == ["a"]
    assert queue.pending == 0


async def test_posting_does_not_wait() -> None:
    """What is posted is sent later, in order, and stamped with the time at which it was posted."""
    sent = Sent(seconds=0.01)
    queue = queue_to(sent)
    outbox = queue.outbox()

    for name in "abc":
        outbox.post(event(name))
    assert sent.names == []
    assert outbox.pending == queue.pending == 3
    assert await outbox.settle()

    assert sent.names == ["a", "b", "c"]
    assert all(sent.stamps)
    assert queue.pending == 0


async def test_a_report_waits_for_those_before_it() -> None:
    """Core hears them in the order in which they were made."""
    sent = Sent(seconds=0.01)
    queue = queue_to(sent)
    outbox = queue.outbox()
    outbox.post(event("first"))

    answer = await outbox.send(event("second"))

    assert str(answer) == "answer to second"
    assert sent.names == ["first", "second"]


async def test_an_interrupted_report_is_sent_all_the_same() -> None:
    """The caller is cancelled; the report goes on in the background."""
    sent = Sent(seconds=0.05)
    queue = queue_to(sent)
    outbox = queue.outbox()
    sending = asyncio.create_task(outbox.send(event("a")))
    await asyncio.sleep(0.01)

    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert await outbox.settle()

    assert sent.names == ["a"]


async def test_waiting_can_be_limited() -> None:
    """When the time is up the caller goes on, and so do the reports."""
    sent = Sent(seconds=0.1)
    queue = queue_to(sent)
    outbox = queue.outbox()
    outbox.post(event("a"))

    assert not await outbox.settle(seconds=0.01)
    assert sent.names == []
    assert await outbox.settle()
    assert sent.names == ["a"]


async def test_reports_belong_to_no_activity() -> None:
    """They are sent in an empty context, so that nothing is attributed to the work around them."""
    sent = Sent()
    queue = queue_to(sent)
    outbox = queue.outbox()
    token = PLACE.set("inside")

    outbox.post(event("a"))
    await outbox.settle()
    PLACE.reset(token)

    assert sent.places == ["nowhere"]


async def test_a_report_that_fails_does_not_hold_the_others_back() -> None:
    """It is dropped and logged."""
    sent = Sent(errors=1)
    queue = queue_to(sent)
    outbox = queue.outbox()

    outbox.post(event("broken"))
    outbox.post(event("fine"))
    await outbox.settle()

    assert sent.names == ["fine"]
    assert queue.pending == 0


async def test_a_cancelled_worker_is_replaced() -> None:
    """``asyncio.run`` cancels every task when it ends; what was being sent is sent again by whoever waits."""
    sent = Sent(seconds=0.05)
    queue = queue_to(sent)
    outbox = queue.outbox()
    outbox.post(event("a"))
    await asyncio.sleep(0.01)
    (worker,) = [task for task in asyncio.all_tasks() if task.get_name() == "openbox-reports"]
    worker.cancel()

    assert await outbox.settle()

    assert sent.names == ["a"]


def test_reports_outlive_their_event_loop() -> None:
    """What one loop could not send any more, another one sends."""
    sent = Sent(seconds=0.05)
    queue = queue_to(sent)
    outbox = queue.outbox()

    async def post() -> None:
        outbox.post(event("a"))

    asyncio.run(post())
    assert queue.pending == 1
    assert asyncio.run(queue.settle(seconds=1)) == 0

    assert sent.names == ["a"]


def test_posting_without_a_loop_keeps_the_report() -> None:
    """A generator that the interpreter closes can post, though nothing can be sent there."""
    sent = Sent()
    queue = queue_to(sent)
    outbox = queue.outbox()

    outbox.post(event("a"))

    assert asyncio.run(queue.settle(seconds=1)) == 0
    assert sent.names == ["a"]


async def test_another_threads_loop_may_be_sending() -> None:
    """The same run may be at work in two loops; waiting in one does not send twice what the other sends."""
    sent = Sent(seconds=0.05)
    queue = queue_to(sent)
    outbox = queue.outbox()
    started = asyncio.Event()
    here = asyncio.get_running_loop()

    async def elsewhere() -> None:
        outbox.post(event("a"))
        here.call_soon_threadsafe(started.set)
        await asyncio.sleep(0.2)

    thread = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
    await started.wait()
    await asyncio.sleep(0.01)
    assert await outbox.settle()
    await thread

    assert sent.names == ["a"]


async def test_giving_up_is_counted() -> None:
    """Closing does not wait for ever; what is left is said."""
    queue = queue_to(Sent(seconds=5))
    outbox = queue.outbox()
    outbox.post(event("a"))
    outbox.post(event("b"))

    assert await queue.settle(seconds=0.01) == 2

    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
