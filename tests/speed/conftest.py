"""Costs that are counted, not timed: the same on any machine, however busy."""

from __future__ import annotations

import dis
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import openbox_agentrt
from benchmarks import held

PACKAGE = str(Path(openbox_agentrt.__file__).parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """
    What the interpreter did in code of this package.

    Attributes:
        steps: Bytecode instructions. A loop that goes round more often has more, whatever is in it.
        names: The same, by name of the instruction.
    """

    steps: int
    names: Counter[str]


def work_of(call: Callable[[], object], *, everywhere: bool = False) -> Work:
    """
    The instructions of one call.

    Args:
        everywhere: Count those of libraries as well.
    """
    names: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if not everywhere and not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            code = frame.f_code.co_code[frame.f_lasti]
            names[dis.opname[code]] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return Work(steps=sum(names.values()), names=names)


def allocated_by(call: Callable[[], object]) -> int:
    """The most memory that one call held at a time, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def held_by(make: Callable[[], object]) -> int:
    """The memory that stays of what one call gives, in bytes, once others were made."""
    make()
    return held.held_by(make)


@pytest.fixture(name="work_of")
def work_of_fixture() -> Callable[[Callable[[], object]], Work]:
    return work_of


@pytest.fixture(name="allocated_by")
def allocated_by_fixture() -> Callable[[Callable[[], object]], int]:
    return allocated_by


@pytest.fixture(name="held_by")
def held_by_fixture() -> Callable[[Callable[[], object]], int]:
    return held_by
