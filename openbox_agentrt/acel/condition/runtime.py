"""The CEL runtime: the environment that conditions are compiled in, and the one call that evaluates them."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..._extras import require
from ..match.paths import FieldError
from . import values
from .source import VARIABLES, ConditionError

_ERROR = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'.*")
# What the runtime says of values has their names in it, and they may be values themselves.
_TOLD = (
    ("Key not found in map", "a field that it reads is missing"),
    ("No matching overloads found", "a value is of the wrong type"),
    ("Applying SELECT to non-message type", "a value is of the wrong type"),
    ("Invalid container type", "a value is of the wrong type"),
    ("expected integer type", "a value is of the wrong type"),
    ("OUT_OF_RANGE", "a number is out of range"),
    ("divide by zero", "it divides by zero"),
    ("modulus by zero", "it divides by zero"),
    ("invalid regular expression", "a pattern is no regular expression"),
    ("Iteration budget exceeded", "it takes too many steps"),
    ("Index error: index=", "a list is shorter than it reads"),
    ("cannot convert", "a value cannot be converted"),
    ("conversion failed", "a value cannot be converted"),
    ("Type conversion error", "a value cannot be converted"),
)
MAX_TEXT = 4096


class Lookup(Protocol):
    """Find facts for the condition that is being evaluated."""

    def fact(self, name: str, key: Any) -> Mapping[str, Any]: ...

    def known(self, name: str, key: Any) -> bool: ...


class _Asked(threading.local):
    """Hold who answers the functions of the evaluation that runs in this thread."""

    lookup: Lookup | None = None
    problem: str | None = None

    def begin(self, lookup: Lookup) -> None:
        """Answer for another evaluation from now on."""
        self.lookup, self.problem = lookup, None


_asked = _Asked()


class Program:
    """A condition that is ready to be evaluated, by any number of threads."""

    __slots__ = ("_expression",)

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def ask(self, data: Mapping[str, Any], lookup: Lookup) -> bool | str:
        """
        Evaluate the condition over the data of a call.

        Returns:
            Whether it holds; or, as text, why that cannot be told, without a value of the data.
        """
        _asked.begin(lookup)
        try:
            answer: Any = self._expression.eval(data=data).value()
        except Exception as error:  # noqa: BLE001 - fail-closed: what cannot be evaluated does not hold
            answer = str(error)
        finally:
            _asked.lookup = None
        if answer is True or answer is False:
            return bool(answer)
        return _asked.problem or _told(answer)


@functools.lru_cache(maxsize=4096)
def check(text: str) -> None:
    """
    Accept a condition that CEL understands.

    Raises:
        ConditionError: It does not, or the condition can be neither true nor false.
        MissingExtraError: The CEL runtime is not installed.
    """
    if len(text) > MAX_TEXT:
        raise ConditionError(f"a condition has at most {MAX_TEXT} characters, got {len(text)}")
    cel, env = _checking()
    found = _compile(env, text).return_type()
    if found not in (cel.Type.BOOL, cel.Type.DYN):
        raise ConditionError(f"must be true or false, is of type {found.name().lower()}")


@functools.lru_cache(maxsize=4096)
def compiled(rewritten: str) -> Program:
    """
    Compile the text that stands for a condition that was checked, see `source`.

    Raises:
        ConditionError: It is not understood.
    """
    return Program(_compile(_evaluating()[1], rewritten))


@functools.cache
def _checking() -> tuple[Any, Any]:
    cel = require("cel_expr_python.cel", extra="conditions")
    anything = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    return cel, cel.NewEnv(variables={**_variables(cel), "facts": anything}, functions=_functions(cel))


@functools.cache
def _evaluating() -> tuple[Any, Any]:
    cel = require("cel_expr_python.cel", extra="conditions")
    functions = [*_functions(cel), *_lookups(cel)]
    return cel, cel.NewEnv(variables=_variables(cel), functions=functions)


def _variables(cel: Any) -> dict[str, Any]:
    anything = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    return {
        "args": anything,
        "subject": anything,
        "session": cel.Type.Map(cel.Type.STRING, cel.Type.INT),
        "now": cel.Type.TIMESTAMP,
    }


def _functions(cel: Any) -> list[Any]:
    some = cel.Type.List(cel.Type.DYN)
    return [
        _function(cel, "sum", cel.Type.DYN, [[some]], values.total),
        _function(cel, "distinct", cel.Type.List(cel.Type.STRING), [[some]], values.distinct),
    ]


def _lookups(cel: Any) -> list[Any]:
    text, anything = cel.Type.STRING, cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    # One signature for each kind of key: the runtime matches what it has, and nothing is of type DYN.
    keys = [[text, kind] for kind in (text, cel.Type.INT, cel.Type.DOUBLE)]
    return [
        _function(cel, "fact", anything, keys, lambda name, key: _lookup().fact(name, key)),
        _function(cel, "known", cel.Type.BOOL, keys, lambda name, key: _lookup().known(name, key)),
    ]


def _function(cel: Any, name: str, gives: Any, takes: list[list[Any]], run: Callable[..., Any]) -> Any:
    def noting(*args: Any) -> Any:
        try:
            return run(*args)
        except FieldError as error:
            _asked.problem = _asked.problem or str(error)
            raise

    overloads = [
        cel.Overload(f"{name}_{number}", return_type=gives, parameters=parameters, impl=noting)
        for number, parameters in enumerate(takes)
    ]
    return cel.FunctionDecl(name, overloads)


def _lookup() -> Lookup:
    assert _asked.lookup is not None
    return _asked.lookup


def _compile(env: Any, text: str) -> Any:
    try:
        return env.compile(text)
    except RuntimeError as error:
        raise ConditionError(_said(str(error), text)) from None


def _said(error: str, text: str) -> str:
    """Say what the compiler said, in one line and with the names that there are."""
    found = _ERROR.search(error)
    if found is None:
        return f"cannot be understood: {error.partition('[')[0].strip():.200}"
    line, column, problem = found.groups()
    unknown = _UNDECLARED.fullmatch(problem)
    if unknown is not None:
        problem = f"unknown name {unknown[1]!r}, there are {', '.join(VARIABLES)}, sum and distinct"
    where = f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"
    return f"{problem:.200} ({where})" if int(column) > 0 else f"{problem:.200}"


def _told(answer: Any) -> str:
    if not isinstance(answer, str):
        return f"it is {values.told_kind(answer)}, not true or false"
    return next((told for said, told in _TOLD if said in answer), "it cannot be evaluated")
