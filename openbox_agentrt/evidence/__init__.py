"""
What can be proved later: logs of what was refused, in which a change shows.

Format 1 (`EvidenceLog`) is the published format of acel-core. Format 2 (`EvidenceFile`) is an append-only
file with a signed head, which proves more. `verify_file` checks either; `Redactor` keeps secrets out of
both.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .._plain.freezing import freeze
    from .canonical import GENESIS_HASH
    from .errors import (
        DamagedLogError,
        EvidenceError,
        InvalidKeyError,
        KeyFileError,
        LogInUseError,
        UnreadableLogError,
    )
    from .format1.bundles import EvidenceBundle, EvidenceLog
    from .format1.verification import verify_bundles
    from .format2.file import EvidenceFile
    from .format2.heads import Head
    from .format2.recording import SessionEvidence
    from .keys import Ed25519Signer, Signer, ed25519_signer
    from .known_secrets import SECRET_PATTERNS
    from .reading import Entry, read_entries, verify_file
    from .redaction import Redactor, redact_violation
    from .report import Report
    from .summary import Summary, summarise

_HOME = {
    "DamagedLogError": "errors",
    "Ed25519Signer": "keys",
    "Entry": "reading",
    "EvidenceBundle": "format1.bundles",
    "EvidenceError": "errors",
    "EvidenceFile": "format2.file",
    "EvidenceLog": "format1.bundles",
    "GENESIS_HASH": "canonical",
    "Head": "format2.heads",
    "InvalidKeyError": "errors",
    "KeyFileError": "errors",
    "LogInUseError": "errors",
    "Redactor": "redaction",
    "Report": "report",
    "SECRET_PATTERNS": "known_secrets",
    "SessionEvidence": "format2.recording",
    "Signer": "keys",
    "Summary": "summary",
    "UnreadableLogError": "errors",
    "ed25519_signer": "keys",
    "freeze": "._plain.freezing",
    "read_entries": "reading",
    "redact_violation": "redaction",
    "summarise": "summary",
    "verify_bundles": "format1.verification",
    "verify_file": "reading",
}

__all__ = (
    "GENESIS_HASH",
    "SECRET_PATTERNS",
    "DamagedLogError",
    "Ed25519Signer",
    "Entry",
    "EvidenceBundle",
    "EvidenceError",
    "EvidenceFile",
    "EvidenceLog",
    "Head",
    "InvalidKeyError",
    "KeyFileError",
    "LogInUseError",
    "Redactor",
    "Report",
    "SessionEvidence",
    "Signer",
    "Summary",
    "UnreadableLogError",
    "ed25519_signer",
    "freeze",
    "read_entries",
    "redact_violation",
    "summarise",
    "verify_bundles",
    "verify_file",
)

__getattr__, __dir__ = lazy_names(globals(), _HOME)
