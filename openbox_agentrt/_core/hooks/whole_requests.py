"""
Nested I/O that Core could be shown only in part does not happen.

openbox_core cuts long bodies and goes by the answer all the same. What Core did not see may be what it would
have stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openbox_core.contracts.results import EvaluationResult, Verdict
from openbox_core.gate import GovernanceGate
from openbox_core.validation.diagnostics import ATTR_TRUNCATED

from .answers import LOCAL_MARK

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope


class WholeRequestGate(GovernanceGate):
    """openbox_core's gate for hooks, which does not go by what Core says to a part of a request."""

    def preflight(self, event: EventEnvelope) -> EvaluationResult:
        return _of_the_whole(super().preflight(event))

    async def apreflight(self, event: EventEnvelope) -> EvaluationResult:
        return _of_the_whole(await super().apreflight(event))


def _of_the_whole(result: EvaluationResult) -> EvaluationResult:
    was_cut = any(found.get("code") == ATTR_TRUNCATED for found in result.diagnostics)
    if not was_cut or result.fallback_used or result.verdict.should_stop():
        return result
    # Fail-closed, whatever the posture.
    return EvaluationResult(
        Verdict.BLOCK,
        reason="core could be shown only a part of it; raise max_payload_bytes, or pass less at once",
        diagnostics=result.diagnostics,
        raw={LOCAL_MARK: True},
    )
