"""A real server on the loopback, started and stopped by whoever tests with it."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

BINARY = shutil.which("redis-server") or shutil.which("valkey-server")


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RedisServer:
    """
    One server process with its files in a folder.

    Args:
        folder: Where its files are.
        port: Where it listens; a free one if left out.
        options: More words of its command line.
    """

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self.folder = folder
        self.port = free_port() if port is None else port
        self.options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and return once it answers."""
        assert BINARY is not None
        command = [BINARY, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "no", *self.options]
        log = (self.folder / "redis.log").open("ab")
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 30
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "redis.log").read_text()
            assert time.monotonic() < end, "the server did not come up"
            time.sleep(0.01)

    def kill(self) -> None:
        """End it at once, as a failing machine would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Make it hang: connections stay, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ask(self, *words: str) -> bytes:
        """Send one command over a connection of its own, and give what comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as line:
            line.sendall(
                b"*%d\r\n" % len(words)
                + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in map(str.encode, words))
            )
            return line.recv(1 << 20)

    def _answers(self) -> bool:
        try:
            return b"PONG" in self.ask("PING")
        except OSError:
            return False
