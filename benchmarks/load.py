"""
Many governed runs at once against a Core that is slow and fails now and then, in another process.

    python -m benchmarks load                 1000 runs at once with 10 activities each, then 1000 in rounds
    python -m benchmarks load --rounds 2000   an hour of it
    python -m benchmarks load --quick         a tenth of it

What must come out: every call ran once, no row and no workflow is open at Core, no report was lost, memory
does not grow with the number of runs, and every file descriptor is given back.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

from .agents import check_finished

TOOLS_PER_RUN = 8
"""With the pre-screened model call and the one after the tools, ten activities."""

LATENCY_SECONDS = 0.05
FAULTS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a load left behind."""

    runs: int
    failed: int
    calls: int
    calls_twice: int
    problems: Sequence[str]
    requests: int
    faults: int
    counts: Mapping[str, int]
    seconds: float
    descriptors_before: int
    descriptors_after: int
    objects: Sequence[int]
    rss_bytes: Sequence[int]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost and nothing is left open."""
        return (
            self.failed == 0
            and self.calls == self.runs * TOOLS_PER_RUN
            and self.calls_twice == 0
            and not self.problems
            and self.counts["reports_lost"] == 0
            and self.counts["fail_open"] == 0
            and self.descriptors_after <= self.descriptors_before
        )


def serve_core(pipe: Connection, latency: float, faults: float) -> None:
    """A Core with latency and faults, until the other end of `pipe` is closed."""
    from openbox_agentrt.local_core import LocalCore
    from openbox_agentrt.testing import Fault, FaultyCore

    logging.disable(logging.CRITICAL)
    with LocalCore() as core, ExitStack() as standing, FaultyCore(core, keep=0) as server:
        kinds = (Fault.respond(503), Fault.reset(), Fault.lost(), Fault.half_answer())
        standing.enter_context(server.always(Fault.slow(latency), path="/evaluate"))
        for kind in kinds:
            chance = faults / len(kinds)
            standing.enter_context(server.always(kind, path="/evaluate", chance=chance))
        pipe.send((server.url, server.api_key))
        while True:
            try:
                pipe.recv()
            except EOFError:
                return
            records = core.records()
            repeated = sum(record.same_as is not None for record in records)
            problems = [str(problem) for problem in (*core.orphans(), *core.open_workflows())]
            pipe.send((len(records), repeated, problems))


async def load(
    *, at_once: int, rounds: int, latency: float = LATENCY_SECONDS, faults: float = FAULTS
) -> Outcome:
    """
    Run `at_once` runs at the same time, `rounds` times in a row.

    Raises:
        ConnectionError: The Core did not start.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_core, args=(theirs, latency, faults), daemon=True)
    process.start()
    theirs.close()
    try:
        url, key = await asyncio.to_thread(ours.recv)
        return await _against(url, key, ours, at_once, rounds)
    finally:
        ours.close()
        process.join(10)
        process.close()


async def _against(url: str, key: str, core: Connection, at_once: int, rounds: int) -> Outcome:
    from agent_rt import (
        AgentConfig,
        AgentLoop,
        ContentPart,
        ModelMessage,
        ModelSettings,
        ToolDefinition,
        ToolRegistry,
    )

    from openbox_agentrt import create_openbox_agentrt
    from openbox_agentrt.testing import Call, Reply, ScriptedProvider

    ran: Counter[str] = Counter()

    async def work(arguments: Mapping[str, Any], token: object) -> str:
        ran[arguments["key"]] += 1
        return "done"

    registry = ToolRegistry()
    registry.register(ToolDefinition("work", "works", {"type": "object"}), handler=work)
    agent = AgentConfig("worker", "You work.", ModelSettings("model-1"))
    calls = twice = failed = 0
    objects: list[int] = []
    rss: list[int] = []
    before = descriptors()
    began = perf_counter()
    governance = await create_openbox_agentrt(
        environ={}, api_url=url, api_key=key, install_instrumentation=False, timeout_seconds=60
    )

    async def one(number: int) -> None:
        steps = tuple(Call(name="work", arguments={"key": f"{number} {i}"}) for i in range(TOOLS_PER_RUN))
        provider = ScriptedProvider(Reply(calls=steps), "done")
        loop = governance.govern_loop(AgentLoop(provider, tool_registry=registry))
        prompt = ModelMessage("user", (ContentPart("text", f"work {number}"),))
        check_finished(await loop.run(agent, [prompt]))

    async with governance:
        for _ in range(rounds):
            results = await asyncio.gather(*map(one, range(at_once)), return_exceptions=True)
            failed += sum(isinstance(result, BaseException) for result in results)
            del results
            calls += len(ran)
            twice += sum(times > 1 for times in ran.values())
            ran.clear()
            gc.collect()
            objects.append(len(gc.get_objects()))
            rss.append(resident())
    seconds = perf_counter() - began
    counts = dict(governance.counts)
    await asyncio.sleep(0.1)
    after = descriptors()
    core.send("report")
    _, _, problems = await asyncio.to_thread(core.recv)
    return Outcome(
        runs=at_once * rounds,
        failed=failed,
        calls=calls,
        calls_twice=twice,
        problems=problems,
        requests=counts["requests"],
        faults=counts["retries"],
        counts=counts,
        seconds=seconds,
        descriptors_before=before,
        descriptors_after=after,
        objects=objects,
        rss_bytes=rss,
    )


def descriptors() -> int:
    """How many files this process has open; 0 where that cannot be told."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def resident() -> int:
    """Memory of this process in bytes; 0 where that cannot be told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def show(name: str, outcome: Outcome) -> None:
    """Print what came out."""
    activities = outcome.runs * (TOOLS_PER_RUN + 2)
    print(f"{name}: {outcome.runs} runs, {activities} activities in {outcome.seconds:.1f} s")
    print(f"  requests {outcome.requests}, of which asked again {outcome.faults}")
    print(
        f"  failed runs {outcome.failed}, calls {outcome.calls}, calls that ran twice {outcome.calls_twice}"
    )
    print(f"  open at core {len(outcome.problems)}, counts {dict(outcome.counts)}")
    print(f"  descriptors {outcome.descriptors_before} before, {outcome.descriptors_after} after")
    print(f"  live objects by round: {_course([f'{count:,}' for count in outcome.objects])}")
    print(f"  resident by round: {_course([f'{size / 2**20:.0f} MiB' for size in outcome.rss_bytes])}")
    for problem in outcome.problems[:10]:
        print(f"  {problem}")
    print("  clean" if outcome.is_clean else "  NOT CLEAN")


def _course(values: Sequence[str]) -> str:
    """How values went, in at most ten of them."""
    step = max(1, (len(values) - 1) // 9 + 1)
    shown = [*values[:-1:step], *values[-1:]]
    return ", ".join(shown)


def main(argv: Sequence[str]) -> int:
    """Run the load; 1 if something was lost or left open."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks load")
    parser.add_argument("--quick", action="store_true", help="a tenth of the load")
    parser.add_argument("--at-once", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10, help="rounds of a tenth of that, for the memory")
    args = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    at_once = args.at_once // 10 if args.quick else args.at_once
    outcomes = {
        "at once": asyncio.run(load(at_once=at_once, rounds=1)),
        "in a row": asyncio.run(load(at_once=max(1, at_once // 10), rounds=args.rounds, latency=0.0)),
    }
    for name, outcome in outcomes.items():
        show(name, outcome)
    return 0 if all(outcome.is_clean for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
