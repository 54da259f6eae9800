"""Public names of a package whose modules are loaded when a name is first used."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Each hook is a process that starts with this module, and `typing` takes longer to load than it does.
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_names(
    package: dict[str, Any], home: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """
    Make the ``__getattr__`` and the ``__dir__`` of a package whose names are loaded when they are used.

    Args:
        package: The package's globals.
        home: The module of each name, from the package.
    """

    def load(name: str) -> Any:
        module = home.get(name)
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        # Kept, so that it is looked up once.
        value = package[name] = getattr(import_module(f".{module}", package["__name__"]), name)
        return value

    def names() -> list[str]:
        return sorted(package["__all__"])

    return load, names
