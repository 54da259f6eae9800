"""Evidence under the names that acel-core gives it. The home of the code is `openbox_agentrt.evidence`."""

from ..evidence.canonical import GENESIS_HASH
from ..evidence.canonical import legacy_canonical as _canonical
from ..evidence.canonical import sha256_hex as _sha256_hex
from ..evidence.format1.bundles import EvidenceBundle, EvidenceLog
from ..evidence.format1.bundles import payload_of as _payload_of
from ..evidence.keys import Signer, ed25519_signer
from ..evidence.redaction.markers import redaction_marker as _redact_marker
from ..evidence.redaction.redacted_records import redact_violation

__all__ = (
    "GENESIS_HASH",
    "EvidenceBundle",
    "EvidenceLog",
    "Signer",
    "_canonical",
    "_payload_of",
    "_redact_marker",
    "_sha256_hex",
    "ed25519_signer",
    "redact_violation",
)
