"""Put markers for secrets into what is recorded as evidence."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from .markers import redaction_marker
from .redactor import Redactor

_TRACE_HASH = "trace_hash"
_NEVER_REDACTED = frozenset(("kind", "spec", "tool", "step", "id", "mode", "severity", "on_violation"))
_WHERE_USER_DATA_IS = ("args", "result", "state_snapshot", "trace")


class Recordable(Protocol):
    """Describe what can be recorded: a violation."""

    def to_dict(self) -> dict[str, Any]:
        """The violation as a mapping."""


def redact_violation(
    violation: Mapping[str, Any], fields: Iterable[str] | str, *, key: bytes | None = None
) -> dict[str, Any]:
    """
    A copy of a violation's mapping with the values under the given names replaced by markers.

    Looks into ``args``, ``result``, ``state_snapshot`` and ``trace``. Without a key the markers are plain
    hashes, see `redaction_marker`.
    """
    redactor = _AsGiven(fields, key=None if key is None else key.ljust(16, b"\0"))
    redacted = dict(violation)
    if redactor.active:
        for part in _WHERE_USER_DATA_IS:
            if part in redacted:
                redacted[part] = redactor.redact(redacted[part])
    return redacted


def redact_record(record: Mapping[str, Any], redactor: Redactor | None) -> Mapping[str, Any]:
    """
    A record with markers for the secrets in it.

    The record's own names (``args``, ``tool``) are never taken for names of secrets; what stands under
    them is looked into, but for what a contract or the engine wrote. The hash of the whole trace becomes a
    marker too: it was made of what is hidden, and a short secret could be guessed from it.
    """
    if redactor is None:
        return record
    redacted = {
        name: value if name in _NEVER_REDACTED else redactor.redact(value)
        for name, value in record.items()
        if name != _TRACE_HASH
    }
    if _TRACE_HASH in record:
        trace_hash = record[_TRACE_HASH]
        redacted[_TRACE_HASH] = None if trace_hash is None else redactor.marker(trace_hash)
    return redacted


class _AsGiven(Redactor):
    """Mark values as acel-core does: by how they are written, and without a key unless there is one."""

    __slots__ = ()

    def marker(self, value: object) -> str:
        return redaction_marker(value, self._key if self._has_own_key else None)
