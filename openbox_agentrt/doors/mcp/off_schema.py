"""The evidence of a call whose arguments are not as its tool was listed."""

import logging
from typing import Any, Final

from ...acel import Session
from ...acel.contracts.base import SessionRule
from ...acel.memory.call import JudgedCall
from ...acel.session import engine_of
from .calls import ServerCall
from .refusal import unjudged
from .schema import OffSchemaError

log = logging.getLogger(__name__)

_REMEDY: Final = "send it as the tool's schema says"

_AS_LISTED: Final = SessionRule("the call is as its tool was listed", _REMEDY, code="call_off_schema")


def report_off_schema(
    session: Session, call: ServerCall, error: OffSchemaError
) -> tuple[str, dict[str, Any]]:
    """
    Keep a call that is not as its tool was listed in the evidence of its session, and log it.

    Returns:
        Text and structured half of what the client is told, if the call is refused.
    """
    log.warning("a call to %r is not as its tool was listed: %s", call.tool, error)
    engine_of(session).report_unjudged(JudgedCall(call.tool, dict(call.args)), _AS_LISTED, str(error))
    return unjudged(call.tool, reason=str(error), remedy=_REMEDY)
