"""Memory does not grow with a recording: counted are blocks of memory, over ten times as much input."""

from __future__ import annotations

import gc
import json
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_n_times
from openbox_agentrt.acel.rulesfile import parse_rules
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.traces import (
    backtest,
    conversations,
    counts,
    judge,
    open_calls,
    sampled,
    sorting,
    spilled,
)
from openbox_agentrt.traces.events import TraceEvent
from openbox_agentrt.traces.formats import Recordings
from openbox_agentrt.traces.in_time import in_time
from openbox_agentrt.traces.mined_sessions import recorded_sessions
from openbox_agentrt.traces.sorting import NoRoomError
from openbox_agentrt.traces.spilled import Spilled

SHORT, LONG = 120, 1_200
# More than caches and tables that grow by leaps, and less than a block for each call.
SLACK = 700


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "IN_MEMORY", 4_000)
    monkeypatch.setattr(spilled, "IN_MEMORY", 4_000)
    monkeypatch.setattr(open_calls, "MOST_OPEN", 20)
    monkeypatch.setattr(conversations, "MOST_SPANS", 20)
    monkeypatch.setattr(conversations, "MOST_TRACES", 20)
    monkeypatch.setattr(counts, "MOST_NAMED", 20)
    monkeypatch.setattr(judge, "MOST_OPEN", 20)
    monkeypatch.setattr(sampled, "MOST_WEIGHT", 40_000)


def row(number: int, **more: Any) -> dict[str, Any]:
    args = {"customer": f"c-{number}", "amount": 9}
    return {"tool": "pay", "args": args, "ts": 1e9 + number, "session_id": f"s-{number // 2}", **more}


def rows(number: int) -> Iterator[Any]:
    yield row(number, result="paid")


def rows_that_never_end(number: int) -> Iterator[Any]:
    yield row(number, event="began", call=str(number))


def mcp(number: int) -> Iterator[Any]:
    params = {"name": "pay", "arguments": {"customer": f"c-{number}", "amount": 9}}
    yield {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    yield {"jsonrpc": "2.0", "id": number, "result": {"content": []}}


def openai(number: int) -> Iterator[Any]:
    function = {"name": "pay", "arguments": json.dumps({"customer": f"c-{number}", "amount": 9})}
    yield {"role": "assistant", "tool_calls": [{"id": f"call-{number}", "function": function}]}
    yield {"role": "tool", "tool_call_id": f"call-{number}", "content": "paid"}


def otlp(number: int) -> Iterator[Any]:
    told = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.arguments": json.dumps({"customer": f"c-{number}", "amount": 9}),
        "gen_ai.conversation.id": f"s-{number // 2}",
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
    times = {"startTimeUnixNano": f"{number + 1}000000000", "endTimeUnixNano": f"{number + 2}000000000"}
    span = {"spanId": f"{number:016x}", "attributes": attributes, **times}
    yield {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


FORMATS: tuple[Callable[[int], Iterator[Any]], ...] = (rows, rows_that_never_end, mcp, openai, otlp)
RULES = parse_rules(
    {
        "contracts": [
            {"template": "at_most_n_times", "args": ["pay", 1], "key": "customer"},
            {"template": "at_most_total", "args": ["pay", "amount", 1]},
            {"template": "response", "args": ["pay", "note"]},
        ]
    }
)


def written(path: Path, make: Callable[[int], Iterable[Any]], count: int) -> Path:
    lines = (json.dumps(value) for number in range(count) for value in make(number))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def grown(use: Callable[[Iterator[TraceEvent]], Any], path: Path) -> int:
    """Count the blocks that are in use at the last event of a recording, over those before it."""
    used: list[int] = []

    def watched() -> Iterator[TraceEvent]:
        yield from Recordings([str(path)]).events()
        gc.collect()
        used.append(sys.getallocatedblocks())

    gc.collect()
    before = sys.getallocatedblocks()
    use(watched())
    return used[0] - before


def read(events: Iterator[TraceEvent]) -> None:
    for _ in events:
        pass


def backtested(events: Iterator[TraceEvent]) -> None:
    result = backtest.backtest(events, RULES, against=parse_rules({"contracts": [], "allow_empty": True}))
    assert result.now_refused.count == result.refused > 0


def mined(events: Iterator[TraceEvent]) -> None:
    assert recorded_sessions(events).sessions


def in_order(events: Iterator[TraceEvent]) -> None:
    for _ in in_time((events,)):
        pass


def assert_flat(use: Callable[[Iterator[TraceEvent]], Any], short: Path, long: Path) -> None:
    grown(use, short)  # what is made once
    assert grown(use, long) - grown(use, short) < SLACK


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("use", [read, backtested])
def test_of_each_format(
    use: Callable[[Iterator[TraceEvent]], Any], make: Callable[[int], Iterator[Any]], tmp_path: Path
) -> None:
    """Whatever the number of calls, sessions and keys, of refusals and of changes."""
    short, long = (written(tmp_path / f"{n}.jsonl", make, n) for n in (SHORT, LONG))
    assert_flat(use, short, long)


def test_of_our_own_evidence(tmp_path: Path) -> None:
    def log(count: int) -> Path:
        path = tmp_path / f"{count}.jsonl"
        with EvidenceFile(path, record="steps") as evidence:
            for number in range(count):
                session = Session(
                    contracts=[at_most_n_times("pay", 1)], evidence=evidence, session_id=f"s-{number}"
                )
                session.reserve("pay", {"customer": f"c-{number}"}).commit()
                session.end_session()
        return path

    assert_flat(read, log(20), log(200))


@pytest.fixture
def _no_room() -> Iterator[None]:
    """Let files grow no further, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_no_room")
def test_a_full_disk_is_one_line() -> None:
    """It says what to do, of sessions that wait and of events that are put in order alike."""
    with pytest.raises(NoRoomError, match=r"the temporary folder has no room .*: set TMPDIR"):
        Spilled().put({str(n): bytes(1_000_000) for n in range(20)})
    with pytest.raises(NoRoomError, match=r"the temporary folder has no room .*: set TMPDIR"):
        list(sorting.in_order(range(9_000), str))


def test_of_what_is_mined(tmp_path: Path) -> None:
    """Of the sessions of a large recording some are looked at, each of them whole."""
    short, long = (written(tmp_path / f"{n}.jsonl", rows, n) for n in (SHORT, LONG))
    assert_flat(mined, short, long)
    sample = recorded_sessions(Recordings([str(long)]).events())
    assert 0 < sample.share < 1
    assert {len(session.calls) for session in sample.sessions} == {2}
