"""Imports point one way: down this list, imports for types and imports inside functions included."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

import openbox_agentrt

PACKAGE = Path(openbox_agentrt.__file__).parent

LAYERS = [
    {"cli", "demo"},
    {"console"},
    {"doors", "testing"},
    {"governance"},
    {"_loop"},
    {"_activity"},
    {"_run"},
    {"_core"},
    {"lifecycle_events", "message_extraction"},
    {"_wire"},
    {"options", "_options"},
    {"errors", "_errors"},
    {"traces"},
    {"acel"},
    {"fleet"},
    {"evidence"},
    {"decision"},
    {"_plain"},
    {"_files"},
    {
        "_breaker",
        "_extras",
        "_halt",
        "_ids",
        "_lazy",
        "_loopback",
        "_picklable",
        "_primitives",
        "_values",
        "_version",
        "_webhook",
    },
]
"""What a part imports stands in its own row or below it."""

LOCAL_CORE_MAY_USE = {"_plain", "_files", "evidence", *LAYERS[-1]}
LOCAL_CORE_USERS = {"cli", "console", "demo", "testing", "governance"}
"""`local_core` stands beside the list: only these import it, and it imports no part that governs."""

THIRD_PARTY_BARRED = {
    "acel": {"agent_rt", "openbox_core", "httpx"},
    "evidence": {"agent_rt", "openbox_core", "httpx"},
    "fleet": {"agent_rt", "openbox_core", "httpx"},
    "local_core": {"openbox_core", "httpx"},
    "traces": {"agent_rt", "openbox_core", "httpx"},
}
"""Engine and evidence are useful without an agent runtime and without Core; a local Core serves any SDK."""

UPWARD = {
    ("acel.adapters", "doors"): "acel-core's module name; the door is elsewhere",
    ("acel.cli", "cli"): "acel-core's module name; the command line is elsewhere",
    ("acel.hooks", "doors"): "acel-core's module name; the door is elsewhere",
    ("acel.mcp_middleware", "doors"): "acel-core's module name; the door is elsewhere",
}
"""The only imports that go up."""

ROOMS = {
    "acel.analysis": (
        [
            "mining",
            "difference",
            "analyse",
            "investigation",
            "findings",
            "questions",
            "filling",
            "search",
            "calls",
            "rules",
            "patterns",
            "conditions",
            "budget",
            "named",
            "sentences",
        ]
    ),
    "acel.engine": [
        "rerun",
        "durable",
        "replay",
        "snapshot",
        "engine",
        "journal",
        "call",
        "store",
        "fleet",
        "plan",
        "record",
    ],
}
"""The rooms of the two largest folders: what a room imports stands in it or after it."""


def part_of(module: str) -> str:
    """The part of the package that ``a.b.c`` belongs to, also for a name of the public door."""
    module = openbox_agentrt._HOME.get(module, module)
    return module.split(".")[0]


def rank(part: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if part in layer)


def modules(root: Path) -> dict[str, Path]:
    """Every module of a package, by its name from the root; a package has the name of its folder."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


@cache
def imports(root: Path) -> Mapping[str, frozenset[str]]:
    """What each module imports: own modules from the root, after a dot; others by their first name."""
    known = modules(root)
    return {name: frozenset(_imports_of(path, root, known)) for name, path in known.items()}


