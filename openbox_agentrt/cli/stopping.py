"""The end of what goes on until it is told: by a person or by whatever runs it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def until_stopped() -> Iterator[None]:
    """
    Go on until Ctrl+C or SIGTERM ends the block, which raises nothing then.

    Either is a proper end: what is open around it is closed, and the exit code is 0. To be used in the main
    thread.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
