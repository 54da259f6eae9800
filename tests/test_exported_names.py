"""What a module lists in ``__all__`` is what it offers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import openbox_agentrt

ROOT = Path(openbox_agentrt.__file__).parent


def names_of_modules() -> Iterator[str]:
    for path in sorted(ROOT.rglob("*.py")):
        if "\n__all__ = " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__")


MODULES = list(names_of_modules())


def defined_in(module: ModuleType) -> set[str]:
    """Public functions and classes that a module defines itself."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }


def test_modules_were_found() -> None:
    """The search itself works: the doors and the modules behind them are there."""
    assert len(MODULES) > 60
    assert {"openbox_agentrt", "openbox_agentrt.acel", "openbox_agentrt.errors"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_what_is_listed_is_there_and_what_is_there_is_listed(name: str) -> None:
    """The list is a tuple, each of its names can be looked up, and no public definition is missing."""
    module = import_module(name)

    assert isinstance(module.__all__, tuple)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [listed for listed in module.__all__ if not hasattr(module, listed)] == []
    assert defined_in(module) - set(module.__all__) == set()
