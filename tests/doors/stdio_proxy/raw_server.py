"""
A server that does what the tool's name says, line by line, and keeps what it was sent.

Usage: raw_server.py LOG
"""

import json
import os
import signal
import sys
import time
from typing import Any


def say(body: object) -> None:
    os.write(1, json.dumps(body).encode() + b"\n")


def main(log: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    sys.stderr.write("raw server ready\n")
    sys.stderr.flush()
    with open(log, "ab", buffering=0) as kept:
        for line in sys.stdin.buffer:
            kept.write(line)
            try:
                message = json.loads(line)
            except ValueError:
                os.write(1, b"not json: " + line)
                continue
            if not isinstance(message, dict) or "method" not in message or "id" not in message:
                continue
            answer(message)


def answer(message: dict[str, Any]) -> None:
    name = message.get("params", {}).get("name", message["method"])
    if name == "die":
        os._exit(3)
    if name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hang":
        return
    if name == "slow":
        time.sleep(0.3)
    if name == "raw":
        os.write(1, bytes.fromhex(message["params"]["arguments"]["hex"]))
    if name == "ask":
        say(
            {
                "jsonrpc": "2.0",
                "id": message["id"],
                "method": "sampling/createMessage",
                "params": {"big": 1e400},
            }
        )
    if name == "progress":
        say(
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": 1, "progress": 0.5},
            }
        )
    size = message.get("params", {}).get("arguments", {}).get("size", 2)
    result = {"content": [{"type": "text", "text": "x" * size}], "isError": name == "fail"}
    say({"jsonrpc": "2.0", "id": message["id"], "result": result})


if __name__ == "__main__":
    main(sys.argv[1])
