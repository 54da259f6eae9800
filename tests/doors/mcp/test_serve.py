"""``openbox-agentrt serve``: a module's server as a process, and the SDK's client on its standard I/O."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from openbox_agentrt.acel import Session
from openbox_agentrt.cli import main
from openbox_agentrt.doors.mcp.server_module import build, load_module
from openbox_agentrt.evidence import verify_file


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no folder of a served module behind: what a later test starts would look there first."""
    monkeypatch.setattr(sys, "path", list(sys.path))


EXAMPLES = Path(__file__).parents[3] / "examples"
TOY = str(EXAMPLES / "toy_server.py")


def served(module: str, *options: str) -> Any:
    command = ["-m", "openbox_agentrt.cli", "serve", *options, module]
    return stdio_client(StdioServerParameters(command=sys.executable, args=command))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_served_module_is_under_contract(mode: str, tmp_path: Path) -> None:
    """A real client over standard I/O; more contracts from a file; evidence at the end."""
    rules, evidence = tmp_path / "rules.yaml", tmp_path / "evidence.json"
    rules.write_text("contracts: [{template: at_most_n_times, args: [validate_record], kwargs: {n: 1}}]")
    options = ("--contracts", str(rules), "--evidence", str(evidence))

    async with Client(served(TOY, *options), mode=mode) as client:
        first = [await client.call_tool("send_payment", {"amount": 10}) for _ in range(3)]
        deleted = await client.call_tool("delete_record", {"record_id": "r"})
        validated = [await client.call_tool("validate_record", {"record_id": "r"}) for _ in range(2)]
        again = await client.call_tool("delete_record", {"record_id": "r"})

    assert [bool(result.is_error) for result in first] == [False, True, True]
    assert deleted.is_error
    assert [bool(result.is_error) for result in validated] == [False, True]
    assert not again.is_error
    assert len(json.loads(evidence.read_text())) == 4
    assert verify_file(evidence).ok
    assert evidence.stat().st_mode & 0o077 == 0


async def test_a_served_gate_has_a_session_for_each_client(tmp_path: Path) -> None:
    """A module may give its gate in the place of a session; a rules file is added to each session."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("contracts: [{template: at_most_n_times, args: [authenticate], kwargs: {n: 1}}]")

    module = str(EXAMPLES / "multi_tenant_server.py")
    async with Client(served(module, "--contracts", str(rules))) as client:
        assert (await client.call_tool("read_user_data", {"query": "q"})).is_error
        assert not (await client.call_tool("authenticate", {"user": "a"})).is_error
        assert (await client.call_tool("authenticate", {"user": "a"})).is_error
        assert not (await client.call_tool("read_user_data", {"query": "q"})).is_error


async def test_served_modules_share_what_the_fleet_counts(tmp_path: Path) -> None:
    """One validation a day, in whichever process; without a store, the file is not taken."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "contracts: [{template: at_most_n_times, args: [validate_record, 1], scope: fleet, per: day}]"
    )
    options = ("--rules", str(rules), "--fleet", f"sqlite:///{tmp_path}/fleet.db")

    async def validate() -> str:
        said = "does not answer"
        async with Client(served(TOY, *options)) as client:
            # On a machine that is busy enough, the store may take longer than a call waits for it.
            while "does not answer" in said:
                said = str((await client.call_tool("validate_record", {"record_id": "r"})).content)
        return said

    first, second = await validate(), await validate()

    assert "valid" in first
    assert "refused" not in first
    assert "0 left of 1 today, free again at 00:00 UTC" in second


def test_a_served_module_needs_a_store_for_the_fleet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count one process's calls, and nobody would notice."""
    monkeypatch.delenv("OPENBOX_AGENTRT_FLEET", raising=False)
    rules = tmp_path / "rules.yaml"
    rules.write_text("contracts: [{template: at_most_n_times, args: [a, 1], scope: fleet, per: day}]")

    assert main(["serve", TOY, "--rules", str(rules)]) == 2
    assert "has scope 'fleet', and no store is given: --fleet URL" in capsys.readouterr().err


