"""A bare AgentLoop against the governed one: processor time and waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.resources import as_file, files
from time import perf_counter, process_time
from typing import Any

from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt._options.in_process import InProcessCore
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Fault, FaultyCore

from .agents import SHAPES, Shape
from .cores import InstantCore
from .tables import Row, Table
from .timing import spread

LATENCY = 0.02
THOUGHT = 0.03
Run = Callable[[], Awaitable[None]]


def measure(quick: bool) -> Table:
    """Every shape of agent, bare and governed, in turns."""
    return asyncio.run(_measure(quick))


async def _measure(quick: bool) -> Table:
    rows: list[Row] = []
    shapes = [shape for shape in SHAPES if shape.calls <= (1 if quick else 100)]
    async with _governances() as governances:
        for shape in shapes:
            rows += await _in_process(
                shape, governances, rounds=2 if quick else max(8, 60 // shape.activities)
            )
        many = 10 if quick else 1000
        rows += await _at_once(SHAPES[1], governances, many)
    async with _remote() as remote:
        for shape in shapes:
            if shape.calls <= 10:
                rows += await _waiting(shape, remote, rounds=1 if quick else 5)
        rows += await _waiting_with_work(remote, rounds=1 if quick else 5)
    return Table(
        name="runs",
        title="Governed runs",
        columns=("case", "who", "ms a run", "CPU us more for each activity", "times the bare loop"),
        rows=rows,
        notes=(
            'The median of the time, the least of the processor time. "no Core": asking, without what is'
            ' asked. "LocalCore": in memory, without a policy, with one that is a Python callable and does'
            " nothing, and with the shipped one in Rego, whose own process is not counted."
            f' "{LATENCY * 1e3:.0f} ms": over HTTP on loopback, answered after that time by a server that'
            ' shares the processor, so its processor time is not shown. "Times the bare loop": what is added,'
            " against what the bare loop takes."
        ),
    )


@asynccontextmanager
async def _governances() -> AsyncIterator[dict[str, Any]]:
    plain: dict[str, Any] = {"install_instrumentation": False, "validate": False, "environ": {}}
    policy = files("openbox_agentrt.local_core") / "policy.rego"
    async with AsyncExitStack() as stack:
        cores: dict[str, InProcessCore] = {
            "no Core": InstantCore(),
            "LocalCore": stack.enter_context(LocalCore()),
            "with a callable": stack.enter_context(LocalCore(lambda event: None)),
            "with Rego": stack.enter_context(LocalCore(stack.enter_context(as_file(policy)))),
        }
        yield {
            name: await stack.enter_async_context(await create_openbox_agentrt(core=core, **plain))
            for name, core in cores.items()
        }


@asynccontextmanager
async def _remote() -> AsyncIterator[dict[str, Any]]:
    local = LocalCore()
    with local, FaultyCore(local, keep=1) as core, core.always(Fault.late(LATENCY)):
        found = {}
        for telemetry in ("inline", "ordered"):
            found[telemetry] = await create_openbox_agentrt(
                api_url=core.url,
                api_key=core.api_key,
                telemetry=telemetry,
                on_api_error="fail_closed",
                install_instrumentation=False,
                validate=False,
                environ={},
            )
        async with found["inline"], found["ordered"]:
            yield found


async def _in_process(shape: Shape, governances: dict[str, Any], *, rounds: int) -> list[Row]:
    runs: dict[str, Run] = {"bare": shape.run}
    for name, governance in governances.items():
        runs[name] = partial(shape.run, governance.govern_loop)
    wall, cpu = await _timed(runs, rounds)
    return [
        (
            shape.name,
            name,
            wall[name] * 1e3,
            (cpu[name] - cpu["bare"]) / shape.activities * 1e6,
            (cpu[name] - cpu["bare"]) / cpu["bare"],
        )
        for name in runs
    ]


async def _at_once(shape: Shape, governances: dict[str, Any], many: int) -> list[Row]:
    async def together(govern: Callable[[Any], Any]) -> None:
        await asyncio.gather(*(shape.run(govern) for _ in range(many)))

    runs: dict[str, Run] = {"bare": lambda: together(lambda loop: loop)}
    for name, governance in governances.items():
        runs[name] = partial(together, governance.govern_loop)
    wall, cpu = await _timed(runs, 2)
    activities = shape.activities * many
    return [
        (
            f"{many:,} runs at once, {shape.name}",
            name,
            wall[name] * 1e3 / many,
            (cpu[name] - cpu["bare"]) / activities * 1e6,
            (cpu[name] - cpu["bare"]) / cpu["bare"],
        )
        for name in runs
    ]


async def _waiting(shape: Shape, remote: dict[str, Any], *, rounds: int) -> list[Row]:
    runs: dict[str, Run] = {
        name: partial(shape.run, governance.govern_loop) for name, governance in remote.items()
    }
    wall, _ = await _timed(runs, rounds)
    return [(f"{shape.name}, {LATENCY * 1e3:.0f} ms", name, wall[name] * 1e3, "", "") for name in runs]


async def _waiting_with_work(remote: dict[str, Any], *, rounds: int) -> list[Row]:
    """Ten activities of the user's own, and something else to do after each."""

    async def work(governance: Any) -> None:
        async with governance.run_scope("add"):
            for _ in range(10):
                async with governance.activity("add", [1, 2]):
                    pass
                await asyncio.sleep(THOUGHT)

    runs: dict[str, Run] = {name: partial(work, governance) for name, governance in remote.items()}
    wall, _ = await _timed(runs, rounds)
    case = f"10 activities, {THOUGHT * 1e3:.0f} ms of other work after each, {LATENCY * 1e3:.0f} ms"
    return [(case, name, wall[name] * 1e3, "", "") for name in runs]


async def _timed(runs: dict[str, Run], rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    wall: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            began, used = perf_counter(), process_time()
            await run()
            if number:  # the first is to warm up
                wall[name].append(perf_counter() - began)
                cpu[name].append(process_time() - used)
    return (
        {name: spread(samples).median for name, samples in wall.items()},
        # The least: a busy neighbour only ever adds to it.
        {name: min(samples) for name, samples in cpu.items()},
    )
