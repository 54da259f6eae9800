"""
Which requests are calls, and what the contracts see of them.

| method | tool name in contracts | arguments in contracts |
| --- | --- | --- |
| ``tools/call`` | name of the tool | its arguments |
| ``resources/read`` | ``resources/read`` | ``uri`` |
| ``prompts/get`` | ``prompts/get`` | ``name``, ``arguments`` |

Resources and prompts go by the name of their method, so that one contract can count all reads, and a matcher
on the field ``uri`` or ``name`` can single some out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .handed_over import JudgedValues

CALL = "tools/call"


NO_ALIASES: Mapping[str, str] = MappingProxyType({})


class InvalidCallError(ValueError):
    """The params of a call are not what the protocol says. It did not run; the text holds nothing of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCall:
    """
    Hold a request as the contracts see it.

    Attributes:
        tool: Name of the tool, or of the method.
        args: The arguments, by the names that contracts know.
        aliases: What the server takes instead of some of these names.
        judged: What a typed server has made of the arguments already, or None.
    """

    tool: str
    args: dict[str, Any]
    aliases: Mapping[str, str] = field(default_factory=lambda: NO_ALIASES)
    judged: JudgedValues | None = None


def read_call(method: str, params: object) -> ServerCall:
    """
    Read the params of a request whose method is in `GATEABLE`.

    Raises:
        InvalidCallError: If they are not what the protocol says.
    """
    if not isinstance(params, Mapping):
        raise InvalidCallError("the params are not an object")
    return GATEABLE[method](params)


def rewritten(
    method: str, params: Mapping[str, Any], args: Mapping[str, Any], aliases: Mapping[str, str] = NO_ALIASES
) -> dict[str, Any]:
    """Give the params of a request with other arguments, named as in a `ServerCall` with these aliases."""
    if method != CALL:
        return {**params, **args}
    return {**params, "arguments": {aliases.get(name, name): value for name, value in args.items()}}


def gated_methods(methods: Iterable[str]) -> frozenset[str]:
    """
    Check which methods are to be gated.

    Raises:
        ValueError: If one of them cannot be, or the text is one name and not a collection of names.
    """
    chosen = frozenset([methods] if isinstance(methods, str) else methods)
    unknown = sorted(chosen - GATEABLE.keys())
    if unknown:
        raise ValueError(f"gate must hold some of {sorted(GATEABLE)}, got {unknown[0]!r}")
    return chosen


def _tool_call(params: Mapping[str, Any]) -> ServerCall:
    return ServerCall(tool=_text(params, "name"), args=_object(params, "arguments"))


def _resource_read(params: Mapping[str, Any]) -> ServerCall:
    return ServerCall(tool="resources/read", args={"uri": _text(params, "uri")})


def _prompt_get(params: Mapping[str, Any]) -> ServerCall:
    return ServerCall(
        tool="prompts/get", args={"name": _text(params, "name"), "arguments": _object(params, "arguments")}
    )


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    # A URI may be an object of the client's library where no wire lies between.
    if name == "uri" and value is not None and not isinstance(value, Mapping | list | bool | int | float):
        return str(value)
    if not isinstance(value, str):
        raise InvalidCallError(f"{name!r} is not text")
    return value


def _object(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = params.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidCallError(f"{name!r} is not an object")
    return dict(value)


GATEABLE: Mapping[str, Callable[[Mapping[str, Any]], ServerCall]] = {
    CALL: _tool_call,
    "resources/read": _resource_read,
    "prompts/get": _prompt_get,
}
