"""
Prove later what was refused and decided, by logs in which a change shows.

Format 1 (`EvidenceLog`) is the published format of acel-core. Format 2 (`EvidenceFile`) is an append-only
file with a signed head, which proves more. `verify_file` checks either; `Redactor` keeps secrets out of
both.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .._plain.freezing import freeze as freeze
    from .canonical import GENESIS_HASH as GENESIS_HASH
    from .errors import DamagedLogError as DamagedLogError
    from .errors import EvidenceError as EvidenceError
    from .errors import InvalidKeyError as InvalidKeyError
    from .errors import KeyFileError as KeyFileError
    from .errors import LogInUseError as LogInUseError
    from .errors import UnreadableLogError as UnreadableLogError
    from .format1.bundles import EvidenceBundle as EvidenceBundle
    from .format1.bundles import EvidenceLog as EvidenceLog
    from .format1.verification import verify_bundles as verify_bundles
    from .format2.file import EvidenceFile as EvidenceFile
    from .format2.heads import Head as Head
    from .format2.recording import SessionEvidence as SessionEvidence
    from .keys import Ed25519Signer as Ed25519Signer
    from .keys import Signer as Signer
    from .keys import ed25519_signer as ed25519_signer
    from .reading import Entry as Entry
    from .reading import read_entries as read_entries
    from .reading import verify_file as verify_file
    from .redaction.known_secrets import SECRET_PATTERNS as SECRET_PATTERNS
    from .redaction.redacted_records import redact_violation as redact_violation
    from .redaction.redactor import Redactor as Redactor
    from .report import Report as Report
    from .summary import Summary as Summary
    from .summary import summarise as summarise

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
    "Redactor": "redaction.redactor",
    "Report": "report",
    "SECRET_PATTERNS": "redaction.known_secrets",
    "SessionEvidence": "format2.recording",
    "Signer": "keys",
    "Summary": "summary",
    "UnreadableLogError": "errors",
    "ed25519_signer": "keys",
    "freeze": "._plain.freezing",
    "read_entries": "reading",
    "redact_violation": "redaction.redacted_records",
    "summarise": "summary",
    "verify_bundles": "format1.verification",
    "verify_file": "reading",
}

__all__ = tuple(sorted(_HOME))

__getattr__, __dir__ = lazy_names(globals(), _HOME)
