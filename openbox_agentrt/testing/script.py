"""The answers of a scripted model, in their order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .._picklable import PicklableError

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]


class ScriptExhaustedError(PicklableError, AssertionError):
    """The model was called more often than the script has answers. No answer was given."""

    def __init__(self, *, calls: int, steps: int) -> None:
        self.calls = calls
        self.steps = steps
        super().__init__(f"the model was called {calls} times, but the script has {steps} answers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    Script a tool call that the model asks for.

    Attributes:
        name: Name of the tool.
        arguments: Its arguments. A string is sent as it is, so that broken JSON can be scripted.
        id: Id of the call; ``None`` takes the next free ``call_<n>`` of the script.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """
    Script one answer of the model.

    Attributes:
        text: What the model says; may be empty.
        calls: Tool calls that it asks for.
        reasoning: Reasoning text, streamed before the answer where a stream is asked for.
        input_tokens: Tokens of the request, as usage reports them; ``None`` reports no usage.
        output_tokens: Tokens of the answer, likewise.
        finish_reason: Why the model stopped; ``None`` derives it from `calls`.
        delay_seconds: Time that passes before the first byte of the answer.
        chunk_delay_seconds: Time that passes before every further part of a stream.
        error: Raised instead of an answer, after the delay.
        error_after_chunks: With `error`, the number of parts a stream yields before it is raised.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    input_tokens: int | None = 10
    output_tokens: int | None = 5
    finish_reason: FinishReason | None = None
    delay_seconds: float = 0.0
    chunk_delay_seconds: float = 0.0
    error: BaseException | None = None
    error_after_chunks: int = 0

    @property
    def finish(self) -> FinishReason:
        if self.finish_reason is not None:
            return self.finish_reason
        return "tool_calls" if self.calls else "stop"


Step = str | Call | Reply | BaseException
Respond = Callable[[Any], Step]


def as_reply(step: Step) -> Reply:
    """Make the reply that a step of a script stands for."""
    if isinstance(step, Reply):
        return step
    if isinstance(step, str):
        return Reply(text=step)
    if isinstance(step, Call):
        return Reply(calls=(step,))
    if isinstance(step, BaseException):
        return Reply(error=step)
    raise TypeError(f"a step is a str, Call, Reply or exception, not {type(step).__name__}")


class Script:
    """
    Give answers in order. Safe to use from several threads.

    A step is a text, a `Call`, a `Reply`, an exception to raise, or a callable that gets the request
    and returns one of those. `respond` answers every request that has no step of its own.
    """

    def __init__(self, steps: tuple[Step | Respond, ...], respond: Respond | None = None) -> None:
        self._steps = steps
        self._respond = respond
        self._lock = threading.Lock()
        self._taken = 0
        self._call_ids = 0

    @property
    def remaining(self) -> int:
        """Count the steps that no request has used yet."""
        return max(0, len(self._steps) - self._taken)

    def next(self, request: Any) -> Reply:
        """
        Give the answer to `request`.

        Raises:
            ScriptExhaustedError: Every step was used, and there is no `respond`.
        """
        with self._lock:
            index = self._taken
            self._taken += 1
        if index < len(self._steps):
            step = self._steps[index]
        elif self._respond is not None:
            step = self._respond
        else:
            raise ScriptExhaustedError(calls=index + 1, steps=len(self._steps))
        return self._with_call_ids(as_reply(step(request) if callable(step) else step))

    def _with_call_ids(self, reply: Reply) -> Reply:
        if all(call.id is not None for call in reply.calls):
            return reply
        calls = []
        with self._lock:
            for call in reply.calls:
                if call.id is None:
                    self._call_ids += 1
                    call = replace(call, id=f"call_{self._call_ids}")
                calls.append(call)
        return replace(reply, calls=tuple(calls))


def chunks_of(text: str) -> list[str]:
    """Split `text` into the parts that a stream yields: one word each, joined they are `text` again."""
    parts: list[str] = []
    for word in text.split(" "):
        parts.append(word if not parts else " " + word)
    return [part for part in parts if part]
