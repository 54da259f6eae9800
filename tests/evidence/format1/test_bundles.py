"""Format 1: bundles in memory, and acel-core as the peer."""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import acel.evidence as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import (
    GENESIS_HASH,
    Ed25519Signer,
    EvidenceLog,
    InvalidKeyError,
    Redactor,
    verify_bundles,
)

MakeViolation = Callable[..., Violation]


def test_bundles_are_linked(violation: MakeViolation) -> None:
    """Each bundle carries the hash of the one before it."""
    log = EvidenceLog()

    first, second = log.record(violation(1)), log.record(violation(2))

    assert (first.index, first.prev_hash) == (0, GENESIS_HASH)
    assert (second.index, second.prev_hash) == (1, first.bundle_hash)
    assert log.bundles == [first, second]
    assert EvidenceLog.verify_bundles_detailed([first.to_dict(), second.to_dict()]) == (True, None)
    assert EvidenceLog.verify_bundles_detailed([second.to_dict()]) == (False, 0)
    assert len(log) == 2
    assert log.verify()


def test_a_bundle_does_not_change_with_the_arguments(violation: MakeViolation) -> None:
    """A record is frozen when it is taken."""
    args: dict[Any, Any] = {"ids": [1], 10: {2}}
    log = EvidenceLog()
    bundle = log.record(violation(args=args))

    args["ids"].append(2)

    assert bundle.violation["args"] == {"ids": [1], "10": {"$set": [2]}}
    assert log.verify()


@given(st.dictionaries(st.text() | st.integers(), st.floats() | st.binary() | st.sets(st.integers())))
def test_whatever_is_recorded_the_peer_verifies_it(args: dict[Any, Any]) -> None:
    """A log from here verifies there after a reload: numbers as keys, NaN and sets included."""
    log = EvidenceLog()
    log.record(Violation("temporal", "a", "b", 1, args=args))
    log.record(Violation("temporal", "a", "b", 2, result=args))

    bundles = json.loads(log.to_json())

    assert peer.EvidenceLog.verify_bundles(bundles)
    assert verify_bundles(bundles).ok


def test_the_peer_verifies_our_signatures(violation: MakeViolation, key: Ed25519Signer) -> None:
    """A signed log from here verifies there, with the key."""
    log = EvidenceLog(key, redact_fields="secret")
    log.record(violation(args={"secret": 1}))

    bundles = json.loads(log.to_json())

    assert peer.EvidenceLog.verify_bundles(bundles, public_key_hex=key.public_key_hex)
    assert log.verify(public_key_hex=key.public_key_hex)


def test_we_verify_the_logs_of_the_peer() -> None:
    """A signed and redacted log of acel-core verifies here."""
    sign, public = peer.ed25519_signer()
    log = peer.EvidenceLog(sign, redact_fields={"secret"})
    for step in range(3):
        log.record(
            peer.Violation(
                "temporal", "a", "b", step, args={"secret": step, "é": float("nan")}, result=[1, None]
            )
        )
    bundles = json.loads(log.to_json())

    report = verify_bundles(bundles, public_key_hex=public)

    assert (report.ok, report.authenticated, report.count, report.signed) == (True, True, 3, 3)


def test_bundles_of_both_are_equal_for_the_same_violation(violation: MakeViolation) -> None:
    """The same violation at the same time has the same hashes in both tools."""
    ours = EvidenceLog().record(violation(args={"id": "ä", "n": [1.5, True, None]}))
    payload = peer._payload_of(
        ours.index, ours.timestamp, violation(args={"id": "ä", "n": [1.5, True, None]}).to_dict()
    )

    assert ours.trace_hash == peer._sha256_hex(peer._canonical(payload))
    assert ours.bundle_hash == peer._sha256_hex((GENESIS_HASH + ours.trace_hash).encode())


def test_secrets_are_hidden_before_anything_is_hashed(violation: MakeViolation) -> None:
    """The chain is over what is written, and verifies without the secret."""
    log = EvidenceLog(redact_fields=Redactor(["*token*"]))

    bundle = log.record(violation(args={"x_token": "t"}))

    assert bundle.violation["args"]["x_token"].startswith("***REDACTED(hmac-sha256:")
    assert bundle.violation["tool"] == "delete"
    assert log.verify()


