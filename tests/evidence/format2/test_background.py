"""Sealing in the background."""

import threading

from openbox_agentrt.evidence.format2.background import BackgroundLane


def test_wakes_within_an_interval_are_one_seal() -> None:
    """A burst of records costs one signature."""
    sealed = threading.Semaphore(0)
    seals: list[int] = []

    def seal() -> None:
        seals.append(1)
        sealed.release()

    lane = BackgroundLane(seal, 0.05)
    for _ in range(100):
        lane.wake()
    assert sealed.acquire(timeout=10)
    lane.stop()

    assert len(seals) == 1


def test_after_stop_nothing_is_sealed() -> None:
    """The thread ends, and no other is begun."""
    seals: list[int] = []
    lane = BackgroundLane(lambda: seals.append(1), 60)
    lane.wake()
    before = threading.active_count()
    lane.stop()
    lane.stop()
    lane._wanted.clear()
    lane.wake()

    assert seals == []
    assert threading.active_count() == before - 1


def test_a_seal_may_stop_its_own_lane() -> None:
    """A log that is closed from within a signer does not wait for itself."""
    stopped = threading.Event()

    def seal() -> None:
        lane.stop()
        stopped.set()

    lane = BackgroundLane(seal, 0.001)
    lane.wake()

    assert stopped.wait(10)
