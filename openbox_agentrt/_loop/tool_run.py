"""Take one tool call that was judged to its handler, and what it gives back to the model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent_rt import ToolCall, ToolTimeoutError, marshal_tool_result

from .._activity.binding import Binding
from .._activity.decide import decide_again
from .._activity.judged_input import JudgedInput, own_copy, snapshot
from .._activity.outputs import WITHHELD, expects_answer, seen
from .._activity.request import tool_request
from .._run.redaction.mutable_parts import serialized
from .._wire.model_input import content_elements
from ..acel.outcome import outcome_of
from ..errors import GovernanceBlockedError
from .denial import withheld

if TYPE_CHECKING:
    from .._activity.activity import Activity
    from .._run.state import RunState

log = logging.getLogger(__name__)

Work = Callable[..., Awaitable[Any]]


class ToolRun:
    """
    Take a tool call that was judged to its handler.

    What was judged, and what a person approved, is what runs. Between the gate and the handler stand hooks
    and guardrails of the user, which may rewrite the arguments, and an approval may take an hour in which
    somebody changes them in place. So they are compared once more at the last moment, and judged again if
    they differ.

    Args:
        shared: Whether what was judged is handed to others, who may change it.
    """

    _clock: asyncio.Timeout | None = None
    _failure: BaseException | None = None

    def __init__(self, activity: Activity, call: ToolCall, *, side_effect: str | None, shared: bool) -> None:
        self.activity = activity
        self.name = call.name
        self._id = call.id
        self._side_effect = side_effect
        self._judged = JudgedInput(activity.content, shared=shared)

    async def run(self, work: Work, arguments: Mapping[str, Any], *more: Any) -> Any:
        """Do `work` with `arguments`, once it is sure that they are what was judged, and with `more`."""
        activity = self.activity
        request = activity.request
        if not self._judged.is_same(arguments):
            arguments = await self._judge_again(arguments)
        activity.ran = True
        self._failure = None
        try:
            if activity.request is request:
                return await work(arguments, *more)
            with Binding(activity):  # nested work belongs to the new row
                return await work(arguments, *more)
        except BaseException as error:
            # Whoever called this may make a value of it: see `end`.
            self._failure = error
            raise

    async def end(self, value: Any) -> Any:
        """
        Report what the call gave, and give what may be seen of it.

        A handler that raised has failed, also where Agent-RT makes a value of that for the model.

        Raises:
            ContractRefusedError: The result breaks a postcondition and must not be used.
        """
        activity, failure = self.activity, self._failure
        # The model reads it again with every turn. A tool that gives its own list goes on changing it.
        given, value = value, own_copy(value)
        # What cannot be copied is somebody else's as well.
        held = (value,) if value is given and type(value) is not str else ()
        before = serialized(held) if held else b""
        hook = activity.run.services.options.outcomes.get(self.name)
        outcome = "failed" if failure is not None else outcome_of(value, hook)
        answer = await activity.complete(value, result=value, outcome=outcome, error=failure)
        shown = seen(activity, value, answer)
        if shown is WITHHELD:
            return remember_result(activity.run, self._id, withheld(self.name))
        if (answer is not None or not expects_answer(activity)) and (not held or serialized(held) == before):
            # Core has been told, or nobody wants it to be, and nobody has changed it meanwhile.
            remember_result(activity.run, self._id, shown)
        return shown

    async def within(self, seconds: float, work: Callable[[], Awaitable[Any]]) -> Any:
        """
        Do `work` in the tool's own time, which begins only now: judges and people have all the time they
        need.

        Raises:
            ToolTimeoutError: As Agent-RT would.
        """
        try:
            async with asyncio.timeout(seconds) as self._clock:
                return await work()
        except TimeoutError as error:
            self._failure = ToolTimeoutError(self.name, seconds)
            raise self._failure from error

    async def _judge_again(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Have other arguments judged, and give those to use: these, or a redacted copy."""
        log.info("the arguments of %r were changed after they were judged; judging them again", self.name)
        activity = self.activity
        copied, _ = snapshot(arguments)
        request = tool_request(activity.run, self.name, copied, side_effect=self._side_effect)
        with self._stopped_clock():
            await decide_again(activity, request)
        self._judged = JudgedInput(activity.content, shared=True)
        if activity.is_redacted():
            arguments = activity.content
        if not self._judged.is_same(arguments):
            # Somebody changed them while they were judged again, and would go on doing so.
            activity.denied = GovernanceBlockedError(
                "its arguments change while they are judged", event=self.name
            )
            raise activity.denied
        return arguments

    @contextmanager
    def _stopped_clock(self) -> Iterator[None]:
        """Let no time of the tool's own pass in a ``with`` block, unless it fails."""
        clock = self._clock
        when = None if clock is None else clock.when()
        if clock is None or when is None:
            yield
            return
        left = when - asyncio.get_running_loop().time()
        clock.reschedule(None)
        yield
        clock.reschedule(asyncio.get_running_loop().time() + left)


def remember_result(run: RunState, call_id: str, value: Any) -> Any:
    """Note what the model will be given as the result of a tool, and return it."""
    seen_value, seen_id = run.redactions.value(value), run.redactions.value(call_id)
    if type(seen_value) is dict and seen_id:
        # As below; Agent-RT takes longer to find that it is no sequence than all the rest does.
        run.judged.remember([{"role": "tool", "json": seen_value, "tool_call_id": seen_id}])
    else:
        content = marshal_tool_result(seen_value)
        run.judged.remember(content_elements("tool", content, call_id=seen_id))
    return value
