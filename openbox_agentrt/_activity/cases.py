"""The cases of a run: its prompt, its model calls, its tool calls, and a user's own activities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from .._ids import new_id
from .._wire.redaction_shapes import fit_redaction
from ..lifecycle_events import (
    LLM_ACTIVITY,
    USER_PROMPT,
    activity_started,
    llm_started,
    tool_started,
    user_prompt,
)
from ..message_extraction import redacted_arguments, redacted_prompt
from .activity import Activity
from .request import Case

if TYPE_CHECKING:
    from .._run.state import RunState

TOKEN_FIELDS = ("input_tokens", "output_tokens", "total_tokens", "cost")
"""What is known of a model call only when it is over."""

DESTRUCTIVE = frozenset({"consequential", "destructive"})


def prompt_case(run: RunState, prompt: str) -> Case:
    """The user's prompt, as a signal: it has no row."""
    max_bytes = run.judge.options.max_payload_bytes
    return Case(
        event=USER_PROMPT,
        activity_id=None,
        envelope=lambda: user_prompt(run.identity, prompt, max_bytes=max_bytes),
        arguments={"prompt": prompt},
        content=prompt,
        fit=partial(redacted_prompt, prompt, max_bytes=max_bytes),
    )


def llm_activity(
    run: RunState, prompt: str, *, model: str | None = None, activity_id: str | None = None
) -> Activity:
    """
    A model call.

    Args:
        prompt: Last user text of the request; may be empty, which is no reason not to ask.
        activity_id: The id of the pre-screen; a fresh one otherwise.
    """
    options = run.judge.options
    row = activity_id or new_id()
    max_bytes = options.max_payload_bytes
    arguments = {"prompt": prompt} if model is None else {"prompt": prompt, "llm_model": model}
    case = Case(
        event=LLM_ACTIVITY,
        activity_id=row,
        envelope=(
            partial(llm_started, run.identity, row, prompt, model=model, max_bytes=max_bytes)
            if options.send_llm_start_event
            else None
        ),
        arguments=arguments,
        content=prompt,
        fit=partial(redacted_prompt, prompt, max_bytes=max_bytes),
        deferred=TOKEN_FIELDS,
    )
    return Activity(run, case, activity_type=LLM_ACTIVITY, reported=options.send_llm_end_event)


def tool_case(
    run: RunState, tool: str, arguments: Mapping[str, Any], *, side_effect: str | None, pausable: bool
) -> Case:
    """A tool call, with a fresh row."""
    options = run.judge.options
    row = new_id()
    max_bytes = options.max_payload_bytes
    return Case(
        event=tool,
        activity_id=row,
        envelope=(
            partial(
                tool_started,
                run.identity,
                row,
                tool,
                arguments,
                tool_type=options.tool_type_map.get(tool),
                side_effect=side_effect,
                max_bytes=max_bytes,
            )
            if options.send_tool_start_event
            else None
        ),
        arguments=arguments,
        content=arguments,
        fit=partial(redacted_arguments, arguments, max_bytes=max_bytes),
        destructive=side_effect in DESTRUCTIVE,
        pausable=pausable,
    )


def custom_activity(run: RunState, activity_type: str, activity_input: Iterable[Any]) -> Activity:
    """A user's own piece of work."""
    items = list(activity_input)
    row = new_id()
    max_bytes = run.judge.options.max_payload_bytes
    arguments = items[0] if len(items) == 1 and isinstance(items[0], Mapping) else {"input": items}
    case = Case(
        event=activity_type,
        activity_id=row,
        envelope=partial(activity_started, run.identity, row, activity_type, items, max_bytes=max_bytes),
        arguments=arguments,
        content=items,
        fit=partial(fit_redaction, items, max_bytes=max_bytes),
    )
    return Activity(run, case, activity_type=activity_type, reported=True)
