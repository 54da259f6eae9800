"""The proxy as a process, with a raw server or one of the SDK behind it."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PROXY = [sys.executable, "-m", "openbox_agentrt.cli", "proxy"]


class RunningProxy:
    """A proxy in front of the raw server, and this test as its client."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, evidence: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self.log = log
        self.evidence = evidence

    def send(self, raw: bytes) -> None:
        self.stdin.write(raw)
        self.stdin.flush()

    def call(self, tool: str, request_id: Any = 1, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        self.send(json.dumps(body).encode() + b"\n")

    def line(self) -> bytes:
        return self.stdout.readline()

    def answer(self) -> Any:
        return json.loads(self.line())

    def refused(self) -> bool:
        """Whether the next answer is a refusal of the proxy."""
        return "ACEL HALT" in json.dumps(self.answer())

    def end(self) -> int:
        """Hang up, and give the exit code."""
        self.stdin.close()
        return self.process.wait(10)

    def received(self) -> bytes:
        """What the server was sent."""
        return self.log.read_bytes()


@pytest.fixture
def rules(tmp_path: Path) -> Callable[..., Path]:
    """Write a rules file of (template, arguments, keywords)."""

    def write(*contracts: tuple[str, list[Any], dict[str, Any]]) -> Path:
        path = tmp_path / "rules.json"
        specs = [{"template": name, "args": args, "kwargs": more} for name, args, more in contracts]
        path.write_text(json.dumps({"contracts": specs, "allow_empty": not specs}))
        return path

    return write


@pytest.fixture
def start(tmp_path: Path, rules: Callable[..., Path]) -> Iterator[Callable[..., RunningProxy]]:
    """Start the proxy in front of the raw server."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(
        *contracts: Any, options: tuple[str, ...] = (), server: list[str] | None = None
    ) -> RunningProxy:
        log, evidence = tmp_path / "received", tmp_path / "evidence.jsonl"
        command = server or [sys.executable, str(HERE / "raw_server.py"), str(log)]
        process = subprocess.Popen(
            [
                *PROXY,
                "--rules",
                str(rules(*contracts)),
                "--evidence",
                str(evidence),
                *options,
                "--",
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return RunningProxy(process, log, evidence)

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
