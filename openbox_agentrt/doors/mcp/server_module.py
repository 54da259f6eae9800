"""A module with an MCP server: how it is loaded, and what it has to give."""

import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...acel import Session
from ...evidence import EvidenceFile
from .middleware import ACELMiddleware

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


class ServerModuleError(Exception):
    """A module cannot be served. Nothing was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """
    Hold what a module's `build_server` gave.

    Attributes:
        server: The server.
        session: The session that its calls are judged in, or the gate that holds a session for each client.
        takes_mode: Whether the module let the mode be chosen.
    """

    server: "MCPServer[Any]"
    session: Session | ACELMiddleware
    takes_mode: bool


def load_module(ref: str) -> ModuleType:
    """
    Import a module by the path of its file or by its dotted name.

    The folder of a file is put on the path of imports, as if Python had been started with it.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If there is no such module.
    """
    if not ref.endswith(".py"):
        if Path(ref).exists():
            raise ImportError(f"{ref!r} is no Python file")
        return importlib.import_module(ref)
    path = Path(ref)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {ref}")
    # Under a name of its own where the file's would hide a module that is loaded: `mcp.py`, `json.py`.
    name = path.stem if path.stem not in sys.modules else f"served_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{ref} is not a module")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def build(ref: str, *, shadow: bool = False, evidence: EvidenceFile | None = None) -> Served:
    """
    Load a module, and let it build its server.

    Args:
        ref: Path of the module's file, or its dotted name.
        shadow: Ask for a session that only watches.
        evidence: What its session has to write to, given to `build_server` under this name.

    Raises:
        ServerModuleError: If the module cannot be loaded, has no `build_server`, that takes no evidence where
            there is some, or fails or gives something else.
    """
    try:
        module = load_module(ref)
    except (FileNotFoundError, ImportError) as error:
        raise ServerModuleError(str(error)) from error
    except Exception as error:
        raise ServerModuleError(f"{ref!r} cannot be loaded, it raised {_in_a_line(error)}") from error
    factory = getattr(module, "build_server", None)
    if not callable(factory):
        raise ServerModuleError(f"{ref!r} does not define build_server() -> (MCPServer, Session)")
    taken = inspect.signature(factory).parameters
    takes_mode = "mode" in taken
    given: dict[str, Any] = {"mode": "shadow" if shadow else "enforce"} if takes_mode else {}
    if evidence is not None:
        if "evidence" not in taken:
            raise ServerModuleError(
                f"build_server() of {ref!r} takes no evidence: "
                "let it take evidence=None, and give it to its Session"
            )
        given["evidence"] = evidence
    try:
        built = factory(**given)
    except Exception as error:
        raise ServerModuleError(f"build_server() of {ref!r} raised {_in_a_line(error)}") from error
    if not (isinstance(built, tuple) and len(built) == 2 and isinstance(built[1], Session | ACELMiddleware)):
        raise ServerModuleError(f"build_server() of {ref!r} must return (MCPServer, Session)")
    server, session = built
    if not hasattr(server, "run_stdio_async"):
        raise ServerModuleError(f"build_server() of {ref!r} must return (MCPServer, Session)")
    return Served(server=server, session=session, takes_mode=takes_mode)


def _in_a_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
