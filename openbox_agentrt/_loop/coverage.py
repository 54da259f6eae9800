"""
A report about a loop: which of its parts are governed, and which other paths escape.

Governance stands in a loop's provider, registry and executor. Work that a user's code does by another way -
a second provider in an attribute, a sub-agent's own loop inside a handler, a method patched on an instance
- is found here as far as attributes, closures and bound methods tell. What is reached through a global, a
database or another process is not found by looking, which is said as well.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent_rt import AgentLoop, Toolbase, ToolProgramExecutor, ToolRegistry

from .attributes import PARTS, governing_judges
from .loop import ENTRY_POINTS
from .other_calls import JUDGED, is_asynchronous
from .stand_in import is_governed, is_judged_by, unwrap

if TYPE_CHECKING:
    from .._run.runs import Runs

EscapeKind = Literal[
    "loop",
    "provider",
    "registry",
    "executor",
    "patched method",
    "option",
    "instrumentation",
    "not on this governance",
]

GOVERN_LOOP = "use governance.govern_loop(loop), or governance.install()"

LOOK_DEPTH = 3
"""How many steps from the loop, or from a handler, an ungoverned object is looked for."""

STATEMENTS = frozenset({"sql", "query", "statement", "operation", "command", "script", "clause", "stmt"})
"""Names of the first parameter of an ``execute`` that runs no tools, as databases have it."""

LOOK_LIMIT = 5_000
"""How many objects are looked at."""

NOT_VISIBLE = (
    "handlers called directly, as in registry.get(name).handler(...)",
    "what a provider's client does when it is called past the provider, and count_tokens",
    "objects that are reached through globals, queues or other processes",
    "langchain and llamaindex agents, which use no AgentLoop: wrap their tools",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape:
    """
    Report something that acts without being judged.

    Attributes:
        path: Where it was found, as in ``loop.fallback_provider`` or ``tool 'ask_expert': loop``.
        kind: What it is.
        remedy: How to have it governed.
    """

    path: str
    kind: EscapeKind
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """
    Report how far one loop is governed.

    Attributes:
        governed: Parts of the loop that are governed.
        escapes: What was found to act without being judged.
        skipped_tools: Tools that the options leave out.
        instrumented: Libraries whose requests and queries inside an activity are judged.
        not_visible: What no look at attributes can find.
    """

    governed: tuple[str, ...]
    escapes: tuple[Escape, ...]
    skipped_tools: tuple[str, ...]
    instrumented: tuple[str, ...]
    not_visible: tuple[str, ...] = NOT_VISIBLE

    @property
    def complete(self) -> bool:
        """Tell whether nothing was found to escape."""
        return not self.escapes

    def __str__(self) -> str:
        """Write it for a person, a line for each thing."""
        lines = [
            f"governed: {', '.join(self.governed) or 'nothing'}",
            *(f"escapes: {escape.path} ({escape.kind}): {escape.remedy}" for escape in self.escapes),
            *(f"skipped: tool {tool!r}, by option 'skip_tools'" for tool in self.skipped_tools),
            f"judged inside an activity: {', '.join(self.instrumented) or 'nothing'}",
            *(f"not visible: {path}" for path in self.not_visible),
        ]
        return "\n".join(lines)


def coverage_of(loop: Any, judge: Runs, *, installed: bool, hooks: Sequence[str]) -> Coverage:
    """
    Look at `loop`, which may be governed or not.

    Args:
        installed: Whether every ``AgentLoop.run`` of the process is governed.
        hooks: Libraries whose nested I/O is judged.
    """
    if not isinstance(loop, AgentLoop):
        raise TypeError(f"coverage looks at an agent_rt.AgentLoop, not {type(loop).__name__}")
    look = _Look(judge, installed=installed)
    governed = []
    if judge in governing_judges(loop):
        for name in PARTS:
            value = getattr(loop, name, None)
            if value is not None and is_judged_by(value, judge):
                governed.append(name)
    elif installed:
        governed.append("run")
    else:
        look.found("loop", "not on this governance", GOVERN_LOOP)
    look.at_loop(loop)
    registry = unwrap(getattr(loop, "tool_registry", None))
    if registry is not None:
        look.at_registry(registry)
    escapes = [*look.escapes, *_switched_off(judge)]
    if judge.options.install_instrumentation and not hooks:
        escapes.append(
            Escape(
                path="nested HTTP requests and queries",
                kind="instrumentation",
                remedy="the hooks of the base SDK are not this governance's: close the other one first",
            )
        )
    return Coverage(
        governed=tuple(governed),
        escapes=tuple(escapes),
        skipped_tools=tuple(judge.options.skip_tools),
        instrumented=tuple(hooks),
    )


def _switched_off(judge: Runs) -> Iterator[Escape]:
    if not judge.options.asks_core:
        return  # contracts alone judge, as was asked for
    for option, what in (("send_llm_start_event", "model calls"), ("send_tool_start_event", "tool calls")):
        if not getattr(judge.options, option):
            yield Escape(path=what, kind="option", remedy=f"{option}=False switches their gate off at Core")


class _Look:
    def __init__(self, judge: Runs, *, installed: bool) -> None:
        self.escapes: list[Escape] = []
        self._judge = judge
        self._installed = installed
        self._seen: set[int] = set()

    def found(self, path: str, kind: EscapeKind, remedy: str) -> None:
        self.escapes.append(Escape(path=path, kind=kind, remedy=remedy))

    def at_loop(self, loop: Any) -> None:
        self._seen.add(id(loop))
        for name, value in vars(loop).items():
            if name in ENTRY_POINTS and not _is_own_method(value, loop):
                self.found(f"loop.{name}", "patched method", "patch the class, not the instance")
            elif name not in PARTS:
                self._at(value, f"loop.{name}", LOOK_DEPTH)
            else:
                self._at_wrapped(value, f"loop.{name}")

    def at_registry(self, registry: Any) -> None:
        if isinstance(registry, Toolbase):
            registry = registry.registry
        if "execute" in getattr(registry, "__dict__", ()):
            remedy = "arguments rewritten by the patch are not judged again: subclass instead"
            self.found("registry.execute", "patched method", remedy)
        if not isinstance(registry, ToolRegistry):
            return
        for tool in registry.list(include_disabled=True):
            for handler in (tool.handler, tool.contextual_handler):
                if handler is not None:
                    self._at(handler, f"tool {tool.name!r}", LOOK_DEPTH)
        for name, value in registry.services.items():
            self._at(value, f"registry.services[{name!r}]", LOOK_DEPTH)

    def _at_wrapped(self, value: Any, path: str) -> None:
        """A governed provider or executor may hold others; its own calls are governed as a whole."""
        if value is not None and not is_governed(value) and not self._installed:
            return  # the loop itself was reported
        inner = unwrap(value)
        if inner is None or isinstance(inner, ToolRegistry | Toolbase):
            return
        for name in JUDGED:
            if hasattr(inner, name) and not is_asynchronous(inner, name):
                remedy = f"make {name} a coroutine function: another one cannot wait for a judge"
                self.found(f"{path}.{name}", "provider", remedy)
        for part, name in _parts(inner):
            if isinstance(unwrap(part), AgentLoop | ToolRegistry | Toolbase):
                self._at(part, f"{path}{name}", LOOK_DEPTH)

    def _at(self, value: Any, path: str, depth: int) -> None:
        if id(value) in self._seen or len(self._seen) > LOOK_LIMIT or _is_toolbases_own(value):
            return
        self._seen.add(id(value))
        escape = self._escape(value)
        if escape is not None:
            self.found(path, *escape)
        elif depth > 0 and not is_governed(value) and not governing_judges(value):
            for part, name in _parts(value):
                self._at(part, f"{path}{name}", depth - 1)

    def _escape(self, value: Any) -> tuple[EscapeKind, str] | None:
        if is_governed(value) or isinstance(value, type):
            return None
        if isinstance(value, AgentLoop):
            if self._installed or governing_judges(value):
                return None
            return "loop", GOVERN_LOOP
        if isinstance(value, ToolRegistry | Toolbase):
            return "registry", "pass governed_loop.tool_registry, or governance.wrap_tool_registry(...)"
        if isinstance(value, ToolProgramExecutor):
            if is_governed(value.registry):
                return None
            return "executor", "build it with governed_loop.tool_registry"
        if inspect.iscoroutinefunction(getattr(type(value), "complete", None)):
            return "provider", "use governance.wrap_provider(...)"
        if _runs_tools(value):
            return "executor", "use governance.wrap_tool_executor(...), if it runs tools"
        return None


def _runs_tools(value: Any) -> bool:
    """Tell whether `value` looks like a tool executor. What executes statements, like a cursor, is none."""
    execute = getattr(type(value), "execute", None)
    if not inspect.iscoroutinefunction(execute):
        return False
    names = [name for name in inspect.signature(execute).parameters if name != "self"]
    return bool(names) and names[0] not in STATEMENTS


def _is_own_method(value: Any, loop: Any) -> bool:
    return inspect.ismethod(value) and value.__self__ is loop


def _is_toolbases_own(value: Any) -> bool:
    """Tell a Toolbase's own filter and search tool, which hold it and run no tools."""
    return getattr(value, "__qualname__", "").startswith(f"{Toolbase.__qualname__}.")


def _parts(value: Any) -> Iterable[tuple[Any, str]]:
    """List what `value` holds, with the names under which it does."""
    if isinstance(value, str | bytes | int | float | type | None):
        return
    if isinstance(value, Mapping):
        yield from ((item, f"[{key!r}]") for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((item, f"[{index}]") for index, item in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((item, "") for item in (value.func, *value.args, *value.keywords.values()))
    elif inspect.ismethod(value):
        yield (value.__self__, "")
        yield (value.__func__, "")
    elif inspect.isfunction(value):
        yield from _held_by_function(value)
    elif not inspect.ismodule(value) and not inspect.isbuiltin(value):
        yield from ((item, f".{name}") for name, item in getattr(value, "__dict__", {}).items())


def _held_by_function(function: Any) -> Iterable[tuple[Any, str]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield (cell.cell_contents, f": {name}")
        except ValueError:
            continue  # not assigned yet
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield from ((item, ": default") for item in defaults)
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield (wrapped, "")
