"""Tell Core of an activity that ends without a result of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agent_rt import ApprovalRequiredError, RunCancelled

from .._wire.error_info import error_info

if TYPE_CHECKING:
    from ..lifecycle_events import ActivityStatus


ABANDONED: Final = "AbandonedActivity"
OUTLIVED_RUN: Final = error_info(type=ABANDONED, message="run ended before the activity completed")
SUPERSEDED: Final = error_info(
    type="ArgumentsChanged", message="the arguments were changed after they were judged, and are judged again"
)
NO_RESPONSE: Final[Mapping[str, Any]] = {
    "llm_model": None,
    "input_tokens": None,
    "output_tokens": None,
    "total_tokens": None,
    "completion": None,
    "has_tool_calls": None,
    "finish_reason": None,
}
"""Output of a model call that was judged ahead of its turn, which did not come."""


def status_of(error: BaseException) -> ActivityStatus:
    """Tell how a row ends whose work ended with `error`."""
    if isinstance(error, RunCancelled | ApprovalRequiredError) or not isinstance(error, Exception):
        return "cancelled"
    return "failed"
