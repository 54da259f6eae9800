"""The evidence of a hook session: what was refused, and at its end the steps. Loaded only if there is any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from openbox_agentrt.evidence.errors import EvidenceError
from openbox_agentrt.evidence.format2.file import EvidenceFile
from openbox_agentrt.evidence.keys import ed25519_signer
from openbox_agentrt.evidence.redaction.brief_redaction import brief_redactor_of
from openbox_agentrt.evidence.redaction.redactor import redactor_of

if TYPE_CHECKING:
    from typing import Literal, Protocol

    from openbox_agentrt.acel import Violation

    class RecordOptions(Protocol):
        """Say how evidence is written, see `HookSettings`."""

        key: str | None
        record: Literal["violations", "steps"]
        redact_fields: Sequence[str]
        redaction_key: str | None


def record_in(
    path: str,
    violations: Sequence[Violation],
    *,
    options: RecordOptions,
    session_id: str,
    rules_hash: str,
    steps: Callable[[EvidenceFile], str | None] | None,
) -> str | None:
    """
    Put violations into the evidence of a session, and its `steps`, which says why if it cannot.

    Returns:
        What went wrong; None if nothing did.
    """
    try:
        # A line or two, or all of a session.
        redacting = brief_redactor_of if steps is None else redactor_of
        signer: Any = ed25519_signer(options.key)[0] if options.key else None
        with EvidenceFile(
            path,
            signer=signer,
            session_id=session_id,
            rules_hash=rules_hash,
            redact_fields=redacting(options.redact_fields),
            redaction_key=options.redaction_key,
            record=options.record,
            seal_interval=0 if steps is None else 0.05,
            # Each refusal opens it again. What stands there is for the end, and for whoever verifies it.
            check="end" if steps is None else "whole",
        ) as evidence:
            for violation in violations:
                evidence.record(violation)
            return (None if steps is None else steps(evidence)) or evidence.last_failure
    except (EvidenceError, OSError) as error:
        # Fail-open for the call: it was judged and written down in the log, and the user is told.
        return str(error)
