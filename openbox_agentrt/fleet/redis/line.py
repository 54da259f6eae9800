"""
One connection to a server, and the steps of the protocol over it as scripts.

It talks to the connection object of the client package rather than to its pipelines: those cost as much as
the trip itself. The client's own retries are off, since a question that is asked again keeps its lease id.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import count
from typing import Any, get_args

import msgspec

from ..._extras import require
from ..errors import FleetConfigError
from ..steps import (
    Adopt,
    Beat,
    Finish,
    Hold,
    Keep,
    Mend,
    NoAnswerError,
    Park,
    Reserve,
    Start,
    Step,
    StepAnswer,
    parked,
)
from ..wire import WirePlan, encoded
from .answers import read_answer
from .scripts import STEPS, script

_PLANS = msgspec.json.Decoder(WirePlan)


_ELSEWHERE = frozenset({"plan", "cells", "cell", "session", "changed"})
"""What of a step is not in the request: it is a key, or an argument of its own."""

_ASKED: dict[type[Any], list[str]] = {
    kind: [field.name for field in fields(kind) if field.name not in _ELSEWHERE] for kind in get_args(Step)
}
"""What the request of each kind of step says."""


class RedisLine:
    """
    One connection, for one thread.

    Args:
        url: The server.
        namespace: Which fleet.
        timeout_seconds: How long to wait for an answer.
        clock: The time in microseconds, in place of the server's.
    """

    def __init__(
        self,
        url: str,
        namespace: str,
        *,
        timeout_seconds: float,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._redis: Any = require("redis", extra="redis")
        self._prefix = f"{{obx:{namespace}}}"
        self._clock = clock
        # Deferred to here: a wrong URL is an error of the configuration.
        try:
            self._pool = self._redis.ConnectionPool.from_url(
                url, protocol=2, socket_timeout=timeout_seconds, socket_connect_timeout=timeout_seconds
            )
        except ValueError as error:
            raise FleetConfigError(f"the server's url is not understood: {error}") from error
        self._connection: Any = None
        self._scripts = {step: script(step) for step in STEPS}
        self._shas = {step: hashlib.sha1(text.encode()).hexdigest() for step, text in self._scripts.items()}
        # A name for the store's data, if it turns out to have none.
        self._token = uuid.uuid4().hex[:10]
        self._tokens = count()

    def run(self, steps: Sequence[Step]) -> list[StepAnswer]:
        answers = self.execute([self._command(step) for step in steps]) if steps else []
        try:
            return [read_answer(raw) for raw in answers]
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            self.close()
            raise NoAnswerError("what answers is no such store") from error

    def open_leases(self, worker: str) -> dict[str, WirePlan]:
        fields = self.execute([("HKEYS", self._worker(worker))])[0]
        leases = [field.decode()[1:] for field in fields if field[:1] == b"="]
        plans = self.execute([("HGET", self._lease(lease), "q") for lease in leases])
        # A lease without a plan is finished; settling it takes it off the worker's list.
        return {
            lease: _PLANS.decode(plan) if plan else WirePlan(())
            for lease, plan in zip(leases, plans, strict=True)
        }

    def tell(self, names: dict[str, bytes]) -> None:
        pairs = [piece for name, told in names.items() for piece in (f"c:{name}", told)]
        self.execute([("HSET", f"{self._prefix}:m", *pairs)])

    def sweep(self, seconds: float) -> bool:
        """Leave it to the server: all that ends has a time to live."""
        return False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def execute(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """
        Send commands in one trip and read what is answered to each.

        Raises:
            NoAnswerError: One of them got no answer, or the server cannot carry it out now.
            FleetConfigError: The server does not let this client in.
        """
        errors = self._redis.exceptions
        try:
            answers = self._exchange(commands)
            missing = [i for i, answer in enumerate(answers) if isinstance(answer, errors.NoScriptError)]
            if missing:
                self._load()
                for i, answer in zip(missing, self._exchange([commands[i] for i in missing]), strict=True):
                    answers[i] = answer
        except (errors.AuthenticationError, errors.AuthorizationError) as error:
            self.close()
            raise FleetConfigError(f"the server does not let this client in: {error}") from error
        except errors.TimeoutError as error:
            self.close()
            raise NoAnswerError("no answer in time", slow=True) from error
        except (errors.RedisError, OSError, ValueError) as error:
            # A ValueError is the client's, of a line that is not of the protocol.
            self.close()
            raise NoAnswerError(str(error)) from error
        except BaseException:
            # What comes in answer to this would be taken for an answer to the next.
            self.close()
            raise
        self._complain(answers)
        return answers

    def _exchange(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        connection = self._connected()
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        return [self._read(connection) for _ in commands]

    def _connected(self) -> Any:
        if self._connection is None:
            # Not one of the pool's: that counts those it ever made, and makes no more than a hundred.
            connection = self._pool.connection_class(**self._pool.connection_kwargs)
            connection.connect()
            self._connection = connection
            self._load()
        return self._connection

    def _load(self) -> None:
        loads = [("SCRIPT", "LOAD", text) for text in self._scripts.values()]
        self._complain(self._exchange(loads))

    def _read(self, connection: Any) -> Any:
        try:
            return connection.read_response()
        except self._redis.exceptions.ResponseError as error:
            # The answer to this one command: the others have theirs.
            return error

    def _complain(self, answers: Sequence[Any]) -> None:
        errors = self._redis.exceptions
        for answer in answers:
            if isinstance(answer, errors.AuthenticationError | errors.NoPermissionError):
                raise FleetConfigError(f"the server does not let this client in: {answer}") from answer
            if isinstance(answer, errors.ResponseError):
                # Full, loading, read only, or a script that failed: nobody is let through on it.
                raise NoAnswerError(str(answer)) from answer

    def _worker(self, worker: str) -> str:
        return f"{self._prefix}:w:{worker}"

    def _lease(self, lease: str) -> str:
        return f"{self._prefix}:l:{lease}"

    def _command(self, step: Step) -> tuple[Any, ...]:
        ask = {name: said for name in _ASKED[type(step)] if (said := getattr(step, name)) is not None}
        ask["fresh"] = f"{self._token}{next(self._tokens):x}"
        if self._clock is not None:
            ask["at"] = self._clock()
        if isinstance(step, Park | Adopt):
            ask["guardian"] = parked(step.lease)
        lease = self._lease(ask["lease"]) if ask.get("lease") else f"{self._prefix}:none"
        keys, more = self._besides(step)
        every = [f"{self._prefix}:m", self._worker(step.worker), lease, *keys]
        # Each kind of step has the script of its name.
        sha = self._shas[type(step).__name__.lower()]
        return ("EVALSHA", sha, len(every), *every, encoded(ask), *more)

    def _besides(self, step: Step) -> tuple[list[str], list[bytes]]:
        """Name the further keys of a step, and give what is sent after the request."""
        workers = f"{self._prefix}:ws"
        match step:
            case Reserve():
                return [*self._cells(cell.id for cell in step.plan.c), workers], [encoded(step.plan)]
            case Finish():
                return self._cells(step.cells), []
            case Mend():
                return self._cells([step.cell]), []
            case Park() | Adopt():
                return [self._worker(parked(step.lease)), workers], []
            case Hold() | Keep():
                changed = step.changed if isinstance(step, Keep) else {}
                texts = [text.encode() for pair in changed.items() for text in pair]
                return [*(f"{self._prefix}:{kind}:{step.session}" for kind in ("s", "p")), workers], texts
            case Beat():
                return [workers], []
            case Start():
                return [], []

    def _cells(self, ids: Iterable[str]) -> list[str]:
        # Two prefixes: a key is somebody else's text, and could end like a suffix.
        return [key for one in ids for key in (f"{self._prefix}:c:{one}", f"{self._prefix}:z:{one}")]
