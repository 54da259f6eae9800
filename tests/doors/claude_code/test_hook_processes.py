"""Claude Code hooks as the client runs them: real processes, many at once."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

HOOK = [sys.executable, "-m", "openbox_agentrt.cli", "hook"]
RULES = """\
contracts:
  - template: must_precede
    args:
      - {tool: Bash, matches: "pytest"}
      - {tool: Bash, matches: "git commit"}
  - template: at_most_n_times
    args: [Deploy]
    kwargs: {n: 7}
  - template: at_most_total
    args: [Pay, amount, 100]
"""


@pytest.fixture(autouse=True, scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the processes share compiled modules, as those of an installed package do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("pycache")))
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "rules.yaml").write_text(RULES)
    return folder


def run(
    project: Path,
    command: str,
    event: str,
    *,
    cwd: Path | None = None,
    arguments: Sequence[str] = (),
    **fields: Any,
) -> subprocess.CompletedProcess[str]:
    rules = ["--rules", str(project / "rules.yaml")]
    data = {"session_id": "s1", "cwd": str(project), "hook_event_name": event, **fields}
    return subprocess.run(
        [*HOOK, command, *rules, "--state-dir", ".claude/state", *arguments],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        cwd=cwd or project,
        env=os.environ | {"CLAUDE_PROJECT_DIR": str(project)},
        timeout=50,
        check=False,
    )


def denied(process: subprocess.CompletedProcess[str]) -> bool:
    assert process.returncode == 0, process.stderr
    if not process.stdout:
        return False
    return bool(json.loads(process.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny")


def call(number: int) -> dict[str, Any]:
    return {"tool_name": "Deploy", "tool_input": {"number": number}, "tool_use_id": f"toolu_{number}"}


def test_thirty_processes_at_once_cannot_pass_a_limit(project: Path) -> None:
    """Of thirty calls that start together, as many are let through as the contract allows."""
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda n: denied(run(project, "pre", "PreToolUse", **call(n))), range(30)))
        through = [number for number, refused in enumerate(answers) if not refused]
        ends = list(pool.map(lambda n: run(project, "post", "PostToolUse", **call(n)).returncode, through))

    assert len(through) == 7
    assert set(ends) == {0}
    files = (project / ".claude" / "state").glob("*.jsonl")
    (log,) = (path for path in files if "evidence" not in path.name)
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert (events.count("pre"), events.count("post"), events.count("deny")) == (7, 7, 23)


def test_a_session_from_beginning_to_end(project: Path) -> None:
    """Refused too early, let through after the tests, whatever folder the shell is in."""
    (project / "sub").mkdir()
    commit: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "git commit -m x"}}
    tests: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "pytest -q"}, "tool_use_id": "t1"}

    assert denied(run(project, "pre", "PreToolUse", tool_use_id="c1", **commit))
    assert not denied(run(project, "pre", "PreToolUse", **tests))
    assert run(project, "post", "PostToolUse", tool_response={"stdout": "ok"}, **tests).stdout == ""
    assert not denied(run(project, "pre", "PreToolUse", cwd=project / "sub", tool_use_id="c2", **commit))
    assert run(project, "end", "Stop").stdout == ""
    end = run(project, "end", "SessionEnd", reason="exit")

    assert (end.returncode, end.stdout, end.stderr) == (0, "", "")
    assert not (project / "sub" / ".claude").exists()
    assert len(list((project / ".claude" / "state").glob("*.evidence.jsonl"))) == 1


@pytest.mark.parametrize("command", ["pre", "post", "end"])
def test_a_fault_is_exit_code_2_and_one_line(project: Path, command: str) -> None:
    """And nothing on standard output."""
    process = run(project, command, "Notification")

    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("openbox-agentrt: this hook is for")
    assert process.stderr.count("\n") == 1


def test_missing_rules_are_exit_code_2(project: Path) -> None:
    """A path that was mistyped denies every call, and says so."""
    (project / "rules.yaml").unlink()

    process = run(project, "pre", "PreToolUse", **call(1))

    assert process.returncode == 2
    assert "rules.yaml" in process.stderr


def test_a_command_line_that_is_wrong_is_exit_code_2(project: Path) -> None:
    """Also where the command itself is misspelled."""
    for arguments in (["pre"], ["pre", "--rulez", "x"], ["before"], []):
        process = subprocess.run(
            [*HOOK, *arguments], input="{}", capture_output=True, text=True, timeout=50, check=False
        )
        assert (process.returncode, process.stdout) == (2, "")


def test_a_refusal_that_cannot_be_written_is_exit_code_2(project: Path) -> None:
    """Without it the client would take silence for consent."""
    data = {"session_id": "s1", "hook_event_name": "PreToolUse", **call(1)}
    data["tool_name"], data["tool_input"] = "Bash", {"command": "git commit"}
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [*HOOK, "pre", "--rules", str(project / "rules.yaml"), "--state-dir", str(project / "state")],
            input=json.dumps(data).encode(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=50,
            check=False,
        )

    assert process.returncode == 2


def test_a_process_that_is_killed_leaves_the_lock_to_the_next(project: Path) -> None:
    """The system gives a dead process's lock back."""
    code = (
        "import sys, time\n"
        "from openbox_agentrt.doors.claude_code.log import open_log\n"
        "with open_log('.claude/state', 's1'):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], cwd=project, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        holder.wait()

    assert not denied(run(project, "pre", "PreToolUse", **call(1)))


def test_a_process_ends_without_taking_itself_apart(project: Path) -> None:
    """What it has to say is out by then: what is registered for the end of a process has nothing to do."""
    code = (
        "import atexit, sys\n"
        "from openbox_agentrt.cli import process\n"
        "atexit.register(print, 'taken apart', file=sys.stderr)\n"
        f"sys.argv = ['openbox-agentrt', 'hook', 'pre', '--rules', {str(project / 'rules.yaml')!r},\n"
        f"    '--state-dir', {str(project / 'state')!r}]\n"
        "process()\n"
    )
    call = {"tool_name": "Bash", "tool_input": {"command": "git commit"}}
    event = {"session_id": "s1", "hook_event_name": "PreToolUse", **call}

    process = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(event),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert denied(process)
    assert process.stderr == ""


def loaded_by(*arguments: str, **fields: Any) -> set[str]:
    code = (
        "import sys\n"
        "from openbox_agentrt.cli import main\n"
        "from openbox_agentrt.cli.leaving import be_brief\n"
        "be_brief()\n"
        f"main(['hook', *{arguments!r}])\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps({"session_id": "s1", "hook_event_name": "PostToolUse", **call(1), **fields}),
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return set(process.stderr.split())


def test_the_hook_after_a_call_loads_no_engine(tmp_path: Path) -> None:
    """Each call starts this process: it loads what it needs to write one line."""
    loaded = loaded_by("post", "--state-dir", str(tmp_path / "state"))

    assert "openbox_agentrt.doors.claude_code.history" in loaded
    assert not loaded & HEAVY
    assert "openbox_agentrt.acel" not in loaded


HEAVY = {
    "typer",
    "rich",
    "yaml",
    "msgspec",
    "logging",
    "dataclasses",
    "inspect",
    "typing",
    "pathlib",
    "hashlib",
    "openbox_core",
    "agent_rt",
    "httpx",
    "cryptography",
    "opentelemetry",
}


def before(project: Path, tool: str, call_id: str, options: Sequence[str] = (), **args: Any) -> set[str]:
    arguments = ("pre", "--rules", str(project / "rules.yaml"), "--state-dir", str(project / "state"))
    fields = {"tool_name": tool, "tool_use_id": call_id, "tool_input": args}
    return loaded_by(*arguments, *options, hook_event_name="PreToolUse", **fields)


@pytest.mark.parametrize("tool", ["Glob", "Deploy"], ids=["no contract is about it", "well within its limit"])
def test_a_call_that_is_certain_to_run_loads_no_engine(project: Path, tool: str) -> None:
    """What its process needs is Python, the log, and the rules as they were understood before."""
    before(project, tool, "one")

    loaded = before(project, tool, "two")

    assert "openbox_agentrt.doors.claude_code.rules" in loaded
    assert not loaded & HEAVY
    assert not any(name.startswith("openbox_agentrt.acel") for name in loaded)
    assert len(ours(loaded)) <= 27, ours(loaded)


@pytest.mark.parametrize("command", ["ls", "pytest"], ids=["not found", "only needed by others"])
def test_a_call_whose_pattern_objects_to_nothing_loads_what_searches_it(project: Path, command: str) -> None:
    """The engine is not asked."""
    before(project, "Bash", "one", command=command)

    loaded = before(project, "Bash", "two", command=command)

    assert "openbox_agentrt.acel.match.patterns" in loaded
    assert "openbox_agentrt.acel.session" not in loaded


UNUSED = {
    "concurrent.futures",
    "ast",
    "datetime",
    "re2",
    "threading",
    "weakref",
    "copy",
    "unicodedata",
    "fnmatch",
}
"""What a judgement has no use for."""

SELDOM = (
    "fleet",
    "acel.condition",
    "acel.contracts.conditions",
    "acel.contracts.exclusion",
    "acel.contracts.obligations",
    "acel.contracts.provenance",
    "acel.contracts.tools",
    "acel.engine.durable",
    "acel.engine.fleet",
    "acel.engine.replay",
    "acel.engine.snapshot",
    "acel.memory.condition",
    "acel.memory.facts",
    "acel.memory.periodic",
    "acel.memory.kept_out",
    "acel.memory.tokens",
    "acel.memory.values",
    "acel.rulesfile",
)
"""What is loaded for the contracts, the sessions and the rules that need it, and for no others."""


def ours(loaded: set[str]) -> list[str]:
    return sorted(name for name in loaded if name.startswith("openbox_agentrt"))


def seldom(loaded: set[str]) -> list[str]:
    names = tuple(f"openbox_agentrt.{name}" for name in SELDOM)
    return [name for name in ours(loaded) if name in names or name.startswith(tuple(f"{n}." for n in names))]


def test_a_call_that_is_judged_loads_the_engine_only(project: Path) -> None:
    """Neither what reads rules, nor a command line library, nor anything that talks to a network."""
    before(project, "Pay", "one", amount=1)
    ended = {"tool_name": "Pay", "tool_use_id": "one", "tool_input": {"amount": 1}}
    loaded_by("post", "--state-dir", str(project / "state"), **ended)

    loaded = before(project, "Pay", "two", amount=1)

    assert "openbox_agentrt.acel.session" in loaded
    heavy = HEAVY - {"typing"} | UNUSED | {"base64"}
    assert not loaded & heavy, sorted(loaded & heavy)
    assert not seldom(loaded)
    assert "openbox_agentrt.evidence" not in loaded
    assert len(ours(loaded)) <= 112, ours(loaded)


def test_a_call_that_is_refused_loads_what_writes_a_line_of_evidence(project: Path) -> None:
    """Neither another JSON library, nor what makes dataclasses, nor what signs without a key."""
    before(project, "Pay", "one", amount=101)

    loaded = before(project, "Pay", "two", amount=102)

    assert "openbox_agentrt.evidence.format2.file" in loaded
    heavy = HEAVY - {"typing"} | UNUSED | {"hmac", "_hashlib"}
    assert not loaded & heavy, sorted(loaded & heavy)
    assert not seldom(loaded)
    assert "openbox_agentrt.evidence.format2.verification" not in loaded
    assert len(ours(loaded)) <= 135, ours(loaded)


def test_a_refusal_that_is_signed_loads_what_signs_beside_that(project: Path) -> None:
    """And nothing that the library for signatures does not load itself."""
    key = ("--key", str(project / "keys" / "key"), "--state-dir", str(project / "signed"))
    before(project, "Pay", "one", amount=101)
    before(project, "Pay", "one", key, amount=101)

    refused, signed = (before(project, "Pay", "two", more, amount=102) for more in ((), key))

    assert "cryptography.hazmat.primitives.asymmetric.ed25519" in signed
    more = {name.partition(".")[0] for name in signed - refused}
    assert more <= {"cryptography", "_cffi_backend", "_openssl"}, more


def test_a_call_after_which_a_snapshot_is_written_loads_no_other_json_library(project: Path) -> None:
    """The calls that ran are in its hash."""
    before(project, "Glob", "one")
    (log,) = (path for path in (project / "state").glob("*.jsonl"))
    line = {"event": "ran", "tool": "Pay", "args": {"amount": 1}, "outcome": "ok", "ts": 1.0}
    with log.open("a") as file:
        for number in range(70):
            file.write(json.dumps({**line, "call": f"p{number}"}) + "\n")

    loaded = before(project, "Pay", "two", amount=1)

    assert list((project / "state").glob("*.snap"))
    assert not loaded & (HEAVY - {"typing"}), sorted(loaded & HEAVY)


def acel_core(project: Path, command: str, data: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openbox_agentrt.cli", command, *arguments],
        input=data,
        capture_output=True,
        text=True,
        cwd=project,
        timeout=50,
        check=False,
    )


def test_settings_written_for_acel_core_work(project: Path) -> None:
    """Its commands, options, answers and trace file."""
    commit = json.dumps({"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": "git commit"}})
    tests = json.dumps({"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": "pytest"}})
    rules = ("--rules", "rules.yaml")

    assert denied(acel_core(project, "hook-pretooluse", commit, *rules))
    assert not denied(acel_core(project, "hook-pretooluse", tests, *rules))
    assert acel_core(project, "hook-posttooluse", tests).returncode == 0
    assert not denied(acel_core(project, "hook-pretooluse", commit, *rules))

    trace = json.loads((project / ".claude" / "acel_state" / "s1.json").read_text())
    assert trace == [{"tool": "Bash", "args": {"command": "pytest"}, "result": None}]
    empty = acel_core(project, "hook-pretooluse", "", *rules)
    assert (empty.returncode, empty.stdout) == (0, "")


