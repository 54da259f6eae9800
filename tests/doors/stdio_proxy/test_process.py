"""The proxy as a process: bytes, exit codes, signals, and the end of either side."""

import itertools
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.cli import main
from openbox_agentrt.evidence import ed25519_signer, read_entries, verify_file
from openbox_agentrt.evidence.calls import calls_in
from openbox_agentrt.evidence.logs import merged_entries

Start = Callable[..., Any]

PAY_ONCE: Any = ("at_most_n_times", ["pay"], {"n": 1})
BACKUP_FIRST: Any = ("cannot_follow_without", ["delete", "backup"], {})


def violations(path: Any) -> list[str]:
    return [entry.data["spec"] for entry in read_entries(path) if entry.type == "violation"]


def test_everything_else_passes_byte_for_byte(start: Start) -> None:
    """Lines that are no calls reach the server as they were written, and its lines the client."""
    proxy = start()
    lines = [
        b'{"jsonrpc":"2.0",  "method":"notifications/x","params":{"a":1.10}}\n',
        b"not a message\n",
        b"\xff\xfe\x00\x01 bytes\r\n",
        b"\n",
        b'{"jsonrpc":"2.0","id":5,"result":{"model":"m"}}\n',
        b'[{"jsonrpc":"2.0","method":"notifications/y"}]\n',
    ]
    for line in lines:
        proxy.send(line)
    proxy.call("raw", 9, hex=b"\x00\xffraw \xe2\x80\xa8 \r text\n".hex())

    assert proxy.line() == b"not json: not a message\n"
    assert proxy.line() == b"not json: \xff\xfe\x00\x01 bytes\r\n"
    assert proxy.line() == b"not json: \n"
    assert proxy.line() == b"\x00\xffraw \xe2\x80\xa8 \r text\n"
    assert proxy.answer()["id"] == 9
    assert proxy.end() == 0
    assert proxy.received().startswith(b"".join(lines))


def test_requests_of_the_server_and_progress_pass(start: Start) -> None:
    """What the server says of its own accord reaches the client, with an id that a call is using too."""
    proxy = start(BACKUP_FIRST)

    proxy.call("ask", 1)
    assert b'"sampling/createMessage", "params": {"big": Infinity}' in proxy.line()
    proxy.send(b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n')
    assert "result" in proxy.answer()
    proxy.call("progress", 2)
    assert proxy.answer()["method"] == "notifications/progress"
    assert proxy.answer()["id"] == 2
    assert proxy.end() == 0


def test_large_lines_pass(start: Start) -> None:
    """Megabytes in both directions, in one line."""
    proxy = start(PAY_ONCE)

    proxy.call("echo", 1, size=3_000_000, text="y" * 2_000_000)

    assert len(proxy.answer()["result"]["content"][0]["text"]) == 3_000_000
    assert proxy.end() == 0
    assert len(proxy.received()) > 2_000_000


def test_calls_are_gated(start: Start) -> None:
    """What is refused does not reach the server; what is done allows; what fails does not."""
    proxy = start(PAY_ONCE, BACKUP_FIRST, ("cannot_follow_without", ["drop", "fail"], {}))

    proxy.call("pay", 1)
    assert not proxy.refused()
    proxy.call("pay", 2)
    assert proxy.refused()
    proxy.call("delete", 3)
    assert proxy.refused()
    proxy.call("fail", 4)
    assert not proxy.refused()
    proxy.call("drop", 5)
    assert proxy.refused()
    proxy.call("backup", 6)
    assert not proxy.refused()
    proxy.call("delete", 7)
    assert not proxy.refused()
    assert proxy.end() == 0
    received = [json.loads(line) for line in proxy.received().splitlines()]
    names = [body["params"]["name"] for body in received if body["method"] == "tools/call"]
    assert names == ["pay", "fail", "backup", "delete"]


def test_evidence_is_kept(start: Start) -> None:
    """The log holds each refused call, and what was unmet at the end, and verifies."""
    proxy = start(PAY_ONCE, ("required_before_session_end", ["backup"], {}))
    for number in (1, 2):
        proxy.call("pay", number)
        proxy.answer()
    proxy.end()

    assert violations(proxy.evidence) == ["at_most_n_times(pay, n=1)", "required_before_session_end(backup)"]
    assert verify_file(proxy.evidence).ok
    assert b"unmet at the end: required_before_session_end(backup)" in proxy.stderr.read()


def test_what_was_paid_is_in_the_log(start: Start, tmp_path: Path) -> None:
    """Signed, with each call that was let through, and its decisions follow again."""
    key = tmp_path / "e.key"
    proxy = start(PAY_ONCE, options=("--record", "steps", "--key", str(key)))
    for number in (1, 2):
        proxy.call("pay", number)
        proxy.answer()
    proxy.end()

    assert verify_file(proxy.evidence, ed25519_signer(key)[1]).authenticated
    report = rerun_file(proxy.evidence)
    assert (report.ok, report.derived) == (True, 3)
    calls = calls_in(merged_entries([proxy.evidence]))
    assert [(call.tool, call.verdict, call.outcome) for call in calls] == [
        ("pay", "allowed", "ok"),
        ("pay", "refused", "did not run"),
    ]


def test_shadow_mode_watches(start: Start) -> None:
    """Every call passes, unclear lines too, and the log says what would have been refused."""
    proxy = start(PAY_ONCE, options=("--shadow",))
    for number in (1, 2, 3):
        proxy.call("pay", number)
        assert not proxy.refused()
    proxy.send(b'{"id":4,"method":"tools/call","method":"tools/call","params":{"name":"pay"}}\n')
    assert proxy.answer()["id"] == 4
    proxy.end()

    limit = "at_most_n_times(pay, n=1)"
    assert violations(proxy.evidence) == [limit, limit, "the call can be read in one way only"]


def test_standard_error_is_the_servers(start: Start) -> None:
    """The server's messages reach the terminal unchanged."""
    proxy = start()
    proxy.end()

    assert b"raw server ready\n" in proxy.stderr.read()


def test_the_last_line_may_have_no_end(start: Start) -> None:
    """A reader takes what stands before the end of the stream for a line, so it is judged."""
    proxy = start(("at_most_n_times", ["pay"], {"n": 0}))
    proxy.call("ok", 1)
    proxy.answer()
    proxy.send(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"pay"}}')
    proxy.stdin.close()

    assert proxy.refused()
    assert proxy.process.wait(10) == 0
    assert b"pay" not in proxy.received()


