"""Open what options name: the evidence, and the store of the fleet. Mistakes show here."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ..acel.engine.fleet.fleet_gate import FleetStore
from ..acel.engine.journal.journaled_store import filed_rules
from ..errors import OptionError
from ..evidence.redaction.redactor import redactor_of
from .contracts.rules_in_force import RulesInForce
from .evidence import Recorder, foreign_evidence, redaction_key_of

if TYPE_CHECKING:
    from ..evidence import Ed25519Signer, EvidenceFile
    from ..options import GovernanceOptions

log = logging.getLogger(__name__)


def open_evidence(
    options: GovernanceOptions, opened: ExitStack, rules: RulesInForce
) -> EvidenceFile | Recorder | None:
    """
    Open the place where evidence goes: a file, which `opened` closes, or an object of the user's own.

    Args:
        rules: What a new file is for.

    Raises:
        OptionError: The file or the key cannot be used.
    """
    target = options.evidence
    if target is None:
        return None
    from ..evidence import EvidenceError, EvidenceFile

    if not isinstance(target, str | os.PathLike):
        if not callable(getattr(target, "record", None)):
            raise OptionError("evidence", f"must be a path or have record(), not {type(target).__name__}")
        opened_before = foreign_evidence(target, options)
        if isinstance(opened_before, EvidenceFile):
            _warn_of_hidden(opened_before, rules)
        return opened_before
    try:
        file = _file_at(target, options, rules)
    except EvidenceError as error:
        raise OptionError("evidence", f"cannot be used: {error}", remedy=error.remedy) from error
    except FileExistsError as error:
        raise OptionError("evidence", f"cannot be used: no folder: {error.filename!r}") from error
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise OptionError("evidence", f"cannot be used: {problem}: {error.filename!r}") from error
    except (TypeError, ValueError) as error:
        raise OptionError("anchors", f"cannot be used: {error}") from error
    opened.callback(file.close)
    _warn_of_hidden(file, rules)
    return file


def _file_at(path: str | os.PathLike[str], options: GovernanceOptions, rules: RulesInForce) -> EvidenceFile:
    from ..evidence import EvidenceFile

    return EvidenceFile(
        path,
        signer=_signer_of(options),
        previous_signer=_previous_signer_of(options),
        redact_fields=redactor_of(options.redact_fields),
        redaction_key=redaction_key_of(options),
        record=options.record,
        rules_hash=rules.hash,
        anchors=options.anchors or (),
        anchor_interval=options.anchor_seconds,
    )


def _signer_of(options: GovernanceOptions) -> Callable[[bytes], str] | None:
    signer = options.signer
    if isinstance(signer, str | os.PathLike):
        return _signer_at("signer", signer)
    if signer is not None and not callable(signer):
        raise OptionError("signer", f"must be a key file or sign, not {type(signer).__name__}")
    return signer


def _previous_signer_of(options: GovernanceOptions) -> Ed25519Signer | None:
    path = options.previous_signer
    if path is None:
        return None
    if not Path(path).expanduser().exists():
        raise OptionError("previous_signer", f"names no file: {str(path)!r}")
    return _signer_at("previous_signer", path)


def _signer_at(option: str, path: str | os.PathLike[str]) -> Ed25519Signer:
    from ..evidence import EvidenceError, ed25519_signer

    try:
        return ed25519_signer(path)[0]
    except EvidenceError as error:
        raise OptionError(option, f"cannot be used: {error}", remedy=error.remedy) from error


def _warn_of_hidden(file: EvidenceFile, rules: RulesInForce) -> None:
    """Name the contracts that need what is redacted, before the first session is made."""
    if rules.source is not None and rules.source.contracts and file.records_steps:
        file.warn_of_hidden(filed_rules(rules.source.contracts))


def marker_key_of(options: GovernanceOptions, evidence: EvidenceFile | Recorder | None) -> bytes:
    """
    Give the key of redaction markers: that of the evidence, the configured one, or a random one.

    Raises:
        OptionError: The configured one cannot be used.
    """
    from ..evidence import EvidenceFile

    if isinstance(evidence, EvidenceFile):
        return evidence.marker_key
    return redaction_key_of(options) or secrets.token_bytes(32)


def open_fleet_of(options: GovernanceOptions, opened: ExitStack) -> FleetStore | None:
    """
    Open the store that contracts of the fleet count in; `opened` closes one that is opened here.

    Raises:
        OptionError: Its URL names no store.
    """
    named = options.fleet
    if not isinstance(named, str):
        return named
    from ..fleet import FleetConfigError, open_fleet

    try:
        fleet = open_fleet(
            named,
            lease_seconds=options.lease_seconds,
            on_outage=options.on_fleet_outage,
            timeout_seconds=options.fleet_timeout_seconds,
        )
        opened.callback(fleet.close)
        fleet.prepare()
    except FleetConfigError as error:
        raise OptionError("fleet", f"cannot be used: {error}") from error
    return fleet


async def check_fleet_of(options: GovernanceOptions) -> None:
    """
    Look at the store of the fleet that a URL names, and say in the log what somebody should know.

    One that gives no answer may be back in a moment: until then, what needs it is refused.

    Raises:
        OptionError: It cannot be used: a wrong password, no folder, an eviction policy that forgets.
    """
    named = options.fleet
    if not isinstance(named, str):
        return
    from ..fleet import FleetConfigError, FleetUnavailableError
    from ..fleet.checking import check_store

    try:
        doubts = await asyncio.to_thread(check_store, named)
    except FleetConfigError as error:
        raise OptionError("fleet", f"cannot be used: {error}") from error
    except FleetUnavailableError as error:
        log.warning("%s; until it does, what depends on it is refused", error)
        return
    for doubt in doubts:
        log.warning("the fleet's store: %s", doubt)
