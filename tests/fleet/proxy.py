"""A line to a server that can lose answers, and lead to another server."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType


class Proxy:
    """
    Pass bytes between clients and a server, until told otherwise.

    Attributes:
        port: Where clients connect.
        target: The server's port now; connections that are open keep theirs.
        answer: What clients are told in the place of what the server answers, if anything.
        drops: So many answers are still to be lost: they are read, and the client's connection is cut.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.answer: bytes | None = None
        self.drops = 0
        self.dropped = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        for thread in self._threads:
            thread.join(timeout=10)

    def cut(self, *, listener: bool = True) -> None:
        """Close every connection and, unless told otherwise, take no more."""
        for one in self._sockets[0 if listener else 1 :]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        del self._sockets[0 if listener else 1 :]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            for pair in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._pass, args=pair, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if answers and self.drops:
                    self.drops -= 1
                    self.dropped += 1
                    break
                sink.sendall(data if self.answer is None or not answers else self.answer)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