def _imports_of(path: Path, root: Path, known: Mapping[str, Path]) -> Iterator[str]:
    package = path.relative_to(root).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (_own_or_first(alias.name, root) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            target = _own_or_first(node.module or "", root)
            yield from _named(target, node, known) if target.startswith(".") else [target]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            yield from _named("." + ".".join([*base, *filter(None, [node.module])]), node, known)


def _own_or_first(module: str, root: Path) -> str:
    first, _, rest = module.partition(".")
    return f".{rest}" if first == root.name else first


def _named(target: str, node: ast.ImportFrom, known: Mapping[str, Path]) -> Iterator[str]:
    # `from .a import b` names the module a.b where there is one, and otherwise something in a.
    for alias in node.names:
        module = f"{target}.{alias.name}".replace("..", ".")
        yield module if module[1:] in known or target == "." else target


def own_imports(root: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a module of the package and a module of the package that it imports."""
    for name, imported in imports(root).items():
        yield from ((name, other[1:]) for other in imported if other.startswith("."))


def breaches(root: Path) -> set[tuple[str, str]]:
    """Imports that go up, or into `local_core` from where it must not be known."""
    found = set()
    for name, imported in own_imports(root):
        here, there = part_of(name), part_of(imported)
        if here in ("", there) or not there or there == "__version__":
            continue
        if here == "local_core":
            allowed = there in LOCAL_CORE_MAY_USE
        elif there == "local_core":
            allowed = here in LOCAL_CORE_USERS
        else:
            allowed = rank(there) >= rank(here)
        if not allowed:
            found.add((name, there))
    return found


def upward_between_rooms(root: Path, folder: str, rooms: Sequence[str]) -> set[tuple[str, str]]:
    """Imports from a room of a folder into one that stands before it, or that has no place."""
    found = set()
    for name, imported in own_imports(root):
        if not (name.startswith(f"{folder}.") and imported.startswith(f"{folder}.")):
            continue
        here, there = (module.removeprefix(f"{folder}.").split(".")[0] for module in (name, imported))
        if here not in rooms or there not in rooms or rooms.index(there) < rooms.index(here):
            found.add((name, imported))
    return found


def circles(root: Path) -> set[frozenset[str]]:
    """Groups of modules each of which imports, over some way, every other one of its group."""
    graph = {
        name: {other[1:] for other in imported if other.startswith(".")}
        for name, imported in imports(root).items()
    }
    reached = {}
    for start in graph:
        seen: set[str] = set()
        left = [other for other in graph[start] if other != start]
        while left:
            module = left.pop()
            if module not in seen:
                seen.add(module)
                left.extend(graph.get(module, ()))
        reached[start] = seen
    return {frozenset(b for b in reached[a] if a in reached.get(b, ())) for a in graph if a in reached[a]}


def test_every_part_has_its_place() -> None:
    """A new module or folder has to be put into the list before anything imports it."""
    parts = {part_of(name) for name in modules(PACKAGE) if name}

    assert len(parts) > 15, "found hardly any parts: this test would pass without checking anything"
    assert parts - set().union(*LAYERS) == {"local_core"}


def test_imports_point_down() -> None:
    """Nothing below knows what stands above, but for the exceptions in the list."""
    pairs = list(own_imports(PACKAGE))

    assert len(pairs) > 200, "found hardly any imports: this test would pass without checking anything"
    assert breaches(PACKAGE) - UPWARD.keys() == set()


@pytest.mark.parametrize("folder", sorted(ROOMS))
def test_rooms_point_down(folder: str) -> None:
    """Within a folder of many rooms, too, each room can be read after those that it imports."""
    assert upward_between_rooms(PACKAGE, folder, ROOMS[folder]) == set()
    assert upward_between_rooms(PACKAGE, folder, ROOMS[folder][::-1]), "found no imports between rooms"


def test_no_exception_is_stale() -> None:
    """An exception that is not used any more would let a new breach pass."""
    assert UPWARD.keys() <= breaches(PACKAGE)


def test_nothing_stands_in_a_circle() -> None:
    """A module can be read after those it imports, so it is imported by none of them."""
    assert circles(PACKAGE) == set()


@pytest.mark.parametrize("part", sorted(THIRD_PARTY_BARRED))
def test_what_is_useful_alone_stands_alone(part: str) -> None:
    """It imports neither Core's SDK nor, but for the detector of a local Core, the agent runtime."""
    imported = {
        module.split(".")[0]
        for name, names in imports(PACKAGE).items()
        if part_of(name) == part
        for module in names
        if not module.startswith(".")
    }

    assert imported, "found no imports: this test would pass without checking anything"
    assert imported & THIRD_PARTY_BARRED[part] == set()


@pytest.mark.parametrize(
    ("where", "line", "breach"),
    [
        pytest.param("_run/x.py", "from .._loop import loop", ("_run.x", "_loop"), id="up"),
        pytest.param(
            "_run/x.py",
            "def f():\n    from ..governance import y",
            ("_run.x", "governance"),
            id="in a function",
        ),
        pytest.param(
            "_core/x.py", "from .. import governance", ("_core.x", "governance"), id="a whole module"
        ),
        pytest.param(
            "local_core/x.py", "from ..errors import E", ("local_core.x", "errors"), id="out of local_core"
        ),
        pytest.param(
            "_loop/x.py", "from ..local_core import L", ("_loop.x", "local_core"), id="into local_core"
        ),
        pytest.param("errors.py", "from ._run.state import R", ("errors", "_run"), id="from a module"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, where: str, line: str, breach: tuple[str, str]) -> None:
    """The check itself: each kind of wrong import is seen."""
    path = tmp_path / where
    path.parent.mkdir(exist_ok=True)
    path.write_text(line, encoding="utf-8")

    assert breaches(tmp_path) == {breach}


def test_imports_for_types_count(tmp_path: Path) -> None:
    """A reader follows them like any other."""
    path = tmp_path / "_core" / "x.py"
    path.parent.mkdir()
    path.write_text("if TYPE_CHECKING:\n    from .._run.state import RunState\n", encoding="utf-8")

    assert breaches(tmp_path) == {("_core.x", "_run")}


def test_a_circle_is_found(tmp_path: Path) -> None:
    """Also one that is closed by an import for types, or by one inside a function."""
    (tmp_path / "a.py").write_text("from .b import x", encoding="utf-8")
    (tmp_path / "b.py").write_text("def f():\n    from .c import y", encoding="utf-8")
    (tmp_path / "c.py").write_text("if TYPE_CHECKING:\n    from . import a", encoding="utf-8")
    (tmp_path / "d.py").write_text("from .a import z", encoding="utf-8")

    assert circles(tmp_path) == {frozenset("abc")}


EVERY_TREE = tuple(ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))


def test_a_class_name_stands_once() -> None:
    """One idea, one name, one place: who searches for a name finds what it means."""
    names = Counter(
        node.name
        for tree in EVERY_TREE
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert len(names) > 500, "found hardly any classes: this test would pass without checking anything"
    assert [name for name, times in names.items() if times > 1] == []


MOST_LINES = 400
"""Lines that a module may have. The longest is just below it, and the number only gets smaller."""


def too_long(root: Path) -> dict[str, int]:
    """Modules of more lines than one reads in a sitting, with comments and blanks."""
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules(root).items()
    }
    return {name: lines for name, lines in lengths.items() if lines > MOST_LINES}


def test_no_module_is_long() -> None:
    """What does not fit is two things, and the second one gets a name."""
    assert too_long(PACKAGE) == {}


def test_a_long_module_is_found(tmp_path: Path) -> None:
    """One line more is too many, whatever stands in it."""
    (tmp_path / "a.py").write_text("\n" * MOST_LINES, encoding="utf-8")
    (tmp_path / "b.py").write_text("# said\n" * (MOST_LINES + 1), encoding="utf-8")

    assert too_long(tmp_path) == {"b": MOST_LINES + 1}


def is_clause(docstring: str) -> bool:
    """A first sentence without a head: what is there is not said."""
    return re.match(r"(What|Whether|How|Who|Where|Why|When)\b", docstring.strip()) is not None


def is_headless(docstring: str) -> bool:
    """A first sentence that is a clause, or of three words, says nothing without the name above it."""
    first = re.split(r"(?<=[.:])\s", docstring.strip())[0]
    return is_clause(first) or len(first.split()) < 4


def test_modules_say_what_they_do() -> None:
    """The docstring of a module or a folder begins with what is done in it, or with what stands there."""
    said = {
        name: ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        for name, path in modules(PACKAGE).items()
    }

    assert is_clause("What is asked.")
    assert not is_clause("Whatever is asked, answer it.")
    assert len(said) > 100
    assert sorted(name for name, text in said.items() if not text or is_clause(text)) == []


def test_docstrings_begin_with_a_sentence() -> None:
    """All but one in fifty have a subject and a verb, or an imperative."""
    docstrings = [
        text
        for tree in EVERY_TREE
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
    ]
    headless = list(filter(is_headless, docstrings))

    assert is_headless("Whether it holds.")
    assert is_headless("One more.")
    assert not is_headless("Tell whether it holds.")
    assert len(headless) < len(docstrings) / 50, headless
