"""The command line of the local Core."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from openbox_agentrt.cli import main
from openbox_agentrt.cli.core import _tell
from openbox_agentrt.evidence.redaction.redactor import redactor_of
from openbox_agentrt.local_core import DEFAULT_API_KEY, LocalCore

POLICY = 'package p\nresult := {"decision": "REQUIRE_APPROVAL", "reason": "always"}\n'
EVENT = {
    "event_type": "ActivityStarted",
    "workflow_id": "wf",
    "run_id": "run",
    "workflow_type": "Agent",
    "activity_id": "a1",
    "activity_type": "refund",
    "activity_input": [{"amount": 5, "note": "\x1b[2J\u202eevil"}],
}
KEY = {"Authorization": f"Bearer {DEFAULT_API_KEY}"}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def run(*arguments: str) -> Result:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["core", *arguments])
    return Result(code, out.getvalue(), err.getvalue())


def ask(core: LocalCore) -> None:
    core.handle("POST", "/api/v1/governance/evaluate", KEY, json.dumps(EVENT).encode())


@pytest.fixture
def waiting(tmp_path: Path) -> str:
    """A database in which one approval waits; returns its id."""
    with LocalCore(lambda event: "REQUIRE_APPROVAL", "openbox-core.sqlite3") as core:
        ask(core)
        return core.pending_approvals()[0].id


def state() -> str:
    with LocalCore(path="openbox-core.sqlite3") as core:
        return core.approvals()[0].state


def long_input(length: int = 3000) -> None:
    command = {"command": "echo safe" + " " * length + "; rm -rf /"}
    with LocalCore(lambda event: "REQUIRE_APPROVAL", "openbox-core.sqlite3") as core:
        event = {**EVENT, "activity_input": [command], "agent_name": "Ops", "session_id": "s1"}
        core.handle("POST", "/api/v1/governance/evaluate", KEY, json.dumps(event).encode())


def test_list_what_waits(waiting: str) -> None:
    """What is to be approved, by whom, since when and until when; no text of an event comes raw."""
    result = run("approvals")

    assert result.exit_code == 0
    first, times, because, given = result.stdout.splitlines()
    assert first == f'{waiting}  "refund" by agent "Agent"'
    assert re.fullmatch(r"  asked \d s ago, expires in \d+ (min|h)", times)
    assert because == '  because ""'
    assert given.startswith('  [{"amount": 5')
    assert "\\u202eevil" in given
    assert all(line.isascii() and line.isprintable() for line in result.stdout.splitlines())


def test_the_end_of_a_long_input_is_shown() -> None:
    """What is done last may be what matters; how much is left out is said, and where it can be seen."""
    long_input()

    shown = run("approvals").stdout
    (approval_id,) = re.findall(r"^(\S+)  \"refund\" by agent \"Ops\", session \"s1\"$", shown, re.MULTILINE)
    whole = run("show", approval_id).stdout

    assert "echo safe" in shown
    assert '; rm -rf /"}]' in shown
    text = json.dumps(json.loads(whole)["input"])
    assert f"... {len(text) - 600:,} characters are not shown ..." in shown
    assert f"{len(text):,} characters, sha256 {hashlib.sha256(text.encode()).hexdigest()}" in shown
    assert f"all of it: openbox-agentrt core show {approval_id}" in shown
    assert " " * 3000 in whole


@pytest.mark.parametrize("command", ["approvals", "show"])
def test_approvals_as_data(waiting: str, command: str) -> None:
    """One JSON object a line, with all of the input."""
    arguments = [waiting] if command == "show" else []
    (line,) = run(command, *arguments, "--json").stdout.splitlines()
    shown = json.loads(line)

    assert shown["id"] == waiting
    assert (shown["state"], shown["agent"], shown["input"]) == ("pending", "Agent", EVENT["activity_input"])
    assert shown["expires_at"] > shown["created_at"]


def test_what_was_decided_is_shown(waiting: str) -> None:
    """Also afterwards: what, by whom, and what was said."""
    run("approve", waiting, "--note", "checked", "--by", "ada")

    shown = json.loads(run("show", "a1").stdout)

    assert (shown["state"], shown["note"], shown["decided_by"]) == ("approved", "checked", "ada")
    assert shown["event"]["activity_id"] == "a1"


def test_whoever_is_logged_in_decides(waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another name is given."""
    monkeypatch.setattr("getpass.getuser", lambda: "grace")

    run("reject", waiting, "--note", "too much")

    with LocalCore(path="openbox-core.sqlite3") as core:
        (approval,) = core.approvals()
    assert (approval.state, approval.note, approval.decided_by) == ("rejected", "too much", "grace")