class NoMapping:
    def to_dict(self) -> Any:
        return ["not a mapping"]


class Raising:
    def to_dict(self) -> Any:
        raise RuntimeError("with the data in it")


@pytest.mark.parametrize(
    ("recordable", "expected", "failures"),
    [
        pytest.param(NoMapping(), {"$error": "not a mapping"}, 0, id="no mapping"),
        pytest.param(Raising(), {"$error": "RuntimeError"}, 1, id="raises"),
    ],
)
def test_recording_never_raises(recordable: Any, expected: dict[str, str], failures: int) -> None:
    """What cannot be recorded is recorded as such, and counted."""
    log = EvidenceLog()

    bundle = log.record(recordable)

    assert bundle.violation == expected
    assert log.failures == failures
    assert log.verify()


def test_a_signer_that_fails_leaves_a_bundle_without_signature(
    violation: MakeViolation, key: Ed25519Signer, caplog: pytest.LogCaptureFixture
) -> None:
    """The violation is recorded, the failure is visible, and verification with the key finds it."""

    def broken(data: bytes) -> str:
        raise ConnectionError("key service is away")

    log = EvidenceLog(broken)
    bundle = log.record(violation())

    assert bundle.signature is None
    assert (log.failures, log.last_failure) == (1, "sign: ConnectionError")
    assert caplog.record_tuples == [
        ("openbox_agentrt.evidence", logging.ERROR, "evidence was not recorded: sign: ConnectionError")
    ]
    report = verify_bundles(json.loads(log.to_json()), public_key_hex=key.public_key_hex)
    assert (report.ok, report.problem, report.first_bad) == (False, "unsigned", 0)


def test_recording_goes_on_while_a_signature_is_awaited(violation: MakeViolation) -> None:
    """No lock is held while a signer works."""
    asked, answer = threading.Event(), threading.Event()

    def slow(data: bytes) -> str:
        if not asked.is_set():
            asked.set()
            answer.wait(10)
        return "00"

    log = EvidenceLog(slow)
    waiting = threading.Thread(target=log.record, args=(violation(1),))
    waiting.start()
    asked.wait(10)

    second = log.record(violation(2))
    answer.set()
    waiting.join(10)

    assert second.index == 1
    assert [bundle.signature for bundle in log.bundles] == ["00", "00"]
    assert log.verify()


def test_many_threads_make_one_chain(violation: MakeViolation) -> None:
    """Concurrent recording loses nothing and breaks no link."""
    log = EvidenceLog(redact_fields=["secret"])

    def work() -> None:
        for step in range(50):
            log.record(violation(step, args={"secret": step}))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(log) == 400
    assert log.verify()


def test_an_empty_key_is_an_error(violation: MakeViolation) -> None:
    """An empty key is not taken for "no key"."""
    log = EvidenceLog()
    log.record(violation())

    with pytest.raises(InvalidKeyError, match="public key is empty"):
        log.verify(public_key_hex="")


def test_a_log_may_keep_the_latest_only(violation: MakeViolation) -> None:
    """What is kept says how much is not, and verifies as a part; as a whole it does not."""
    log = EvidenceLog(keep=3)
    for step in range(8):
        log.record(violation(step))
    bundles = [bundle.to_dict() for bundle in log.bundles]
    report = verify_bundles(bundles, partial=True)

    assert ([bundle["index"] for bundle in bundles], log.dropped) == ([5, 6, 7], 5)
    assert log.verify()
    assert (report.ok, report.count) == (True, 3)
    assert "the 5 bundles before these were not looked at" in report.notes
    assert verify_bundles(bundles).problem == "missing"
    assert verify_bundles(bundles[:1] + bundles[2:], partial=True).first_bad == 6


def test_a_signature_may_come_after_its_bundle_was_dropped(violation: MakeViolation) -> None:
    """A slow signer signs what is not kept any more, and nothing else is touched."""
    log: EvidenceLog

    def sign(data: bytes) -> str:
        if len(log) == 1 and log.dropped == 0:
            log.record(violation(2))
        return "00"

    log = EvidenceLog(sign, keep=1)
    log.record(violation(1))

    assert [bundle.index for bundle in log.bundles] == [1]
    assert log.failures == 0
