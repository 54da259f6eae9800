"""Keeping a record, signing it, and checking it later."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import openbox_agentrt.acel as ours
from openbox_agentrt.evidence import EvidenceFile, EvidenceLog, ed25519_signer, verify_file

from .tables import Table
from .timing import spread


def measure(quick: bool) -> Table:
    """Time for each record of a log, which includes opening, sealing and closing it."""
    records, rounds = (200, 2) if quick else (5000, 7)
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        signer, public = ed25519_signer(Path(folder) / "key")
        for number in range(-1, rounds):
            plain, signed, every = (Path(folder) / f"{kind}-{number}" for kind in ("plain", "signed", "all"))
            steps: dict[str, Callable[[], object]] = {
                "append, hash chain": partial(_fill, plain, records),
                "append, hash chain and signature": partial(_fill, signed, records, signer=signer),
                "append a decision, signed": partial(_decide, every, records, signer=signer),
                "verify, with key": partial(_verify, signed, public),
                "in memory (format 1), signed": partial(
                    _fill_log, lambda: EvidenceLog(signer), _our_violation, records
                ),
                "acel-core, signed": partial(_fill_log, _acel_log, _acel_violation, records),
            }
            for name, step in steps.items():
                began = process_time()
                step()
                if number >= 0:  # the round before the first loads what is loaded when it is needed
                    taken.setdefault(name, []).append((process_time() - began) / records * 1e6)
    spreads = {name: spread(samples) for name, samples in taken.items()}
    return Table(
        name="evidence",
        title=f"Evidence, by record ({records:,} records)",
        columns=("case", "who", "median us", "worst us"),
        rows=[
            (name, "acel-core" if name.startswith("acel") else "openbox_agentrt", found.median, found.p99)
            for name, found in spreads.items()
        ],
        notes=(
            "Processor time of a whole log, from opening to closing. A signature covers all records of 50 ms."
            " No fsync. acel-core and format 1 sign each record."
        ),
    )


def _our_violation() -> ours.Violation:
    session = ours.Session(contracts=[ours.must_precede("backup", "delete")])
    session.call("read", {"id": 7}, result={"ok": True})
    return session.reserve("delete", {"id": 7, "why": "asked to"}).violations[0]


def _acel_violation() -> Any:
    import acel

    session = acel.Session()
    session.add_contract(acel.must_precede("backup", "delete"))
    session.call("read", {"id": 7}, result={"ok": True})
    return session.precheck("delete", {"id": 7, "why": "asked to"}).violation


def _acel_log() -> Any:
    import acel

    signer, _ = acel.ed25519_signer()
    return acel.EvidenceLog(signer)


def _fill(path: Path, records: int, **options: Any) -> None:
    violation = _our_violation()
    with EvidenceFile(path, **options) as log:
        for _ in range(records):
            log.record(violation)


def _decide(path: Path, records: int, **options: Any) -> None:
    decision = {"event": "pay", "verdict": "allow", "source": "core", "workflow_id": "w", "run_id": "r"}
    with EvidenceFile(path, record="all", **options) as log:
        for _ in range(records):
            log.record_decision(decision)


def _fill_log(make: Callable[[], Any], violation: Callable[[], Any], records: int) -> None:
    log, recorded = make(), violation()
    for _ in range(records):
        log.record(recorded)


def _verify(path: Path, public: str) -> None:
    if not verify_file(path, public).ok:
        raise AssertionError("a log that nobody touched does not verify")