def test_nothing_is_shown_of_an_approval_that_is_not_there(waiting: str) -> None:
    """It says so."""
    result = run("show", "nothing")

    assert (result.exit_code, result.stderr) == (1, "error: no approval has the id 'nothing'\n")


def test_watch_what_comes(waiting: str) -> None:
    """What waits is listed, and then what comes, until it is interrupted."""
    command = [sys.executable, "-u", "-m", "openbox_agentrt.cli", "core", "approvals", "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            first = json.loads(process.stdout.readline())
            with LocalCore(lambda event: "REQUIRE_APPROVAL", "openbox-core.sqlite3") as core:
                event = {**EVENT, "activity_id": "a2"}
                core.handle("POST", "/api/v1/governance/evaluate", KEY, json.dumps(event).encode())
            second = json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGINT)

    assert (first["activity_id"], second["activity_id"]) == ("a1", "a2")
    assert process.returncode == 0, "as every command that goes on until it is told to end"


def test_approve(waiting: str) -> None:
    """By its id, and only once."""
    result = run("approve", waiting, "--note", "fine")

    assert (result.exit_code, result.stdout) == (0, f"approved refund {waiting}\n")
    assert state() == "approved"
    again = run("approve", waiting)
    assert (again.exit_code, again.stderr) == (1, f"error: approval '{waiting}' is approved already\n")


def test_reject(waiting: str) -> None:
    """By the activity that waits."""
    result = run("reject", "a1", "--note", "no")

    assert result.exit_code == 0
    assert state() == "rejected"
    assert run("approvals").stdout == "nothing waits for approval\n"


def test_check(waiting: str) -> None:
    """What does not add up is listed, and is an exit code."""
    result = run("check")

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "refund a1 of wf: never completed",
        "wf run: no terminal event",
        "1 events, 2 problems",
    ]


def test_check_of_an_empty_file() -> None:
    """Nothing happened, so everything adds up."""
    LocalCore(path="openbox-core.sqlite3").close()

    assert (run("check").exit_code, run("check").stdout) == (0, "0 events, 0 problems\n")


@pytest.mark.parametrize("command", [["approvals"], ["approve", "x"], ["reject", "x"], ["check"]])
def test_a_file_that_does_not_exist_is_not_made(command: list[str]) -> None:
    """A typing error in the name must not look like an empty list."""
    result = run(*command, "--db", "nowhere.sqlite3")

    assert (result.exit_code, result.stderr) == (2, "error: database nowhere.sqlite3: no such file\n")
    assert not Path("nowhere.sqlite3").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["--policy", "nowhere.rego"],
            "error: policy nowhere.rego: no such file or directory\n",
            id="no policy file",
        ),
        pytest.param(
            ["--policy", "broken.rego"], "error: policy broken.rego:2: invalid literal\n", id="syntax"
        ),
        pytest.param(
            ["--host", "0.0.0.0"],
            "error: host '0.0.0.0' can be reached by other machines; "
            "use 127.0.0.1, or --allow-other-machines\n",
            id="other machines",
        ),
        pytest.param(
            ["--db", "no/where.sqlite3"],
            "error: database no/where.sqlite3: no such file or directory\n",
            id="no folder",
        ),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str) -> None:
    """Nothing is served, the exit code is 2, and stdout stays empty."""
    Path("broken.rego").write_text("package p\nresult := foo bar\n")

    result = run("serve", *arguments)

    assert (result.exit_code, result.stderr, result.stdout) == (2, message, "")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "192.0.2.1"])
def test_an_address_that_is_not_ours_is_one_line(host: str) -> None:
    """Whatever keeps it from listening, it is one line."""
    result = run("serve", "--host", host, "--allow-other-machines")

    assert result.exit_code == 2
    assert re.fullmatch(rf"error: cannot listen on {re.escape(host)}:\d+: .+\n", result.stderr)


