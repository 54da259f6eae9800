"""The evidence of a hook session: what was refused, and at its end the steps. Loaded only if there is any."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openbox_agentrt.doors.claude_code.log import file_stem
from openbox_agentrt.evidence.errors import EvidenceError
from openbox_agentrt.evidence.format2.file import EvidenceFile
from openbox_agentrt.evidence.keys import ed25519_signer
from openbox_agentrt.evidence.redaction.brief_redaction import brief_redactor_of
from openbox_agentrt.evidence.redaction.redactor import redactor_of

if TYPE_CHECKING:
    from typing import Literal, Protocol

    from openbox_agentrt.acel import Violation
    from openbox_agentrt.doors.claude_code.history import History
    from openbox_agentrt.doors.claude_code.rules import HookRules

    class RecordOptions(Protocol):
        """Say how evidence is written, see `HookSettings`."""

        key: str | None
        record: Literal["violations", "steps"]
        redact_fields: Sequence[str]
        redaction_key: str | None


def record_in(
    folder: str,
    violations: Sequence[Violation],
    *,
    options: RecordOptions,
    session_id: str,
    rules_hash: str,
    steps: tuple[History, HookRules] | None,
) -> str | None:
    """
    Put violations into the evidence of a session in `folder`, and its `steps`, by their log and rules.

    Returns:
        What went wrong; None if nothing did.
    """
    try:
        # A line or two, or all of a session.
        redacting = brief_redactor_of if steps is None else redactor_of
        path = os.path.join(folder, f"{file_stem(session_id)}.evidence.jsonl")
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
            return _steps_failed(steps, evidence) or evidence.last_failure
    except (EvidenceError, OSError) as error:
        # Fail-open for the call: it was judged and written down in the log, and the user is told.
        return str(error)


def _steps_failed(steps: tuple[History, HookRules] | None, evidence: EvidenceFile) -> str | None:
    if steps is None:
        return None
    from openbox_agentrt.doors.claude_code.steps import record_steps

    return record_steps(*steps, evidence)
