"""Serve a module's server over standard I/O under its contracts, for ``openbox-agentrt serve``."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from ..._extras import require
from ..._files.whole_write import write_private
from ...acel import Session
from ...acel.config import contracts_from_rules, load_rules, state_from_rules
from ...acel.contracts.declaration import scope_of
from ...acel.session import engine_of
from ...evidence import EvidenceFile, ed25519_signer
from ...evidence.redaction.redactor import redactor_of
from ...fleet import Fleet, open_fleet
from .attach import attach
from .middleware import ACELMiddleware
from .server_module import Served, ServerModuleError, build

_WIND_UP_SECONDS = 0.5


def serve(
    ref: str,
    *,
    shadow: bool = False,
    contracts: str | None = None,
    evidence: str | None = None,
    fleet: str | None = None,
    record: Literal["violations", "steps"] = "violations",
    key: str | None = None,
    redact_fields: Sequence[str] = (),
    redaction_key: str | None = None,
) -> int:
    """
    Serve a module's MCP server over standard input and output, until the client hangs up.

    Standard output belongs to the protocol, so everything that is said goes to standard error.

    Args:
        ref: Path of the module's file, or its dotted name. It defines ``build_server([mode])``.
        shadow: Ask the module for a session that only watches.
        contracts: Path of a rules file that is added to what the module sets up.
        evidence: Path to which the session's evidence is written when it ends; with steps or a key, a log of
            format 2 that grows with each call, which the module's `build_server` is given as `evidence`.
        fleet: URL of the store that contracts with scope "fleet" of that file count in.
        record: What goes into the log: what was refused, or each call with its arguments and its outcome.
        key: File of the key that signs the log, created if it does not exist.
        redact_fields: Names of arguments that the log shows as markers only, as what looks like a key or a
            token.
        redaction_key: File of the key of these markers, created if it does not exist.

    Returns:
        0. Told to terminate, the process ends with 143.

    Raises:
        MissingExtraError: If `mcp` is not installed.
        ServerModuleError: If the module has no server to give, or no evidence to write.
        ConfigError: If the rules cannot be understood.
        FleetConfigError: If the URL names no store.
        EvidenceError: If the log is in use or damaged, or the key cannot be used.
        ValueError: If there is no path for the log that is asked for.
    """
    require("mcp", extra="mcp")
    with ExitStack() as opened:
        log = None
        if record == "steps" or key is not None:
            if evidence is None:
                raise ValueError("--record and --key need a log: --evidence FILE")
            log = opened.enter_context(
                EvidenceFile(
                    evidence,
                    signer=None if key is None else ed25519_signer(key)[0],
                    record=record,
                    redact_fields=redactor_of(redact_fields),
                    redaction_key=redaction_key,
                )
            )
        served = build(ref, shadow=shadow, evidence=log)
        if contracts is not None:
            _add(contracts, served.session, _store(fleet, opened))
        if log is None and evidence is not None:
            _check_evidence(evidence, served)
        conclude = partial(_conclude, served.session, log or evidence)
        # Before anything is said: whoever reads the first line may end it.
        stopping = _Stopping(conclude)
        code = 0
        try:
            _serve(ref, served, shadow=shadow, stopping=stopping)
        except _Stopped as stopped:
            code = stopped.code
        conclude()
        return code


class _Stopped(BaseException):
    """The process was told to stop before it served."""

    def __init__(self, code: int) -> None:
        self.code = code


class _Stopping:
    """
    End the server when the process is told to stop.

    Args:
        conclude: Ends the session and its evidence.
    """

    def __init__(self, conclude: Callable[[], None]) -> None:
        self._conclude = conclude
        self._cancel: Callable[[int], None] | None = None
        self._code: int | None = None
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._stop)

    async def until_hung_up(self, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Serve until the client hangs up; leaves the process if it is told to stop."""
        loop = asyncio.get_running_loop()
        serving = asyncio.ensure_future(serve())

        def cancel(code: int) -> None:
            loop.call_soon_threadsafe(serving.cancel)
            loop.call_soon_threadsafe(loop.call_later, _WIND_UP_SECONDS, self._leave, code)

        self._cancel = cancel
        try:
            await serving
        except asyncio.CancelledError:
            if self._code is None:
                raise
            self._leave(self._code)

    def _stop(self, number: int, _: FrameType | None) -> None:
        # By hand is the usual way to stop a server, and no failure.
        self._code = 0 if number == signal.SIGINT else 128 + number
        if self._cancel is None:
            raise _Stopped(self._code)
        self._cancel(self._code)

    def _leave(self, code: int) -> None:
        # The SDK reads standard input in a thread, which nothing but its next line can stop. The server has
        # had its time to wind up, so the process is left as it is.
        self._conclude()
        sys.stderr.flush()
        os._exit(code)


