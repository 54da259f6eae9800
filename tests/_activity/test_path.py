"""How far a reader has to jump to follow one governed tool call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import openbox_agentrt
from openbox_agentrt.acel import must_precede

PACKAGE = Path(openbox_agentrt.__file__).parent
LOCAL_CORE = PACKAGE / "local_core"

MOST_CHANGES = 87
"""It only shrinks."""


def watch(entered: list[str]) -> Callable[[FrameType, str, Any], None]:
    """Note the file of each function of ours that is entered, in order. A local Core is not on the way."""

    def profile(frame: FrameType, what: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if what != "call" or not path.is_relative_to(PACKAGE):
            return
        caller = "" if frame.f_back is None else frame.f_back.f_code.co_filename
        # Nor is what it calls itself.
        if not (path.is_relative_to(LOCAL_CORE) or Path(caller).is_relative_to(LOCAL_CORE)):
            entered.append(path.relative_to(PACKAGE).as_posix())

    return profile


async def test_a_tool_call_with_a_contract_is_read_in_few_files(make_stage: Any, kit: Any) -> None:
    """From the registry to the handler and back, with a contract that looks and a Core that is asked."""
    stage = await make_stage(None, contracts=[must_precede("a", "b")])
    registry = stage.governance.wrap_tool_registry(kit.registry({"a": lambda: "done"}))
    entered: list[str] = []

    async with stage.governance.run_scope("go"):
        await registry.execute(kit.call("a", id="first"))
        sys.setprofile(watch(entered))
        try:
            await registry.execute(kit.call("a", id="second"))
        finally:
            sys.setprofile(None)

    changes = sum(one != other for one, other in pairwise(entered))
    assert len(set(entered)) > 20, "saw hardly any files: this test would pass without looking"
    assert changes <= MOST_CHANGES
