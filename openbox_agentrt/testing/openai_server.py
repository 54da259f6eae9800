"""A model server that speaks the OpenAI protocol and answers from a script."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from .._picklable import PicklableError
from .http_server import LoopbackServer, Request, ResponseWriter
from .script import Call, Reply, Respond, Script, ScriptExhaustedError, Step, chunks_of

_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream", "cache-control": "no-cache"}


class ModelServerError(PicklableError):
    """
    A step of a script for which the server answers with an error status. The model said nothing.

    Attributes:
        status: The status of the answer.
        retry_after: Seconds for a ``Retry-After``; ``None`` sends none.
    """

    def __init__(
        self, status: int, message: str = "the model failed", *, retry_after: int | None = None
    ) -> None:
        self.status = status
        self.message = message
        self.retry_after = retry_after
        super().__init__(f"HTTP {status}: {message}")


class OpenAIServer(LoopbackServer):
    """
    Run a real HTTP server with the chat completions of an OpenAI-compatible model: answers in one piece and
    streamed, tool calls, usage, and the list of models.

    Use it as a context manager; `environ` is what ``agent_rt.load_model`` needs to talk to it.

    Args:
        steps: What the model answers, in order: texts, `Call`, `Reply`, `ModelServerError`, or callables
            that get the decoded request and return one of those.
        respond: Answers every request that has no step of its own.
        model: Name of the only model that it has.
        api_key: The key that clients have to send.

    Attributes:
        requests: Every request for a completion, decoded, in order.
    """

    def __init__(
        self,
        *steps: Step | Respond,
        respond: Respond | None = None,
        model: str = "scripted-1",
        api_key: str = "sk-local",
    ) -> None:
        super().__init__()
        self._script = Script(steps, respond)
        self._model = model
        self._api_key = api_key
        self.requests: list[dict[str, Any]] = []

    @property
    def base_url(self) -> str:
        """Give the address that clients of OpenAI call the base URL."""
        return f"{self.url}/v1"

    @property
    def environ(self) -> dict[str, str]:
        """Give the environment variables for ``agent_rt.load_model``, and for OpenAI's own client."""
        return {
            "MODEL_PROVIDER": "openai",
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_KEY": self._api_key,
            "OPENAI_MODEL": self._model,
            "OPENAI_WEBSOCKET": "0",
        }

    @property
    def remaining(self) -> int:
        """Count the steps of the script that no request has used yet."""
        return self._script.remaining

    async def respond(self, request: Request, response: ResponseWriter) -> None:
        path = request.path.partition("?")[0]
        if request.headers.get("authorization") != f"Bearer {self._api_key}":
            await self._fail(response, ModelServerError(401, "the API key is missing or wrong"))
        elif (request.method, path) == ("GET", "/v1/models"):
            await self._send(response, {"object": "list", "data": [self._description()]})
        elif (request.method, path) == ("GET", f"/v1/models/{self._model}"):
            await self._send(response, self._description())
        elif (request.method, path) == ("POST", "/v1/chat/completions"):
            await self._complete(request, response)
        else:
            await self._fail(response, ModelServerError(404, f"there is no {request.method} {path}"))

    async def _complete(self, request: Request, response: ResponseWriter) -> None:
        try:
            asked = request.json()
        except ValueError:
            await self._fail(response, ModelServerError(400, "the body is not JSON"))
            return
        self.requests.append(asked)
        try:
            reply = self._script.next(asked)
        except ScriptExhaustedError as exhausted:
            await self._fail(response, _as_server_error(exhausted))
            return
        if reply.delay_seconds > 0:
            await asyncio.sleep(reply.delay_seconds)
        if reply.error is not None and not (asked.get("stream") and reply.error_after_chunks):
            await self._fail(response, _as_server_error(reply.error))
        elif asked.get("stream"):
            await self._stream(reply, response)
        else:
            await self._send(response, self._completion(reply))

    async def _stream(self, reply: Reply, response: ResponseWriter) -> None:
        await response.start(200, {**_EVENTS, "transfer-encoding": "chunked"})
        for sent, delta in enumerate(_deltas(reply)):
            if reply.error is not None and sent >= reply.error_after_chunks:
                await response.drop()
            if sent and reply.chunk_delay_seconds > 0:
                await asyncio.sleep(reply.chunk_delay_seconds)
            await response.write(self._chunk([{"index": 0, "delta": delta, "finish_reason": None}]))
        if reply.error is not None:
            await response.drop()
        await response.write(self._chunk([{"index": 0, "delta": {}, "finish_reason": reply.finish}]))
        if usage := _usage(reply):
            await response.write(self._chunk([], usage=usage))
        await response.write(b"data: [DONE]\n\n")
        await response.end()

    def _completion(self, reply: Reply) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.calls:
            message["tool_calls"] = [_tool_call(call) for call in reply.calls]
        choice = {"index": 0, "message": message, "finish_reason": reply.finish}
        usage = _usage(reply)
        return self._answer("chat.completion", [choice], **({"usage": usage} if usage else {}))

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        chunk = self._answer("chat.completion.chunk", choices, **more)
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    def _answer(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        told = {"id": "chatcmpl-scripted", "object": kind, "created": int(time.time()), "model": self._model}
        return {**told, "choices": choices, **more}

    def _description(self) -> dict[str, Any]:
        return {"id": self._model, "object": "model", "created": 0, "owned_by": "script"}

    async def _send(self, response: ResponseWriter, value: Any) -> None:
        await response.answer(200, _JSON, json.dumps(value).encode())

    async def _fail(self, response: ResponseWriter, error: ModelServerError) -> None:
        headers = dict(_JSON)
        if error.retry_after is not None:
            headers["retry-after"] = str(error.retry_after)
        body = {"error": {"message": error.message, "type": "scripted_error", "code": None}}
        await response.answer(error.status, headers, json.dumps(body).encode())


def _as_server_error(error: BaseException) -> ModelServerError:
    return error if isinstance(error, ModelServerError) else ModelServerError(500, str(error))


def _deltas(reply: Reply) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"content": part} for part in chunks_of(reply.text)]
    for index, call in enumerate(reply.calls):
        whole = _tool_call(call)
        arguments = whole["function"]["arguments"]
        half = len(arguments) // 2
        # In two parts, as real servers do: the first names the call, the second only goes on.
        deltas.append({"tool_calls": [{"index": index, **_with_arguments(whole, arguments[:half])}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]})
    if deltas:
        deltas[0] = {"role": "assistant", **deltas[0]}
    return deltas


def _tool_call(call: Call) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _with_arguments(call: dict[str, Any], arguments: str) -> dict[str, Any]:
    return {**call, "function": {**call["function"], "arguments": arguments}}


def _usage(reply: Reply) -> dict[str, int] | None:
    if reply.input_tokens is None and reply.output_tokens is None:
        return None
    prompt, completion = reply.input_tokens or 0, reply.output_tokens or 0
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
