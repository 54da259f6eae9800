"""A witness over HTTP: ``POST /add-checkpoint``."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ..evidence.checkpoints.witness import Witness, WitnessAnswer
from ..evidence.errors import UnreadableLogError
from .stopping import until_stopped

_MAX_REQUEST = 1 << 20
_SECONDS = 30.0


def serve(witness: Witness, port: int) -> int:
    """Answer on the loopback until Ctrl+C or SIGTERM. Port 0 takes any; standard error says which."""
    lock = threading.Lock()

    class _Answering(BaseHTTPRequestHandler):
        timeout = _SECONDS

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if self.path != "/add-checkpoint" or not length.isdecimal() or int(length) > _MAX_REQUEST:
                self._answer(WitnessAnswer(status=400, body="POST /add-checkpoint with a length\n"))
                return
            request = self.rfile.read(int(length))
            try:
                with lock:
                    # One after the other: what is remembered is read and written in one step.
                    answer = witness.add_checkpoint(request)
            except (UnreadableLogError, OSError) as error:
                # Fail closed: nothing is signed that cannot be remembered.
                print(f"error: {error}", file=sys.stderr, flush=True)
                answer = WitnessAnswer(status=500, body="the witness cannot remember\n")
            self._answer(answer)

        def _answer(self, answer: WitnessAnswer) -> None:
            body = answer.body.encode()
            self.send_response(answer.status)
            kind = "text/x.tlog.size" if answer.status == 409 else "text/plain; charset=utf-8"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of single requests."""

    with ThreadingHTTPServer(("127.0.0.1", port), _Answering) as server:
        server.daemon_threads = True
        print(f"witness on http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
        with until_stopped():
            server.serve_forever()
    return 0
