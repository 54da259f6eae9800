"""
One compiled policy, evaluated by regopy.

regopy keeps every text in the form in which JSON would write it: a policy's ``"\\n"`` is a backslash and an
``n``. Its functions disagree about that form. Comparisons need the input in the same form; regular
expressions, ``count`` and ``substring`` need the characters themselves. So an input is given in one of two
readings, ``escaped`` or ``plain``; for a text without quotes, backslashes and control characters they are
the same. `ambiguous` says for which inputs they are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..._extras import require
from .source import PolicyError, RegoSource

Reading = Literal["escaped", "plain"]

SESSION_KEY = "$session"
_SESSION_MODULE = "package session\n" + "".join(
    f'\n{name} := input["{SESSION_KEY}"].{name}\n' for name in ("events", "missing", "totals")
)
_FIRST_ERROR = re.compile(r"\(error \d+:policy\.rego\|(\d+)\|\d+\s+\(errormsg \d+:([^)]*)\)")
_INT64 = 2**63
_NEEDS_ESCAPE = re.compile(r'["\\\x00-\x1f]')


@dataclass(frozen=True, slots=True)
class Failure:
    """An evaluation that came to nothing."""

    message: str


class _Undefined:
    """The value of a rule none of whose conditions hold."""


UNDEFINED = _Undefined()


class RegoEngine:
    """
    A policy, compiled once.

    Not safe to use from several threads at a time.

    Raises:
        MissingExtraError: regopy is not installed.
        PolicyError: The policy is not Rego; names the line.
    """

    def __init__(self, source: RegoSource) -> None:
        regopy = require("regopy", extra="local")
        self._shared = require("regopy.rego_shared", extra="local")
        self._kinds = regopy.NodeKind
        self._input = regopy.Input
        self._interpreter = regopy.Interpreter()
        # It would write to stderr and, strict, still go on with an undefined value where a function fails.
        self._interpreter.log_level = regopy.LogLevel.NONE
        self._interpreter.strict_built_in_errors = True
        try:
            self._interpreter.add_module("policy.rego", source.text)
            if source.uses_session:
                self._interpreter.add_module("session.rego", _SESSION_MODULE)
            self._bundle = self._interpreter.build(f"data.{source.package}.result")
        except regopy.RegoError as error:
            raise _syntax_error(source, str(error)) from error

    def evaluate(self, event: Mapping[str, Any], reading: Reading) -> Any:
        """Evaluate ``result`` for `event`: its value, `UNDEFINED`, or a `Failure`."""
        interpreter, shared = self._interpreter, self._shared
        if reading == "plain":
            interpreter.set_input(self._input(_plain(event)))
        elif _has_exact_numbers(event):
            interpreter.set_input(self._input(_escaped(event)))
        else:
            # Slower, and exact: the other way wraps large integers and rounds fractions.
            interpreter.set_input_term(json.dumps(event, ensure_ascii=False))
        output = shared.rego_bundle_query(interpreter._impl, self._bundle._impl)
        try:
            if shared.rego_output_string(output) == "undefined":
                return UNDEFINED
            return self._value(shared.rego_output_node(output))
        except _ErrorInOutput as broken:
            return Failure(str(broken))
        finally:
            shared.rego_free_output(output)

    def _value(self, node: Any) -> Any:
        shared, kinds = self._shared, self._kinds
        kind = shared.rego_node_type(node)
        children = [shared.rego_node_get(node, index) for index in range(shared.rego_node_size(node))]
        if kind in (kinds.Error, kinds.ErrorSeq):
            raise _ErrorInOutput(self._message(node))
        if kind == kinds.Object:
            pairs = [[shared.rego_node_get(child, index) for index in (0, 1)] for child in children]
            return {str(self._value(key)): self._value(value) for key, value in pairs}
        if kind in (kinds.Array, kinds.Set):
            return [self._value(child) for child in children]
        if children:
            # Results, Result, Terms, Term and Scalar wrap the value; a result's second child holds bindings.
            return self._value(children[0])
        return self._leaf(kind, node)

    def _leaf(self, kind: int, node: Any) -> Any:
        kinds = self._kinds
        text = self._shared.rego_node_value(node)
        if kind == kinds.String:
            return _unescaped(text)
        if kind == kinds.Int:
            return int(text)
        if kind == kinds.Float:
            return float(text)
        if kind in (kinds.Boolean, kinds.True_, kinds.False_):
            return text == "true"
        if kind == kinds.Null:
            return None
        raise _ErrorInOutput(f"a value of an unknown kind ({int(kind)})")

    def _message(self, node: Any) -> str:
        shared = self._shared
        if shared.rego_node_type(node) == self._kinds.ErrorMessage:
            return str(shared.rego_node_value(node))
        for index in range(shared.rego_node_size(node)):
            message = self._message(shared.rego_node_get(node, index))
            if message:
                return message
        return ""


class _ErrorInOutput(Exception):
    """The output holds an error where a value should be."""


def ambiguous(value: Any) -> bool:
    """Tell whether the two readings of `value` differ."""
    if isinstance(value, str):
        return _NEEDS_ESCAPE.search(value) is not None
    if isinstance(value, Mapping):
        return any(ambiguous(key) or ambiguous(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(ambiguous, value))
    return False


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)[1:-1] if _NEEDS_ESCAPE.search(value) else value
    if isinstance(value, Mapping):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        # A text would end at a NUL.
        return value.replace("\0", "\ufffd")
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return 1e300 if value > 0 else -1e300
    return value


def _has_exact_numbers(value: Any) -> bool:
    if isinstance(value, int):
        return -_INT64 <= value < _INT64
    if isinstance(value, float):
        return float(f"{value:.6f}") == value
    if isinstance(value, Mapping):
        return all(map(_has_exact_numbers, value.values()))
    if isinstance(value, list):
        return all(map(_has_exact_numbers, value))
    return True


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        # In the plain reading a text may hold characters that JSON would escape.
        return text


def _syntax_error(source: RegoSource, said: str) -> PolicyError:
    found = _FIRST_ERROR.search(said)
    if found is None:
        return source.error("is not Rego")
    return source.error_at(int(found[1]), found[2].strip().lower())
