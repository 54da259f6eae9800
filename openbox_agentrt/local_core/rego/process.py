"""
The process that evaluates Rego.

regopy is native code on input that others choose: a long text can end its process, a pattern can keep it busy
for years. So it runs in a process of its own, which has bounds on its time and memory, and answers in JSON,
line by line. Where it dies, one event has no answer, and the next one gets a new process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

import msgspec
from msgspec.structs import replace

from ..._extras import MissingExtraError
from .source import PolicyError, RegoSource

_WORKER = "openbox_agentrt.local_core.rego.worker"


class WorkerDiedError(Exception):
    """The process ended instead of answering. The message says how."""


class RegoProcess:
    """
    A process that evaluates one policy, once it is loaded.

    One thread at a time may load and ask; any may call `kill`.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self) -> None:
        self._process = _spawn()

    def load(self, source: RegoSource) -> None:
        """
        Compile the policy and try it out. The process is ended where that fails.

        Raises:
            PolicyError: It is not Rego, or cannot be evaluated.
            MissingExtraError: The extra ``local`` is not installed.
            WorkerDiedError: The process ended over it.
        """
        try:
            said = self.ask(msgspec.json.encode(replace(source, path="")) + b"\n")
            _raise_for_refusal(source, said)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, line: bytes) -> Any:
        """
        Hand one line over, and wait for the answer.

        Raises:
            WorkerDiedError: There was none.
        """
        try:
            self._write(line)
            answer = self._read_line()
        except (OSError, ValueError):
            # The other end of a pipe is gone, or ours was closed.
            answer = b""
        if not answer:
            raise WorkerDiedError(self.stop())
        return msgspec.json.decode(answer)

    def kill(self) -> None:
        """End the process without waiting for it: who waits for its answer is told."""
        self._process.kill()

    def stop(self) -> str:
        """End the process, and say how it ended."""
        self._process.kill()
        code = self._process.wait()
        self._close_pipes()
        return _manner(code)

    def forget(self) -> None:
        """Let go of a process that another process has started, without ending it."""
        self._close_pipes()
        # Its parent is another one: there is nothing to wait for.
        self._process.returncode = 0

    # NB: no buffers. A fork in the middle of a line would leave the child with half of it, and a lock on it.
    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        left = memoryview(line)
        while left:
            left = left[self._process.stdin.write(left) :]

    def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        line = bytearray()
        while not line.endswith(b"\n"):
            chunk = self._process.stdout.read(65_536)
            if not chunk:
                return b""
            line += chunk
        return bytes(line)

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def _spawn() -> subprocess.Popen[bytes]:
    # The same path for imports as here; -P, so that nothing in the current folder is taken for a module.
    path = os.pathsep.join(os.path.abspath(entry or os.curdir) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": path},
    )


def _raise_for_refusal(source: RegoSource, said: Any) -> None:
    if "missing" in said:
        raise MissingExtraError(package=said["missing"], extra="local")
    if "problem" in said:
        raise PolicyError(path=source.path, line=said["line"], problem=said["problem"])


def _manner(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    if code == -getattr(signal, "SIGPROF", 0):
        return "it needed more processor time than an event of this size may"
    with contextlib.suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"
