"""
The proxy as a process: a server as its child, and one thread for each direction.

Threads and plain reads, not an event loop: a line costs two wake-ups on its way, and nothing else.
"""

import logging
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from .gate import Passage, StdioGate

log = logging.getLogger(__name__)

LISTING_SECONDS = 10.0
_CHUNK = 1 << 16
_DRAIN_SECONDS = 2.0
_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def run_proxy(
    command: Sequence[str],
    gate: StdioGate,
    *,
    stdin: int = 0,
    stdout: int = 1,
    listing_seconds: float = LISTING_SECONDS,
) -> int:
    """
    Run a server behind a gate until it exits.

    The server's standard error is the proxy's own. Signals go on to it.

    Args:
        command: The server's command.
        gate: The gate.
        stdin: File descriptor on which the client writes.
        stdout: File descriptor on which the client reads.
        listing_seconds: How long a call waits for the server to list its tools, before it is refused.

    Returns:
        The server's exit code; 128 plus the number of the signal that ended it.

    Raises:
        OSError: If the server cannot be started.
        Exception: Whatever the gate raised. The server is stopped then: what cannot be accounted for must not
            go on.
    """
    with _Signals() as signals:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        signals.forward_to(server)
        # Daemons: a client that neither writes nor hangs up must not keep the proxy from ending.
        pump = _Pump(server, gate, stdin, stdout, listing_seconds)
        upstream = threading.Thread(target=pump.from_client, name="from client", daemon=True)
        downstream = threading.Thread(target=pump.from_server, name="from server", daemon=True)
        upstream.start()
        downstream.start()
        code = server.wait()
        pump.drain(downstream)
        gate.close()
    if pump.fault is not None:
        raise pump.fault
    return code if code >= 0 else 128 - code


class _Pump:
    def __init__(
        self,
        server: "subprocess.Popen[bytes]",
        gate: StdioGate,
        stdin: int,
        stdout: int,
        listing_seconds: float,
    ) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        self.fault: Exception | None = None
        self._server = server
        self._server_in = server.stdin
        self._server_out = server.stdout
        self._gate = gate
        self._stdin = stdin
        self._stdout = stdout
        self._listing_seconds = listing_seconds
        # Both directions write to the client: answers of the server, and refusals.
        self._client = threading.Lock()
        self._lines_passed = 0
        self._telling = False

    def from_client(self) -> None:
        try:
            for line in _lines(self._stdin):
                passage = self._judged(line)
                if passage.to_client:
                    self._tell_client(passage.to_client)
                if passage.to_server:
                    _write(self._server_in.fileno(), passage.to_server)
        except OSError as error:
            # The server has gone, or the client has; either way nothing more can be passed on.
            log.debug("the way to the server is closed: %s", error)
        except Exception as error:  # noqa: BLE001 - fail-closed: it stops the server, and `run_proxy` raises it
            self._stop(error)
        finally:
            self._server_in.close()

    def _judged(self, line: bytes) -> Passage:
        while True:
            passage = self._gate.from_client(line)
            if not passage.again:
                return passage
            _write(self._server_in.fileno(), passage.to_server)
            if not self._gate.answered.wait(self._listing_seconds):
                self._gate.give_up_asking()

    def from_server(self) -> None:
        client_listens = True
        try:
            for line in _lines(self._server_out.fileno()):
                # Settled before it is passed on: the client's next call may depend on it.
                passed = self._gate.from_server(line)
                # Read on when nobody listens: the calls that are still running have to be settled.
                client_listens = client_listens and (not passed or self._tell_client(passed))
                self._lines_passed += 1
        except Exception as error:  # noqa: BLE001 - fail-closed: it stops the server, and `run_proxy` raises it
            self._stop(error)

    def drain(self, thread: threading.Thread) -> None:
        """
        Wait until all that the server wrote has been passed on, however slowly the client reads.

        A grandchild may hold the pipe open when the server is gone. It is left when it says nothing.
        """
        while thread.is_alive():
            before = self._lines_passed
            thread.join(_DRAIN_SECONDS)
            if not self._telling and self._lines_passed == before:
                break
        if not thread.is_alive():
            self._server_out.close()

    def _tell_client(self, data: bytes) -> bool:
        self._telling = True
        try:
            with self._client:
                _write(self._stdout, data)
        except OSError as error:
            log.debug("the client does not listen any more: %s", error)
            return False
        finally:
            self._telling = False
        return True

    def _stop(self, fault: Exception) -> None:
        self.fault = fault
        self._server.terminate()
        last = threading.Timer(_DRAIN_SECONDS, self._server.kill)
        last.daemon = True
        last.start()


class _Signals:
    """Passes signals on to the server, those too that come before it has started."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[int, object] = {}

    def __enter__(self) -> "_Signals":
        if threading.current_thread() is threading.main_thread():
            for name in _FORWARDED:
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._pass_on)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal itself returned

    def forward_to(self, server: "subprocess.Popen[bytes]") -> None:
        self._server = server
        for number in self._early:
            server.send_signal(number)

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._server is None:
            self._early.append(number)
        else:
            self._server.send_signal(number)


def _lines(descriptor: int) -> Iterator[bytes]:
    # Lines with their ends; the last one may have none, and a reader takes it for a line all the same.
    parts: list[bytes] = []
    while chunk := _read(descriptor):
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            parts.append(chunk[start : end + 1])
            yield b"".join(parts)
            parts.clear()
            start = end + 1
        if start < len(chunk):
            parts.append(chunk[start:])
    if parts:
        yield b"".join(parts)


def _read(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            # Whoever started the proxy may have left its end so.
            select.select([descriptor], [], [])


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
