"""
Functions behind pydantic's `validate_call`, which makes other arguments of those that they are called with.

``"7"`` becomes 7 and what is left out its default. Contracts judge what comes of that, and it is what runs:
it is validated once, before it is judged.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any


class Validated:
    """
    Hold a function behind `validate_call`.

    Args:
        validator: Pydantic's own object behind the decorator.
        run: What runs with arguments that have been validated.
        owner: What the function is a method of, in a tuple; empty if it is none.
    """

    def __init__(self, validator: Any, run: Callable[..., Any], owner: tuple[Any, ...]) -> None:
        self.run = run
        self._owner = owner
        self._reader = copy.copy(validator)

        @functools.wraps(validator.function)
        def given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return args, kwargs

        self._reader.function = given
        self._reader.validate_return = False
        self._reader._create_validators()

    def arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """
        Give the arguments that the function runs with.

        Raises:
            pydantic.ValidationError: It does not take those that were passed.
        """
        given: tuple[tuple[Any, ...], dict[str, Any]] = self._reader(*self._owner, *args, **kwargs)
        return given


def validated(tool: str, func: Callable[..., Any]) -> Validated | None:
    """
    Look behind `validate_call`; None for any other function.

    Raises:
        TypeError: This version of pydantic keeps its validation where it cannot be found.
    """
    owner: tuple[Any, ...] = ()
    if not inspect.isroutine(func) and not inspect.isclass(func):
        func = type(func).__call__.__get__(func)
    if inspect.ismethod(func):
        owner, func = (func.__self__,), func.__func__
    layer: Any = func
    while layer is not None and not _is_validated(layer):
        layer = getattr(layer, "__wrapped__", None)
    if layer is None:
        return None
    validator = _validator_of(layer)
    if validator is None:
        raise TypeError(
            f"cannot judge what validate_call makes of the arguments of {tool!r}: put the guard inside of it"
        )
    # Under another decorator it is validated a second time: what is around it has to run.
    run = _with_result_of(validator) if layer is func else func
    return Validated(validator, run, owner)


def _is_validated(func: Any) -> bool:
    # Whatever wraps it has its attributes as well.
    if not inspect.isfunction(func) or "raw_function" not in func.__dict__:
        return False
    return func.__code__.co_filename.endswith("_validate_call.py")


def _validator_of(func: Any) -> Any:
    # NB: pydantic has no public way there.
    for cell in func.__closure__ or ():
        validator = getattr(cell.cell_contents, "__self__", None)
        if hasattr(validator, "_create_validators") and hasattr(validator, "validate_return"):
            return validator
    return None


def _with_result_of(validator: Any) -> Callable[..., Any]:
    """Give the function without the validation of its arguments; that of its result stays."""
    function: Callable[..., Any] = validator.function
    if not validator.validate_return:
        return function

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not validator.__pydantic_complete__:
            validator._create_validators()
        return validator.__return_pydantic_validator__(function(*args, **kwargs))

    return run
