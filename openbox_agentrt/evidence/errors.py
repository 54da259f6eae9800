"""
Say what can go wrong with evidence, outside of recording.

    EvidenceError                  base; the operation did nothing
    ├── KeyFileError               a signing key could not be read, or must not be used
    ├── InvalidKeyError            a key was given that is none, e.g. an empty one
    ├── LogInUseError              another writer holds the log
    ├── DamagedLogError            a log was to be continued that does not hold what its head says
    └── UnreadableLogError         a file is missing, or is no evidence log

Recording itself raises none of these: a record that cannot be written is counted (`failures`) and logged
once.
"""

from .._picklable import PicklableError


class EvidenceError(PicklableError):
    """
    Evidence could not be opened, signed or read. Nothing was changed.

    Attributes:
        path: The file, or None where the error is not about one.
        reason: What is wrong, without the path.
        remedy: What to do about it, or None.
    """

    def __init__(self, reason: str, *, path: str | None = None, remedy: str | None = None) -> None:
        self.reason = reason
        self.path = path
        self.remedy = remedy
        super().__init__(reason if path is None else f"{reason}: {path!r}")


class KeyFileError(EvidenceError, ValueError):
    """A key file could not be read or written, or others can read it. Nothing was signed."""


class InvalidKeyError(EvidenceError, ValueError):
    """A public key is empty or is no Ed25519 key. Nothing was verified."""


class LogInUseError(EvidenceError):
    """Another writer, here or in another process, holds this log. Nothing was written."""


class DamagedLogError(EvidenceError):
    """A log does not hold what its head says was written. It was left as it is."""


class UnreadableLogError(EvidenceError, ValueError):
    """A file is missing or is no evidence log. Nothing can be said about it."""