@pytest.mark.parametrize(
    "arguments", [["serve", "--port", "x"], ["nothing"], ["approve"], ["serve", "--nope"]]
)
def test_a_wrong_call_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Through the command line as a whole: exit code 2, and where to look."""
    assert main(["core", *arguments]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: .+\n", err)


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The group lists its commands."""
    main(["core", *arguments])

    out, err = capsys.readouterr()
    shown = out + err
    assert not err or err.endswith("error: a command is needed; see openbox-agentrt core --help\n")
    assert all(name in shown for name in ("serve", "approvals", "approve", "reject", "check"))


def test_an_exit_code_gets_out(waiting: str) -> None:
    """What a command says with its exit code, the program says."""
    assert main(["core", "check"]) == 1
    assert main(["core", "approve", "nothing"]) == 1
    assert main(["core", "approvals", "--db", "nowhere"]) == 2
    assert main(["core", "approvals"]) == 0


def test_a_port_in_use_is_one_line() -> None:
    """Another server has the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", str(port))

    message = f"error: cannot listen on 127.0.0.1:{port}: address already in use; see --host and --port\n"
    assert (result.exit_code, result.stderr) == (2, message)


@pytest.fixture
def served() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A server in a process of its own: the process, its URL, and what it has printed."""
    Path("policy.rego").write_text(POLICY)
    command = [sys.executable, "-m", "openbox_agentrt.cli", "core", "serve", "--policy", "policy.rego"]
    process = subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    printed = "".join(process.stdout.readline() for _ in range(4))
    url = re.search(r"OPENBOX_URL=(\S+)", printed)
    assert url is not None, process.communicate()
    try:
        yield process, url[1], printed
    finally:
        process.kill()
        process.communicate()


def test_the_command_that_decides_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed can be pasted, whatever the file is called."""
    db = str(tmp_path / "my core.sqlite3")
    with LocalCore(
        lambda event: "REQUIRE_APPROVAL",
        db,
        on_approval=partial(_tell, db=db, hook=None, redactor=redactor_of(())),
    ) as core:
        _, _, said = core.handle("POST", "/api/v1/governance/evaluate", KEY, json.dumps(EVENT).encode())

    approval = json.loads(said)["approval_id"]
    assert f"  openbox-agentrt core approve {approval} --db '{db}'\n" in capsys.readouterr().out


def test_the_command_that_shows_all_of_it_names_the_file(tmp_path: Path) -> None:
    """It finds what waits in another file than the usual one."""
    long_input()
    db = str(tmp_path / "my core.sqlite3")
    Path("openbox-core.sqlite3").rename(db)

    (told,) = re.findall(r"all of it: openbox-agentrt core (show .*)", run("approvals", "--db", db).stdout)

    assert " " * 3000 in run(*shlex.split(told)).stdout


def test_the_port_of_the_console_is_named_when_it_is_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not that of the Core, which is free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["core", "serve", "--db", str(tmp_path / "core.sqlite3"), "--port", "0"]
        code = main([*command, "--console", "--console-port", str(port)])

    assert code == 2
    said = f"error: cannot listen on 127.0.0.1:{port}: address already in use; see --console-port\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl+C", "SIGTERM"])
def test_serve_approve_and_stop(served: tuple[subprocess.Popen[str], str, str], stop: signal.Signals) -> None:
    """It tells how to reach it and what waits, heeds another process, and ends well when it is told to."""
    process, url, printed = served
    answer = httpx.post(f"{url}/api/v1/governance/evaluate", json=EVENT, headers=KEY).json()
    decided = run("approve", answer["approval_id"])
    poll = {"workflow_id": "wf", "run_id": "run", "activity_id": "a1"}
    polled = httpx.post(f"{url}/api/v1/governance/approval", json=poll, headers=KEY).json()
    process.send_signal(stop)
    out, err = process.communicate(timeout=20)

    assert printed.splitlines() == [
        "local Core, policy policy.rego; events in openbox-core.sqlite3",
        f"  export OPENBOX_URL={url}",
        f"  export OPENBOX_API_KEY={DEFAULT_API_KEY}",
        "Ctrl+C ends it.",
    ]
    assert answer["verdict"] == "require_approval"
    assert decided.exit_code == 0
    assert polled["verdict"] == "allow"
    assert f"openbox-agentrt core approve {answer['approval_id']}" in out
    assert (process.returncode, err, out.splitlines()[-1]) == (0, "", "stopped")
