"""One call on its way through the gate: judged, run, settled."""

import logging
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...acel import ContractViolation, Session
from ...acel.outcome import OutcomeHook
from ..call import GovernedCall
from ..unfit import report_unfit, report_unjudged
from .calls import CALL, ServerCall, rewritten
from .outcome import ServerReading
from .refusal import HALT, error_result, halted, off_schema, told_to_client
from .schema import OffSchemaError
from .typed import ServerArguments, UnfitForServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp import MCPError
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from .governed import ClientRuns

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stopped:
    error: Exception


async def judged(
    session: Session,
    call: ServerCall,
    ctx: "ServerRequestContext[Any, Any]",
    call_next: "CallNext",
    *,
    arguments: ServerArguments,
    runs: "ClientRuns | None" = None,
    outcome: OutcomeHook | None = None,
) -> "HandlerResult":
    """
    Run a call if the contracts agree, and Core does, and settle it by what came of it.

    Returns:
        What the client gets: the handler's result, or why there is none.
    """
    try:
        if ctx.method == CALL:
            call = await arguments.read(call, ctx, call_next)
    except UnfitForServerError as error:
        report_unfit(session, call.tool, call.args, error.fault)
        return finished(ctx, error_result(str(error)))
    except OffSchemaError as error:
        told = off_schema(session, call, error)
        if session.mode == "enforce":
            return answer(ctx, *told)
    except Exception as error:
        # Fail-closed: nobody knows what would run.
        report_unjudged(session, call.tool, call.args, error)
        raise could_not_be_judged(call) from error
    reached = False

    async def work(args: "Mapping[str, Any]") -> "HandlerResult":
        nonlocal reached
        reached = True
        if args is call.args:
            with nullcontext() if call.judged is None else call.judged.handed_over():
                return await call_next(ctx)
        return await call_next(
            replace(ctx, params=rewritten(ctx.method, ctx.params or {}, args, call.aliases))
        )

    try:
        async with AsyncExitStack() as stack:
            governed = GovernedCall(
                session=session,
                tool=call.tool,
                args=call.args,
                governance=None if runs is None else await stack.enter_async_context(runs.run_of(session)),
                reading=ServerReading(ctx.method, outcome),
                on_stop=_Stopped,
            )
            result: HandlerResult | _Stopped = await governed.arun(work)
    except Exception as error:
        if reached:
            raise
        # Fail-closed: what cannot be judged does not run.
        report_unjudged(session, call.tool, call.args, error)
        raise could_not_be_judged(call) from error
    return answer(ctx, *_told(result.error, call)) if isinstance(result, _Stopped) else result


def _told(error: Exception, call: ServerCall) -> tuple[str, dict[str, Any]]:
    if isinstance(error, ContractViolation):
        return told_to_client(error)
    from .governed import told_of_policy

    return told_of_policy(error, call.tool)


def answer(ctx: "ServerRequestContext[Any, Any]", text: str, data: dict[str, Any]) -> "HandlerResult":
    """Tell the client why there is no result: in a tool's result, or as an error of the protocol."""
    if ctx.method != CALL:
        # Only a tool's result can say that it is an error.
        raise protocol_error("INVALID_REQUEST", f"{HALT}{text}", data=data)
    return finished(ctx, halted(text, data))


def finished(ctx: "ServerRequestContext[Any, Any]", result: dict[str, Any]) -> "HandlerResult":
    """Give a result of the gate's own in the form of the client's protocol revision."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        # The SDK does not finish the answers of a middleware, and from this revision on the type is required.
        result["resultType"] = "complete"
    return result


def could_not_be_judged(call: ServerCall) -> "MCPError":
    """Make what a client is told of a fault that is being handled; the log is told what it was."""
    log.exception("a call to %r could not be judged", call.tool)
    return protocol_error("INTERNAL_ERROR", f"{HALT}the call could not be judged")


def protocol_error(code: str, message: str, *, data: Any = None) -> "MCPError":
    """Make an error of the protocol, by the name of its code."""
    import mcp_types
    from mcp import MCPError

    return MCPError(getattr(mcp_types, code), message, data)
