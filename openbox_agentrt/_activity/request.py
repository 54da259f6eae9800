"""Describe what is asked: may this prompt, model call, tool call or activity of a user's own happen?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from .._ids import new_id
from .._wire.model_input import Element, fit_elements
from .._wire.redaction_shapes import fit_redaction
from ..acel.memory.deferred import Guess
from ..lifecycle_events import (
    LLM_ACTIVITY,
    USER_PROMPT,
    activity_started,
    llm_started,
    tool_started,
    user_prompt,
)
from ..message_extraction import redacted_arguments, redacted_prompt

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

    from .._run.state import RunState
    from ..decision import Answer


TOKEN_FIELDS = ("input_tokens", "output_tokens", "total_tokens", "cost")
"""What is known of a model call only when it is over."""

UNSTATED_OUTPUT = 4096
"""Tokens that a model is taken to say at most where its request does not say."""

DESTRUCTIVE = frozenset({"consequential", "destructive"})


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """
    Describe one thing that may happen only if nobody objects. A struct, because every activity makes one.

    Attributes:
        event: ``user_prompt``, ``llm_call``, a tool name or an activity type: what Core, contracts and
            decisions call it.
        activity_id: Its row at Core; None for a signal, which has none.
        envelope: Builds the event for Core; None when that gate is switched off.
        arguments: What local contracts judge.
        content: The input itself: a prompt, or arguments.
        fit: Lays Core's redaction over such content, for `fitted`.
        max_bytes: The size from which on Core is shown a text cut, so that its redaction is cut as well.
        reported: Whether Core wants to hear of its end.
        destructive: Whether it may stay closed in an outage although Core is configured to fail open.
        deferred: Arguments that are known only afterwards, such as token counts.
        pausable: Whether the loop that runs it can stop for an approval and come back.
        owed: The answer that requires an approval which is waited for here: a prompt has no row to do so.
    """

    event: str
    activity_id: str | None
    envelope: Callable[[], EventEnvelope] | None
    arguments: Mapping[str, Any]
    content: Any
    fit: Callable[..., Any]
    max_bytes: int
    reported: bool = False
    destructive: bool = False
    deferred: Collection[str] | Mapping[str, Any] = ()
    pausable: bool = False
    owed: Answer | None = None

    def fitted(self, redacted: object) -> Any:
        """
        Lay Core's redaction over `content`: the same object when nothing changes.

        Raises:
            GovernanceUnavailableError: It does not fit.
        """
        return self.fit(self.content, redacted, max_bytes=self.max_bytes)

    def arguments_of(self, content: Any) -> Mapping[str, Any]:
        """Give what contracts see of `content`, a redacted copy of the input."""
        if isinstance(content, Mapping):
            return content
        if isinstance(content, str):
            return {**self.arguments, "prompt": content}
        if self.event == LLM_ACTIVITY:
            return {**self.arguments, **_said(content)}
        first = content[0] if isinstance(content, list) and len(content) == 1 else None
        return first if isinstance(first, Mapping) else {"input": content}


def prompt_request(run: RunState, prompt: str) -> DecisionRequest:
    """Ask for the user's prompt, as a signal: it has no row."""
    options = run.services.options
    max_bytes = options.max_payload_bytes
    # What an agent is asked by another one, no user has said.
    nested = {} if run.parent is None else {"nested": True}
    return DecisionRequest(
        event=USER_PROMPT,
        activity_id=None,
        envelope=(
            (lambda: user_prompt(run.identity, prompt, max_bytes=max_bytes)) if options.asks_core else None
        ),
        arguments={"prompt": prompt, **nested},
        content=prompt,
        fit=redacted_prompt,
        max_bytes=max_bytes,
    )


def model_request(
    run: RunState,
    prompt: str,
    others: Sequence[Element] = (),
    *,
    model: str | None = None,
    max_output_tokens: int | None = None,
    activity_id: str | None = None,
    owed: Answer | None = None,
) -> DecisionRequest:
    """
    Ask for a model call.

    Args:
        prompt: Last user text of the call; may be empty, which is no reason not to ask.
        others: What else reaches the model and has not been judged.
        max_output_tokens: The most that the model may say, where the request says so.
        activity_id: The id of the pre-screen; a fresh one otherwise.
        owed: The answer to the prompt, if that requires an approval.
    """
    options = run.services.options
    row = activity_id or new_id()
    max_bytes = options.max_payload_bytes
    elements = [{"prompt": prompt}, *others]
    return DecisionRequest(
        event=LLM_ACTIVITY,
        activity_id=row,
        envelope=(
            partial(llm_started, run.identity, row, elements, model=model, max_bytes=max_bytes)
            if options.send_llm_start_event
            else None
        ),
        arguments=_said(elements, model),
        content=elements,
        fit=fit_elements,
        max_bytes=max_bytes,
        reported=options.send_llm_end_event,
        deferred=TOKEN_FIELDS if run.contracts is None else _guessed(elements, max_output_tokens),
        owed=owed,
    )


def _guessed(elements: Sequence[Element], max_output_tokens: int | None) -> dict[str, Guess | None]:
    """Guess what a model call will be measured as: calls side by side are not to pass a budget together."""
    letters = sum(len(text) for element in elements for text in element.values() if isinstance(text, str))
    read, said = letters // 3, max_output_tokens or UNSTATED_OUTPUT
    amounts = {"input_tokens": read, "output_tokens": said, "total_tokens": read + said}
    return {name: Guess(amounts[name]) if name in amounts else None for name in TOKEN_FIELDS}


def sent_only(request: DecisionRequest) -> Mapping[str, Any] | None:
    """Say what a model call has used up that failed before anything of its answer came: what was sent."""
    sent = request.deferred.get("input_tokens") if isinstance(request.deferred, Mapping) else None
    if sent is None:
        return None
    return {"input_tokens": sent.amount, "output_tokens": 0, "total_tokens": sent.amount, "cost": 0}


def _said(elements: Sequence[Element], model: str | None = None) -> dict[str, Any]:
    """Give what contracts see of a model's input: the prompt, the other elements and the model, if any."""
    first, *others = elements
    said = dict(first)
    if others:
        said["messages"] = others
    if model is not None:
        said["llm_model"] = model
    return said


def tool_request(
    run: RunState,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    side_effect: str | None,
    activity_id: str | None = None,
) -> DecisionRequest:
    """Ask for a tool call, with a fresh row if it has none."""
    options = run.services.options
    row = activity_id or new_id()
    max_bytes = options.max_payload_bytes
    return DecisionRequest(
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
        fit=redacted_arguments,
        max_bytes=max_bytes,
        reported=options.send_tool_end_event,
        destructive=side_effect in DESTRUCTIVE,
        pausable=run.pausable,
    )


def custom_request(run: RunState, activity_type: str, activity_input: Iterable[Any]) -> DecisionRequest:
    """Ask for a user's own piece of work."""
    items = list(activity_input)
    row = new_id()
    options = run.services.options
    max_bytes = options.max_payload_bytes
    return DecisionRequest(
        event=activity_type,
        activity_id=row,
        envelope=(
            partial(activity_started, run.identity, row, activity_type, items, max_bytes=max_bytes)
            if options.asks_core
            else None
        ),
        arguments=items[0] if len(items) == 1 and isinstance(items[0], Mapping) else {"input": items},
        content=items,
        fit=fit_redaction,
        max_bytes=max_bytes,
        reported=options.asks_core,
    )