@pytest.mark.parametrize("command", ["hook-pretooluse", "hook-posttooluse"])
def test_a_fault_denies_under_acel_cores_names_too(project: Path, command: str) -> None:
    """Where acel-core would end with another code, or begin a new history."""
    arguments = ("--rules", "missing.yaml") if command == "hook-pretooluse" else ()
    process = acel_core(project, command, '{"session_id": "s1"' + ("}" if arguments else ""), *arguments)

    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("openbox-agentrt: ")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
@pytest.mark.parametrize("closed", ["1", "2", "1 2"])
def test_a_refusal_that_cannot_be_told_is_a_fault(project: Path, closed: str) -> None:
    """Whatever stream is closed: no other exit code would keep the call from running."""
    words = [*HOOK, "pre", "--rules", str(project / "rules.yaml"), "--state-dir", str(project / "state")]
    command = " ".join(['exec "$@"', *(f"{stream}>&-" for stream in closed.split())])
    data: dict[str, Any] = {"session_id": "s1", "hook_event_name": "PreToolUse", "tool_name": "Pay"}
    if "1" in closed:
        data["tool_input"] = {}  # without it, it cannot be judged, and there is nothing for the model to read

    process = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *words],
        input=json.dumps(data).encode(),
        capture_output=True,
        timeout=50,
        check=False,
    )

    assert (process.returncode, process.stdout) == (2, b"")
