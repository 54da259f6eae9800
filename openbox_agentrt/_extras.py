"""
Optional packages, imported where they are used.

A package that only some users need belongs to an extra. The module that needs it asks `require` for it, so
that a missing one is an error that names the extra, raised when the feature is used and not on import.
"""

from importlib import import_module
from types import ModuleType

_DISTRIBUTION = "openbox-agentrt-sdk-python"


class MissingExtraError(ImportError):
    """
    A feature was used whose optional package is not installed. Nothing was done.

    Attributes:
        package: Import name of the package that is missing, e.g. ``langchain_core``.
        extra: Extra of this distribution that installs it, e.g. ``langchain``.
    """

    def __init__(self, *, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(
            f"{package} needs the extra {extra!r}: pip install '{_DISTRIBUTION}[{extra}]'", name=package
        )

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by the default.
        return _rebuild_missing_extra, (self.package, self.extra)


def _rebuild_missing_extra(package: str, extra: str) -> MissingExtraError:
    return MissingExtraError(package=package, extra=extra)


def require(module: str, *, extra: str) -> ModuleType:
    """
    Import a module of an optional package.

    Args:
        module: Dotted name of the module, e.g. ``starlette.applications``.
        extra: Extra of this distribution that installs it.

    Returns:
        The module.

    Raises:
        MissingExtraError: If the package is not installed. An installed package that fails to import raises
            its own error: installing the extra would not help there.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module != missing and not module.startswith(f"{missing}."):
            raise
        raise MissingExtraError(package=module.partition(".")[0], extra=extra) from error
