"""
Format 1: a list of bundles in memory, written as one JSON document.

It is the format of acel-core, byte for byte: either tool verifies what the other wrote. It holds violations
only, and an intact chain does not show that nothing was cut from its end. `EvidenceFile` writes format 2,
which proves more.
"""

import datetime
import json
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..._plain.objects import error_name
from ..canonical import GENESIS_HASH, canonical, decoded, legacy_canonical, sha256_hex
from ..failures import Failures
from ..keys import Signer
from ..redaction.redacted_records import Recordable, redact_record
from ..redaction.redactor import Redactor
from .verification import verify_bundles


@dataclass(frozen=True, slots=True)
class EvidenceBundle:
    """
    One violation in the chain.

    Attributes:
        index: Position in the log, from 0.
        timestamp: When it was recorded, UTC, ISO 8601.
        violation: The violation as plain data, redacted.
        prev_hash: `bundle_hash` of the bundle before it; 64 zeros for the first.
        trace_hash: SHA-256 of index, timestamp and violation.
        bundle_hash: SHA-256 of `prev_hash` and `trace_hash`.
        signature: Signature of `bundle_hash`, or None.
    """

    index: int
    timestamp: str
    violation: dict[str, Any]
    prev_hash: str
    trace_hash: str
    bundle_hash: str
    signature: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The bundle as it is written."""
        return asdict(self)


def payload_of(index: int, timestamp: str, violation: dict[str, Any]) -> dict[str, Any]:
    """Give the mapping of which `trace_hash` is taken."""
    return {"index": index, "timestamp": timestamp, "violation": violation}


class EvidenceLog:
    """
    Violations in memory, each linked to the one before it.

    Recording never raises: what fails is counted in `failures` and logged once. A bundle whose signer
    failed is kept without a signature. Safe for several threads; nothing is signed while the log's lock
    is held.

    Args:
        signer: Signs the hash of each bundle, see `ed25519_signer`.
        redact_fields: Names of secrets, or a `Redactor`.
        keep: How many bundles are kept, the latest; None for all.
    """

    def __init__(
        self,
        signer: Signer | None = None,
        *,
        redact_fields: Redactor | Iterable[str] | str | None = None,
        keep: int | None = None,
    ) -> None:
        self._bundles: deque[EvidenceBundle] = deque(maxlen=None if keep is None else max(keep, 1))
        self._count = 0
        self._signer = signer
        self._redactor = Redactor.of(redact_fields)
        # Where programs written for acel-core look for the key of the markers.
        self._redact_key = None if self._redactor is None else self._redactor.key
        self._failures = Failures()
        self._lock = threading.Lock()

    @property
    def bundles(self) -> list[EvidenceBundle]:
        """The bundles that are kept, as a list of its own."""
        with self._lock:
            return list(self._bundles)

    @property
    def dropped(self) -> int:
        """Count of bundles that are not kept any more. What is kept can be verified as a part of the log."""
        return self._count - len(self._bundles)

    @property
    def failures(self) -> int:
        """Count of what could not be recorded or signed."""
        return self._failures.count

    @property
    def last_failure(self) -> str | None:
        """The last failure in one line, or None."""
        return self._failures.last

    def __len__(self) -> int:
        return len(self._bundles)

    def record(self, violation: Recordable) -> EvidenceBundle:
        """Add a violation, as it is now and redacted, and give its bundle."""
        frozen = self._frozen(violation)
        with self._lock:
            bundle = self._linked(frozen)
            self._bundles.append(bundle)
            self._count += 1
        if self._signer is None:
            return bundle
        try:
            signed = replace(bundle, signature=self._signer(bundle.bundle_hash.encode()))
        except Exception as error:  # noqa: BLE001
            # Fail open: the bundle stays without a signature, which verification with a key reports.
            self._failures.add("sign", error)
            return bundle
        with self._lock:
            place = bundle.index - self.dropped
            if place >= 0:
                self._bundles[place] = signed
        return signed

    def verify(self, *, public_key_hex: str | None = None) -> bool:
        """Say whether the chain is intact, and with a key, whether every bundle is signed with it."""
        bundles = [bundle.to_dict() for bundle in self.bundles]
        return verify_bundles(bundles, public_key_hex=public_key_hex, partial=self.dropped > 0).ok

    def to_json(self) -> str:
        """Give what is kept of the log as it is written to a file."""
        return json.dumps([bundle.to_dict() for bundle in self.bundles], indent=2)

    @staticmethod
    def verify_bundles(bundles: Sequence[Any], *, public_key_hex: str | None = None) -> bool:
        """Say whether bundles that were loaded from a file are an intact chain. See `verify_bundles`."""
        return verify_bundles(bundles, public_key_hex=public_key_hex).ok

    @staticmethod
    def verify_bundles_detailed(
        bundles: Sequence[Any], *, public_key_hex: str | None = None
    ) -> tuple[bool, int | None]:
        """Say whether bundles are an intact chain, and which one is the first that does not hold."""
        report = verify_bundles(bundles, public_key_hex=public_key_hex)
        return report.ok, report.first_bad

    def _frozen(self, violation: Recordable) -> dict[str, Any]:
        try:
            frozen = decoded(canonical(redact_record(violation.to_dict(), self._redactor)))
        except Exception as error:  # noqa: BLE001
            # Fail open: the call goes on. That there was a violation is recorded, and why no more is.
            self._failures.add("freeze", error)
            frozen = {"$error": error_name(error)}
        return frozen if isinstance(frozen, dict) else {"$error": "not a mapping"}

    def _linked(self, violation: dict[str, Any]) -> EvidenceBundle:
        index = self._count
        prev_hash = self._bundles[-1].bundle_hash if self._bundles else GENESIS_HASH
        timestamp = datetime.datetime.now(datetime.UTC).isoformat()
        trace_hash = sha256_hex(legacy_canonical(payload_of(index, timestamp, violation)))
        return EvidenceBundle(
            index=index,
            timestamp=timestamp,
            violation=violation,
            prev_hash=prev_hash,
            trace_hash=trace_hash,
            bundle_hash=sha256_hex((prev_hash + trace_hash).encode()),
        )
