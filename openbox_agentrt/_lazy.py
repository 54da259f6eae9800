"""Public names of a package whose modules are loaded when a name is first used."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Each hook is a process that starts with this module, and `typing` takes longer to load than it does.
    from collections.abc import Mapping
    from typing import Any

__all__ = ("load_name",)


def load_name(package: dict[str, Any], home: Mapping[str, str], name: str) -> Any:
    """
    Load a name of a package, and keep it there, so that it is looked up once.

    Args:
        package: The package's globals.
        home: The module of each name, from the package.

    Raises:
        AttributeError: The package has no such name.
    """
    module = home.get(name)
    if module is None:
        raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
    value = package[name] = getattr(import_module(f".{module}", package["__name__"]), name)
    return value
