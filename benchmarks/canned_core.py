"""
A Core that allows everything, as cheaply as a server can, in a process of its own.

    python -m benchmarks.canned_core [CERTIFICATE]

It prints its port. Nothing of it is in the processor time of whoever asks it.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_BODY: Final = b'{"verdict":"allow","action":"continue"}'
_ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
)


class _Canned(asyncio.Protocol):
    _left = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._left += data
        while (end := self._left.find(b"\r\n\r\n")) >= 0:
            whole = end + 4 + _length(self._left[:end])
            if len(self._left) < whole:
                return
            self._left = self._left[whole:]
            assert isinstance(self._transport, asyncio.WriteTransport)
            self._transport.write(_ANSWER)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


async def _serve(certificate: str | None) -> None:
    tls = None
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(_Canned, "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def canned_core(certificate: str | None = None) -> Iterator[int]:
    """Run one while the block runs, and give its port."""
    command = [sys.executable, "-m", "benchmarks.canned_core", *([certificate] if certificate else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1] if len(sys.argv) > 1 else None))
