"""Ids that name something and keep no secret."""

from __future__ import annotations

import itertools
import os
import random
import uuid
from collections.abc import Iterator

_HEAD_LETTERS = 24

_head: str
_numbers: Iterator[int]


def new_id() -> str:
    """
    Give an id that nothing else has, in the form of a UUID of version 4.

    All but its last group is random, and this process's own. The last one is counted on from a random number:
    a random number for each id takes three times as long.
    """
    return f"{_head}{next(_numbers):012x}"


def _begin() -> None:
    # Not by the generator that programs seed: their runs would have the ids of an earlier process.
    global _head, _numbers
    _head = str(uuid.uuid4())[:_HEAD_LETTERS]
    _numbers = itertools.count(random.SystemRandom().getrandbits(40))


_begin()
if hasattr(os, "register_at_fork"):
    # Nor would a fork have its parent's.
    os.register_at_fork(after_in_child=_begin)
