"""Forked processes: they inherit threads that do not run, and connections that are not theirs."""

from __future__ import annotations

import os
import weakref
from functools import cache
from typing import Protocol


class Forkable(Protocol):
    """An object that a forked process has to start anew before it is used there."""

    def start_anew(self) -> None: ...


_living: weakref.WeakSet[Forkable] = weakref.WeakSet()


def start_anew_in_forks(one: Forkable) -> None:
    """Call `start_anew` in every process that is forked while `one` is in use."""
    _living.add(one)
    _hook()


@cache
def _hook() -> None:
    if hasattr(os, "register_at_fork"):  # Windows has no forks
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    for one in tuple(_living):
        one.start_anew()
