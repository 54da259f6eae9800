"""One call on its way through the gate: judged, run, settled."""

import logging
from typing import TYPE_CHECKING, Any

from ...acel import Reservation, Session
from .calls import CALL, Call
from .outcome import is_waiting_error, read_outcome
from .refusal import HALT, PolicyRefusalError, halted, refused_data, text_of, withheld_data

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from .governed import ClientRuns

__all__ = ("answer", "could_not_be_judged", "judged", "protocol_error")

log = logging.getLogger(__name__)


async def judged(
    session: Session,
    call: Call,
    ctx: "ServerRequestContext[Any, Any]",
    call_next: "CallNext",
    *,
    runs: "ClientRuns | None" = None,
) -> "HandlerResult":
    """
    Run a call if the contracts agree, and Core does, and settle it by what came of it.

    Returns:
        What the client gets: the handler's result, or why there is none.
    """
    reservation: Reservation | None = None
    if runs is None or not await runs.judges_by(session):
        try:
            reservation = await session.areserve(call.tool, call.args)
        except Exception as error:
            # Fail-closed: what cannot be judged does not run.
            raise could_not_be_judged(call) from error
        if reservation.refusal is not None:
            if runs is not None:
                await runs.report(session, reservation.refusal)
            return answer(ctx, text_of(reservation.refusal), refused_data(reservation.refusal))
    reached = False

    async def handle(ctx: "ServerRequestContext[Any, Any]") -> "HandlerResult":
        nonlocal reached
        reached = True
        return await call_next(ctx)

    args = None
    try:
        if runs is None:
            result = await handle(ctx)
        else:
            result, args = await runs.call(session, call, ctx, handle)
    except PolicyRefusalError as error:
        _abort(reservation, error, ran=reached)
        return answer(ctx, error.text, error.data)
    except BaseException as error:
        _abort(reservation, error, ran=reached and not is_waiting_error(getattr(error, "code", None)))
        if isinstance(error, Exception) and not reached:
            raise could_not_be_judged(call) from error
        raise
    return result if reservation is None else await _settle(reservation, ctx, result, args)


async def _settle(
    reservation: Reservation,
    ctx: "ServerRequestContext[Any, Any]",
    result: "HandlerResult",
    args: dict[str, Any] | None,
) -> "HandlerResult":
    outcome = read_outcome(ctx.method, result)
    if outcome.kind != "done":
        reservation.abort(ran=outcome.kind != "waiting")
        return result
    violation = await reservation.acommit(outcome.value, args=args)
    return result if violation is None else answer(ctx, *withheld_data(violation))


def _abort(reservation: Reservation | None, error: BaseException, *, ran: bool) -> None:
    if reservation is not None:
        reservation.abort(error, ran=ran)


def answer(ctx: "ServerRequestContext[Any, Any]", text: str, data: dict[str, Any]) -> "HandlerResult":
    """Tell the client why there is no result: in a tool's result, or as an error of the protocol."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    if ctx.method != CALL:
        # Only a tool's result can say that it is an error.
        raise protocol_error("INVALID_REQUEST", f"{HALT}{text}", data=data)
    result = halted(text, data)
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        # The SDK does not finish the answers of a middleware, and from this revision on the type is required.
        result["resultType"] = "complete"
    return result


def could_not_be_judged(call: Call) -> "MCPError":
    """What a client is told of a fault; the log is told what it was. To be called where it is handled."""
    log.exception("a call to %r could not be judged", call.tool)
    return protocol_error("INTERNAL_ERROR", f"{HALT}the call could not be judged")


def protocol_error(code: str, message: str, *, data: Any = None) -> "MCPError":
    """An error of the protocol, by the name of its code."""
    import mcp_types
    from mcp import MCPError

    return MCPError(getattr(mcp_types, code), message, data)
