"""Put rules and evidence around a gated server, for ``openbox-agentrt proxy``."""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Literal

from ...acel import Session
from ...acel.config import Rules, read_rules
from ...evidence import EvidenceFile, ed25519_signer
from ...evidence.redaction.redactor import redactor_of
from ...fleet import open_fleet
from ..mcp.calls import CALL, gated_methods
from .gate import StdioGate
from .process import run_proxy

_MAX_TRACE = 10_000


def proxy(
    command: Sequence[str],
    *,
    contracts: str,
    shadow: bool = False,
    evidence: str | None = None,
    gate: Iterable[str] = (CALL,),
    fleet: str | None = None,
    redact_fields: Sequence[str] = (),
    redaction_key: str | None = None,
    session_id: str | None = None,
    agent: str | None = None,
    record: Literal["violations", "steps"] = "violations",
    key: str | None = None,
) -> int:
    """
    Run a server behind its contracts, until it exits.

    Standard output belongs to the protocol, so everything that is said goes to standard error.

    Args:
        command: The server's command.
        contracts: Path of the rules file.
        shadow: Record what would be refused, and refuse nothing.
        evidence: Path of the log.
        gate: Methods that are gated.
        fleet: URL of the store that contracts with scope "fleet" count in.
        redact_fields: Names of arguments that the log shows as markers only, as what looks like a key or a
            token.
        redaction_key: File of the key of these markers, created if it does not exist.
        session_id: Name of the session, in the log and for a halt.
        agent: The agent whose calls these are, for a halt.
        record: What goes into the log: what was refused, or each call with its arguments and its outcome.
        key: File of the key that signs the log, created if it does not exist.

    Returns:
        The server's exit code, see `run_proxy`.

    Raises:
        ConfigError: If the rules cannot be understood.
        FleetConfigError: If the URL names no store.
        EvidenceError: If the log is in use or damaged, or the key cannot be used.
        OSError: If a file cannot be read or written, or the server cannot be started.
        ValueError: If a method cannot be gated, or the rules need a store and there is none.
    """
    methods = gated_methods(gate)
    rules = read_rules(contracts)
    with ExitStack() as stack:
        log = None
        if evidence is not None:
            log = stack.enter_context(
                EvidenceFile(
                    evidence,
                    signer=None if key is None else ed25519_signer(key)[0],
                    record=record,
                    rules_hash=rules.rules_hash,
                    redact_fields=redactor_of(redact_fields),
                    redaction_key=redaction_key,
                )
            )
        store = None
        if fleet is not None:
            store = open_fleet(fleet)
            stack.callback(store.close)
            store.halts.begin()
        session = Session.from_rules(
            rules,
            fleet=store,
            session_id=session_id,
            agent=agent,
            mode="shadow" if shadow else "enforce",
            evidence=log,
            # A server may run for weeks.
            max_trace=_MAX_TRACE,
        )
        _announce(command, session, rules)
        try:
            return run_proxy(command, StdioGate(session, gate=methods))
        finally:
            for violation in session.end_session():
                _say(f"unmet at the end: {violation.spec}")


def _announce(command: Sequence[str], session: Session, rules: Rules) -> None:
    for warning in rules.warnings:
        _say(f"warning: {warning.within(rules.name)}")
    name = os.path.basename(command[0])
    _say(f"openbox-agentrt: {name!r} behind {len(rules.contracts)} contract(s), mode={session.mode}")


def _say(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        # Nobody listens there, and nothing depends on it.
        return
