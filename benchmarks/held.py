"""What stays in memory of things that are made."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def held_by(make: Callable[[], object]) -> int:
    """
    Count the bytes that stay of what a function gives, by tracemalloc, after a full collection.

    What the first call of its kind loads is counted too: make one before.
    """
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        del kept
        return size
    finally:
        tracemalloc.stop()
