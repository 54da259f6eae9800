"""Rego is evaluated in a process of its own: what ends there ends nothing here, and allows nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.local_core import LocalCore, PolicyError

Make = Callable[..., Any]
EMAIL = r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}[a-z]{2,3}$"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks")


def blocks_if(condition: str) -> str:
    return (
        'package p\nimport rego.v1\ndefault result := {"decision": "CONTINUE"}\n'
        f'result := {{"decision": "BLOCK", "reason": "found"}} if {{ {condition} }}\n'
    )


@pytest.fixture
def rego(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "policy.rego"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def pid_of(talk: Any) -> int:
    pid = talk.core._judge._rego.pid
    assert pid is not None
    return int(pid)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def children() -> set[int]:
    """Processes of ours that evaluate Rego."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if parent == os.getpid() and b"openbox_agentrt.local_core.rego.worker" in words:
            found.add(int(entry.name))
    return found


def wait_until_gone(pid: int) -> None:
    for _ in range(500):
        if not is_alive(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_long_text_meets_a_pattern(make: Make) -> None:
    """Patterns recurse once for each letter; the shipped policy finds the key at the beginning of 100 kB."""
    with as_file(files("openbox_agentrt.local_core") / "policy.rego") as shipped:
        answer = make(shipped).send("SignalReceived", signal_args=["my key is sk-" + "A" * 100_000])

    assert answer["verdict"] == "halt"


def test_a_text_that_ends_the_process_is_blocked(make: Make, rego: Any) -> None:
    """Beyond all bounds the process dies. That is a no to this event, and to no other."""
    talk = make(rego(blocks_if("regex.match(`^.*secret`, input.x)")))
    before = pid_of(talk)

    answer = talk.send(x="a" * 5_000_000)
    after = talk.send(activity_id="a2", x="nothing")

    assert answer["verdict"] == "block"
    assert answer["reason"].startswith("the policy's process came to its end over this event")
    assert after["verdict"] == "allow"
    assert talk.core.policy_counts.deaths == 1
    assert pid_of(talk) != before
    wait_until_gone(before)


def test_a_pattern_that_takes_for_ever_is_blocked(make: Make, rego: Any) -> None:
    """Time may grow with the length of an event, and no faster."""
    talk = make(rego(blocks_if(f"regex.match(`{EMAIL}`, input.x)")))

    assert talk.send(x="a@b.com")["verdict"] == "block"
    answer = talk.send(activity_id="a2", x="a" * 40)

    assert answer["verdict"] == "block"
    assert "needed more processor time than an event of this size may" in answer["reason"]
    assert talk.send(activity_id="a3", x="a@b.com")["reason"] == "found"


@pytest.mark.parametrize(
    "condition",
    [
        'time.weekday(time.now_ns()) == "Noday"',
        'time.clock([time.now_ns(), "Europe/Berlin"])[0] > 24',
        'time.format([time.now_ns(), "UTC", "2006"]) == "2000"',
    ],
)
def test_functions_of_time_answer(make: Make, rego: Any, condition: str) -> None:
    """They end a process in which another C++ library was loaded first."""
    assert make(rego(blocks_if(condition))).send()["verdict"] == "allow"


def test_a_process_that_is_silent_is_ended(make: Make, rego: Any) -> None:
    """Stopped, it answers nothing: the event is blocked when its time is up, and the next is judged anew."""
    talk = make(rego(blocks_if("input.x == 1")), policy_seconds=0.2)
    stopped = pid_of(talk)
    os.kill(stopped, signal.SIGSTOP)
    os.waitid(os.P_PID, stopped, os.WSTOPPED | os.WNOWAIT)

    answer = talk.send(x=2)

    assert (answer["verdict"], answer["reason"]) == ("block", "the policy took longer than 0.2 s")
    assert talk.send(activity_id="a2", x=2)["verdict"] == "allow"
    assert (talk.core.policy_counts.overdue, talk.core.policy_counts.deaths) == (1, 0)
    wait_until_gone(stopped)


def test_a_process_that_died_between_events_costs_none(make: Make, rego: Any) -> None:
    """Nothing was asked of it, so nothing is blocked for it."""
    talk = make(rego(blocks_if("input.x == 1")))
    os.kill(pid_of(talk), signal.SIGKILL)
    os.waitid(os.P_PID, pid_of(talk), os.WEXITED | os.WNOWAIT)

    assert talk.send(x=2)["verdict"] == "allow"
    assert talk.core.policy_counts.deaths == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set where the system heeds it")
def test_its_memory_is_limited(make: Make, rego: Any) -> None:
    """It may take a bounded amount beyond what it starts with."""
    limits = Path(f"/proc/{pid_of(make(rego(blocks_if('false'))))}/limits").read_text(encoding="ascii")

    assert "unlimited" not in next(line for line in limits.splitlines() if "address space" in line)


def test_the_engine_is_not_in_this_process(rego: Any) -> None:
    """Its native code is loaded where it can do no harm."""
    program = (
        "import sys; from openbox_agentrt.local_core import LocalCore\n"
        "with LocalCore(sys.argv[1]): print('regopy' in sys.modules)"
    )

    assert run(program, rego(blocks_if("false"))) == "False\n"


def test_closing_ends_the_process(make: Make, rego: Any) -> None:
    """At once, and for good."""
    talk = make(rego(blocks_if("false")))
    pid = pid_of(talk)

    talk.core.close()

    assert not is_alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_closing_while_a_process_starts_leaves_none(make: Make, rego: Any) -> None:
    """Neither the one that is starting nor one after it."""
    talk = make(rego(blocks_if("false")))
    dead = pid_of(talk)
    os.kill(dead, signal.SIGKILL)
    os.waitid(os.P_PID, dead, os.WEXITED | os.WNOWAIT)  # or it would be found running, and none be started
    before = children()
    talk.core._judge._thread.submit(lambda: talk.core._judge._rego._running(5), 5, lambda result, error: None)
    while children() <= before:
        time.sleep(0.001)

    talk.core.close()

    for pid in children() - before:
        wait_until_gone(pid)


def test_a_core_that_nobody_closes_leaves_no_process(rego: Any) -> None:
    """It ends when the core is forgotten."""
    core = LocalCore(rego(blocks_if("false")))
    assert core._judge._rego is not None
    pid = core._judge._rego.pid
    assert pid is not None

    core.close = None  # type: ignore[assignment,method-assign]  # whatever keeps it alive cannot close it
    from tests import conftest

    conftest._cores.clear()
    del core

    wait_until_gone(pid)


def test_a_broken_policy_leaves_no_process(rego: Any) -> None:
    """What it was tried out in is ended."""
    before = threading.active_count()
    with pytest.raises(PolicyError):
        LocalCore(rego("package p\nresult := nope(1)\n"))

    assert threading.active_count() == before


@pytest.mark.parametrize("ending", ["sys.exit(0)", "os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_the_process_ends_with_its_parent(rego: Any, ending: str) -> None:
    """However that comes to its end."""
    program = (
        "import os, sys; from openbox_agentrt.local_core import LocalCore\n"
        f"core = LocalCore(sys.argv[1]); print(core._judge._rego.pid, flush=True); {ending}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, rego(blocks_if("false"))], capture_output=True, text=True, check=False
    )

    wait_until_gone(int(done.stdout))


FORKED = """
import json, os, sys
from openbox_agentrt.local_core import LocalCore
core = LocalCore(sys.argv[1], path=sys.argv[2])
def ask(number):
    event = dict(source="workflow-telemetry", event_type="ActivityStarted", workflow_id="w", run_id="r",
                 workflow_type="A", task_queue="q", activity_id=str(number), activity_type="t", x=number)
    answer = core.handle("POST", "/api/v1/governance/evaluate",
                         {"authorization": f"Bearer {core.api_key}"}, json.dumps(event).encode())[2]
    return json.loads(answer)["verdict"]
said = [ask(1), ask(2)]
child = os.fork()
if child == 0:
    print(json.dumps([ask(11), ask(12), core._judge._rego.pid]), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps([ask(3), ask(2), core._judge._rego.pid, len(core.events())]))
"""


@pytest.mark.parametrize("path", [":memory:", "core.sqlite3"])
def test_a_forked_process_has_its_own(rego: Any, tmp_path: Path, path: str) -> None:
    """Parent and child go on, each with a process of its own; none of them outlives its parent."""
    where = path if path == ":memory:" else str(tmp_path / path)
    lines = run(FORKED, rego(blocks_if("input.x % 2 == 0")), where).splitlines()
    child, parent = map(json.loads, lines)

    assert child[:2] == parent[:2] == ["allow", "block"]
    assert child[2] != parent[2]
    assert parent[3] == (6 if path != ":memory:" else 4)
    wait_until_gone(child[2])
    wait_until_gone(parent[2])


def test_many_event_loops(make: Make, rego: Any, event_of: Any) -> None:
    """A core serves one loop after the other."""
    core = make(rego(blocks_if("input.x == 1"))).core
    headers = {"authorization": f"Bearer {core.api_key}"}

    async def ask(number: int) -> str:
        body = json.dumps(event_of(activity_id=f"a{number}", x=number)).encode()
        _, _, answer = await core.ahandle("POST", "/api/v1/governance/evaluate", headers, body)
        return str(json.loads(answer)["verdict"])

    async def together() -> list[str]:
        return await asyncio.gather(*(ask(number) for number in range(3)))

    assert [asyncio.run(ask(10)), asyncio.run(ask(11))] == ["allow", "allow"]
    assert asyncio.run(together()) == ["allow", "block", "allow"]


def test_a_changed_file_is_read_anew(make: Make, rego: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The next event is judged by it; a file that cannot be used changes nothing, and that is logged."""
    talk = make(rego(blocks_if("input.x == 1")))
    assert talk.send(x=2)["verdict"] == "allow"

    rego(blocks_if("input.x == 2 ; true"))
    assert talk.send(activity_id="a2", x=2)["verdict"] == "block"
    with caplog.at_level(logging.ERROR):
        path = rego("package p\nresult := := 3\n")
        assert talk.send(activity_id="a3", x=2)["verdict"] == "block"

    assert f"policy {path}:2: invalid assignment operator" in caplog.text
    assert talk.core.policy_counts.reloads == 1
    Path(path).unlink()
    assert talk.send(activity_id="a4", x=2)["verdict"] == "block"


@pytest.mark.parametrize("written", ["data.session", 'data["session"]', "data . session", "data[name]"])
def test_the_session_is_found_however_it_is_written(make: Make, rego: Any, written: str) -> None:
    """A policy that looks back must not look at nothing."""
    condition = f'name := "session"; count({written}.events) == 1'
    talk = make(rego(blocks_if(condition)))

    assert talk.send()["verdict"] == "allow"
    assert talk.send(activity_id="a2")["verdict"] == "block"


def test_a_policy_can_tell_that_events_are_missing(
    make: Make, rego: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees the latest events, how many earlier ones there are, and how many there were of each kind."""
    monkeypatch.setattr("openbox_agentrt.local_core.evaluation.SESSION_EVENTS", 3)
    seen = (
        'package p\nimport rego.v1\nresult := {"decision": "ALLOW", "seen": '
        "[count(data.session.events), data.session.missing, data.session.totals]}\n"
    )
    talk = make(rego(seen))
    for number in range(4):
        talk.send(activity_id=f"a{number}", activity_type="pay")
        talk.send(activity_id=f"a{number}", activity_type="pay")
    talk.send("ActivityCompleted", activity_id="a1", activity_type="pay")

    shown = talk.send("WorkflowCompleted")["seen"]

    assert shown == [3, 2, {"ActivityStarted": {"pay": 4}, "ActivityCompleted": {"pay": 1}}]


def test_a_result_that_is_null_blocks(make: Make, rego: Any) -> None:
    """It is no decision."""
    answer = make(rego("package p\nresult := null\n")).send()

    assert (answer["verdict"], answer["reason"]) == ("block", "the policy says nothing about this event")