async def test_shadow_mode(tmp_path: Path) -> None:
    """The module is asked for a session that only watches."""
    evidence = tmp_path / "evidence.json"
    async with Client(served(TOY, "--shadow", "--evidence", str(evidence))) as client:
        assert not (await client.call_tool("delete_record", {"record_id": "r"})).is_error

    assert len(json.loads(evidence.read_text())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are those of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_stops_it(number: int, code: int, tmp_path: Path) -> None:
    """A server that waits for its client stops at once, and writes its evidence."""
    evidence = tmp_path / "evidence.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "openbox_agentrt.cli", "serve", "--evidence", str(evidence), TOY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stderr is not None
        while b"Press Ctrl+C" not in process.stderr.readline():
            pass
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')  # type: ignore[union-attr]  # piped
        process.stdin.flush()  # type: ignore[union-attr]  # piped
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(10) == code

    assert json.loads(evidence.read_text()) == []


MODULES = {
    "no build_server": ("x = 1", "does not define build_server"),
    "not callable": ("build_server = 1", "does not define build_server"),
    "raises on import": ("raise RuntimeError('no\\nluck')", "raised RuntimeError: no luck"),
    "no Python": ("def", "raised SyntaxError"),
    "raises on build": ("def build_server(): raise OSError('gone')", "raised OSError: gone"),
    "gives one thing": ("def build_server(): return 1", "must return (MCPServer, Session)"),
    "gives no session": ("def build_server(mode): return 1, 2", "must return (MCPServer, Session)"),
    "gives no server": (
        "from openbox_agentrt.acel import Session\ndef build_server(): return 1, Session()",
        "must return (MCPServer, Session)",
    ),
    "needs an argument": ("def build_server(x): return 1, 2", "raised TypeError"),
    "imports what is not there": ("import no_such_package", "no_such_package"),
}


@pytest.mark.parametrize(("text", "said"), MODULES.values(), ids=MODULES.keys())
def test_a_module_that_cannot_be_served(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one line that names it, never a traceback."""
    path = tmp_path / "own_server.py"
    path.write_text(text)

    assert main(["serve", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/no/such/server.py"], "no such file"),
        (["no_such_module"], "no_such_module"),
        ([TOY, "--contracts", "/no/such/rules.yaml"], "no such rules file"),
        ([str(EXAMPLES / "multi_tenant_server.py"), "--evidence", "/tmp/x"], "one session"),
        ([TOY, "--evidence", "/no/such/folder/x"], "does not exist"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong path is exit code 2 and a line that names it."""
    assert main(["serve", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_module_without_a_mode_is_not_made_to_watch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--shadow is ignored with a warning: enforcing is the safe reading."""
    path = tmp_path / "modeless_server.py"
    path.write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        "from openbox_agentrt.acel import Session\n"
        "def build_server():\n"
        "    return MCPServer('modeless'), Session()\n"
    )

    built = build(str(path), shadow=True)

    assert not built.takes_mode
    assert isinstance(built.session, Session)
    assert built.session.mode == "enforce"


def test_a_module_may_import_its_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the file is on the path, as if Python had been started with it."""
    (tmp_path / "neighbour_of_server.py").write_text("value = 7")
    path = tmp_path / "server_with_neighbour.py"
    path.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "import neighbour_of_server\n"
        "@dataclass\n"
        "class Row:\n"
        "    value: int = neighbour_of_server.value\n"
    )

    assert load_module(str(path)).Row().value == 7


def test_a_file_does_not_hide_a_module(tmp_path: Path) -> None:
    """A server in a file called json.py leaves json alone."""
    path = tmp_path / "json.py"
    path.write_text("value = 7")

    assert load_module(str(path)).value == 7
    assert sys.modules["json"] is json


def test_the_examples_are_what_the_documentation_says() -> None:
    """Names, tools and contracts of the example servers."""
    toy: Any = load_module(TOY)
    server, session = toy.build_server()

    assert server.name == "acel-toy-server"
    assert sorted(contract.spec for contract in session.contracts) == [
        "at_most_n_times(send_payment, n=1)",
        "must_precede(validate_record, delete_record)",
    ]


def test_a_file_that_is_no_python_is_named(tmp_path: Path) -> None:
    """It is not looked for among the modules, which would say that there is none of a part of its name."""
    path = tmp_path / "server.txt"
    path.write_text("x")

    with pytest.raises(ImportError, match=r"server\.txt' is no Python file"):
        load_module(str(path))


async def test_served_calls_answer_the_first_question_of_an_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was paid, how much and what was refused, from a signed log that is derived again."""
    log, key = tmp_path / "log.jsonl", tmp_path / "key"
    options = ("--evidence", str(log), "--record", "steps", "--key", str(key), "--redact-field", "user")

    async with Client(served(TOY, *options)) as client:
        await client.call_tool("authenticate", {"user": "ann-4711"})
        await client.call_tool("read_user_data", {"query": "curl -u ann:hunter2 x"})
        await client.call_tool("send_payment", {"amount": 10})
        await client.call_tool("send_payment", {"amount": 20})

    assert main(["verify", str(log), "--rerun", "--key", f"{log}.pub"]) == 0
    assert "5 decision(s) re-derived, 0 differ" in capsys.readouterr().out
    assert main(["show", str(log), "--tool", "send_payment", "--key", f"{log}.pub"]) == 0
    paid, refused = capsys.readouterr().out.splitlines()
    assert 'send_payment {"amount": 10.0}  allowed  -> ok' in paid
    assert 'send_payment {"amount": 20.0}  refused by contracts' in refused
    assert "ann-4711" not in log.read_text()
    assert "hunter2" not in log.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are those of POSIX")
def test_a_log_with_steps_is_closed_by_a_signal(tmp_path: Path) -> None:
    """The process leaves without unwinding, and the log says all the same that it ended."""
    log = tmp_path / "log.jsonl"
    command = ["serve", "--evidence", str(log), "--record", "steps", TOY]
    process = subprocess.Popen(
        [sys.executable, "-m", "openbox_agentrt.cli", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')  # type: ignore[union-attr]  # piped
        process.stdin.flush()  # type: ignore[union-attr]  # piped
        process.stdout.readline()  # type: ignore[union-attr]  # piped
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 143

    assert verify_file(log).state == "closed"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are those of POSIX")
def test_a_signal_ends_it_before_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for its first line may end it at once: nobody has to guess when it listens."""
    log = tmp_path / "log.jsonl"
    ended: list[int] = []

    def says(line: str) -> None:
        if not ended:
            ended.append(1)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("openbox_agentrt.doors.mcp.serve._say", says)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main(["serve", "--evidence", str(log), "--record", "steps", TOY]) == 143
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    assert verify_file(log).state == "closed"


def test_steps_need_a_log_and_a_module_that_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What would be missing is said before anything is served."""
    module = tmp_path / "own.py"
    module.write_text("def build_server(mode): ...")

    assert main(["serve", TOY, "--record", "steps"]) == 2
    assert "--record and --key need a log: --evidence FILE" in capsys.readouterr().err
    assert main(["serve", str(module), "--record", "steps", "--evidence", str(tmp_path / "log.jsonl")]) == 2
    assert "takes no evidence: let it take evidence=None" in capsys.readouterr().err