def _serve(ref: str, served: Served, *, shadow: bool, stopping: _Stopping) -> None:
    if shadow and not served.takes_mode:
        _say(f"warning: build_server() of {ref!r} takes no mode, so --shadow is ignored")
    _announce(served)
    asyncio.run(stopping.until_hung_up(served.server.run_stdio_async))


def _store(url: str | None, opened: ExitStack) -> Fleet | None:
    if url is None:
        return None
    store = open_fleet(url)
    opened.callback(store.close)
    store.halts.begin()
    return store


def _add(path: str, session: Session | ACELMiddleware, store: Fleet | None) -> None:
    rules = load_rules(path)
    contracts, state = contracts_from_rules(rules), state_from_rules(rules)
    of_fleet = [contract.spec for contract in contracts if scope_of(contract) == "fleet"]
    if of_fleet and store is None:
        raise ServerModuleError(f"{of_fleet[0]} has scope 'fleet', and no store is given: --fleet URL")
    _say(f"Loaded {len(contracts)} contract(s) from {path!r}.")

    def setup(session: Session) -> None:
        if store is not None:
            engine_of(session).join(store)
        session.add_contracts(contracts_from_rules(rules))
        session.state.update(state)

    if isinstance(session, Session):
        setup(session)
    else:
        session.extend(setup)


def _check_evidence(path: str, served: Served) -> None:
    if not isinstance(served.session, Session):
        raise ServerModuleError(
            "--evidence needs a module with one session, this one has one for each client"
        )
    if not hasattr(served.session.evidence, "to_json"):
        raise ServerModuleError("the module keeps its evidence itself, so --evidence has nothing to write")
    if not Path(path).expanduser().resolve().parent.is_dir():
        raise ServerModuleError(f"the folder of {path!r} does not exist")


def _announce(served: Served) -> None:
    session = served.session
    if isinstance(session, ACELMiddleware):
        attach(served.server, session)
        _say(f"openbox-agentrt serving {served.server.name!r} over stdio, with a session for each client.")
    else:
        names = ", ".join(contract.spec for contract in session.contracts) or "(none)"
        _say(f"openbox-agentrt serving {served.server.name!r} over stdio, mode={session.mode}.")
        _say(f"Active contracts: {names}")
        if session.mode == "shadow":
            _say("Shadow mode: violations are recorded, nothing is blocked.")
    _say("Press Ctrl+C to stop.")


def _conclude(session: Session | ACELMiddleware, evidence: EvidenceFile | str | None) -> None:
    if isinstance(session, ACELMiddleware):
        session.close()
    else:
        for violation in session.end_session():
            _say(f"unmet at the end: {violation.spec}")
    if isinstance(evidence, EvidenceFile):
        evidence.close()
    elif evidence is not None:
        _write(session, evidence)


def _write(session: Any, evidence: str) -> None:
    try:
        write_private(Path(evidence).expanduser(), session.evidence.to_json().encode())
    except OSError as error:
        _say(f"error: the evidence could not be written to {evidence!r}: {error.strerror or error}")
    else:
        dropped = getattr(session.evidence, "dropped", 0)
        part = f", without its first {dropped} violation(s): max_trace keeps no more" if dropped else ""
        _say(f"Evidence log written to {evidence!r}{part}.")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