@pytest.mark.parametrize(("tool", "code"), [("die", 3), ("kill", 128 + signal.SIGKILL)])
def test_the_exit_code_is_the_servers(start: Start, tool: str, code: int) -> None:
    """The proxy ends when the server does, in the middle of a call, though the client stays."""
    proxy = start(PAY_ONCE)
    proxy.call(tool)

    assert proxy.line() == b""
    assert proxy.process.wait(10) == code


def test_a_call_during_which_the_server_dies_allows_nothing(start: Start) -> None:
    """Its outcome is unknown: what it was to allow is unmet at the end."""
    proxy = start(("required_before_session_end", ["die"], {}))
    proxy.call("die")
    proxy.process.wait(10)

    assert violations(proxy.evidence) == ["required_before_session_end(die)"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are those of POSIX")
def test_signals_go_on_to_the_server(start: Start) -> None:
    """The server decides what a signal means; its evidence is written all the same."""
    proxy = start(("required_before_session_end", ["backup"], {}))
    proxy.call("ok")
    proxy.answer()
    proxy.process.send_signal(signal.SIGTERM)

    assert proxy.process.wait(10) == 7
    assert violations(proxy.evidence) == ["required_before_session_end(backup)"]


def test_a_client_that_leaves_during_a_call(start: Start) -> None:
    """The server may finish; what it did is settled though nobody reads the answers."""
    proxy = start(*(("required_before_session_end", [name], {}) for name in ("slow", "late", "x")))
    proxy.call("slow", 1)
    proxy.call("late", 2)
    time.sleep(0.1)
    proxy.stdout.close()
    proxy.stdin.close()

    assert proxy.process.wait(10) == 0
    assert violations(proxy.evidence) == ["required_before_session_end(x)"]


def test_a_cancelled_call_is_settled(start: Start) -> None:
    """A call without an answer stays counted, and the cancellation reaches the server."""
    proxy = start(("at_most_n_times", ["hang"], {"n": 1}))
    proxy.call("hang", 1)
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n'
    proxy.send(cancel)
    proxy.call("hang", 2)

    assert proxy.refused()
    assert proxy.end() == 0
    assert cancel in proxy.received()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rules", "{tmp}/none.yaml", "--", "x"], "no such rules file"),
        (["--rules", "{tmp}/bad.yaml", "--", "x"], "at_most_times"),
        (["--rules", "{tmp}/good.yaml", "--", "{tmp}/no-such-server"], "no such file"),
        (["--rules", "{tmp}/good.yaml"], "COMMAND"),
        (["--", "x"], "--rules"),
        (["--rules", "{tmp}/good.yaml", "--gate", "tools/list", "--", "x"], "gate must hold"),
    ],
    ids=["no rules file", "bad rules", "no server", "no command", "no rules", "bad method"],
)
def test_what_is_wrong_is_said_in_a_line(
    tmp_path: Any, arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line that names it, and no server."""
    from openbox_agentrt.cli import main

    (tmp_path / "bad.yaml").write_text("contracts: [{template: at_most_times, args: [a]}]")
    (tmp_path / "good.yaml").write_text("contracts: [{template: at_most_n_times, args: [a], kwargs: {n: 1}}]")

    code = main(["proxy", *(argument.format(tmp=tmp_path) for argument in arguments)])

    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error")]
    assert code == 2
    assert len(errors) == 1
    assert said in errors[0]


def test_a_gate_that_fails_stops_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be accounted for must not go on."""
    import os

    from openbox_agentrt.acel import Session
    from openbox_agentrt.doors.stdio_proxy import StdioGate, run_proxy

    def fail(self: StdioGate, line: bytes) -> bytes:
        raise RuntimeError("gate is broken")

    monkeypatch.setattr(StdioGate, "from_client", fail)
    read, write = os.pipe()
    os.write(write, b"{}\n")
    with open(os.devnull, "wb") as nowhere, pytest.raises(RuntimeError, match="gate is broken"):
        run_proxy(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            StdioGate(Session(), schemas={}),
            stdin=read,
            stdout=nowhere.fileno(),
        )
    os.close(read)
    os.close(write)


def test_a_server_that_does_not_list_its_tools_is_not_waited_for() -> None:
    """The call is refused, and the rest of the conversation goes on."""
    import os
    import threading

    from openbox_agentrt.acel import Session
    from openbox_agentrt.doors.stdio_proxy import StdioGate, run_proxy

    echo = "import sys\nfor line in sys.stdin:\n    if 'ping' in line: print(line, end='', flush=True)"
    stdin, to_proxy = os.pipe()
    from_proxy, stdout = os.pipe()

    def run() -> None:
        server = [sys.executable, "-c", echo]
        run_proxy(server, StdioGate(Session()), stdin=stdin, stdout=stdout, listing_seconds=0.05)
        os.close(stdout)

    running = threading.Thread(target=run)
    running.start()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pay"}}
    os.write(to_proxy, json.dumps(call).encode() + b"\n" + b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    os.close(to_proxy)
    with os.fdopen(from_proxy, "rb") as answers:
        refused, ping = answers.read().splitlines()
    running.join(10)
    os.close(stdin)

    assert "did not say which arguments" in json.loads(refused)["result"]["content"][0]["text"]
    assert json.loads(ping)["method"] == "ping"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets the size of a pipe be set")
def test_a_slow_client_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has ended long before the client has read what it wrote, over pipes that do not block."""
    import fcntl
    import os
    import threading

    from openbox_agentrt.acel import Session
    from openbox_agentrt.doors.stdio_proxy import StdioGate, process

    monkeypatch.setattr(process, "_DRAIN_SECONDS", 0.05)
    stdin, to_proxy = os.pipe()
    from_proxy, stdout = os.pipe()
    os.set_blocking(stdin, False)
    os.set_blocking(stdout, False)
    # Less than the server's pipe holds, and more than the client's.
    fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, 4096)
    text = "x" * 100 + "\n"
    server = [sys.executable, "-c", f"import sys; sys.stdout.write({text!r} * 500)"]
    codes: list[int] = []

    def run() -> None:
        codes.append(process.run_proxy(server, StdioGate(Session(), schemas={}), stdin=stdin, stdout=stdout))
        os.close(stdout)

    running = threading.Thread(target=run)
    running.start()
    time.sleep(0.5)
    got = 0
    while chunk := os.read(from_proxy, 4096):
        got += len(chunk)
    running.join(10)
    for descriptor in (stdin, to_proxy, from_proxy):
        os.close(descriptor)

    assert codes == [0]
    assert got == 500 * len(text)


def test_a_grandchild_does_not_keep_the_proxy(start: Start) -> None:
    """A process that the server left behind with its pipe open is not waited for."""
    left = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)'])"
    proxy = start(server=[sys.executable, "-c", left])

    assert proxy.process.wait(15) == 0


def test_a_person_halts_the_session_through_the_store(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another process, by the name that the proxy was given, with reason and name in the evidence."""
    monkeypatch.chdir(tmp_path)
    store = ("--fleet", f"sqlite:///{tmp_path}/fleet.db")
    proxy = start(options=(*store, "--agent", "desk", "--shadow"))
    proxy.call("pay", 1)
    assert not proxy.refused()

    assert main(["halt", "--agent", "desk", "--reason", "it runs wild", "--by", "ops-lead", *store]) == 0

    until, answer = time.monotonic() + 30, ""
    for number in itertools.count(2):
        proxy.call("pay", number)
        answer = json.dumps(proxy.answer())
        if "ACEL HALT" in answer:
            break
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "it runs wild (halted by ops-lead)" in answer
    assert proxy.end() == 0
    assert violations(proxy.evidence) == ["the session was not halted"]
