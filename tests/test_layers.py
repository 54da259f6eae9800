"""Imports point one way: down this list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import openbox_agentrt

PACKAGE = Path(openbox_agentrt.__file__).parent

LAYERS = [
    {"cli", "demo"},
    {"doors", "testing"},
    {"factory"},
    {"governance"},
    {"_seams"},
    {"_run"},
    {"_core"},
    {"lifecycle_events", "message_extraction", "options"},
    {"_wire", "_options"},
    {"errors"},
    {"_errors"},
    {"acel"},
    {"evidence"},
    {"_extras", "_ids", "_version"},
]
"""What a part imports stands in its own row or below it."""

LOCAL_CORE_USERS = {"cli", "demo", "testing", "factory"}
"""`local_core` stands beside the list: it imports only the last row, and only these import it."""

THIRD_PARTY_BARRED = {
    "acel": {"agent_rt", "openbox_core", "httpx"},
    "evidence": {"agent_rt", "openbox_core", "httpx"},
}
"""The engine and the evidence are useful without an agent runtime and without Core."""

UPWARD = {
    ("acel.adapters", "doors"): "acel-core's module name; the door is elsewhere",
    ("acel.cli", "cli"): "acel-core's module name; the command line is elsewhere",
    ("acel.hooks", "doors"): "acel-core's module name; the door is elsewhere",
    ("acel.mcp_middleware", "doors"): "acel-core's module name; the door is elsewhere",
}
"""The only imports that go up."""


def part_of(module: str) -> str:
    """The part of the package that ``a.b.c`` belongs to, also for a name of the public door."""
    module = openbox_agentrt._HOME.get(module, module)
    return module.split(".")[0]


def rank(part: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if part in layer)


def imports_of(path: Path, root: Path) -> Iterator[str]:
    """Modules that a file imports when it runs, also inside functions; own ones from the root, with a dot."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = path.relative_to(root).parent.parts
    for node in _that_run(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            module = [*base, *(node.module.split(".") if node.module else ())]
            names = [alias.name for alias in node.names] if node.module is None else [""]
            yield from ("." + ".".join([*module, *([name] if name else [])]) for name in names)


def _that_run(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _that_run(other)
            continue
        yield child
        yield from _that_run(child)


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        if name:
            yield name, path


def own_imports(root: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a module of the package and a module of the package that it imports."""
    for name, path in modules(root):
        for imported in imports_of(path, root):
            if imported.startswith("."):
                yield name, imported[1:]


def breaches(root: Path) -> set[tuple[str, str]]:
    """Imports that go up, or into `local_core` from where it must not be known."""
    found = set()
    for name, imported in own_imports(root):
        here, there = part_of(name), part_of(imported)
        if here == there or not there or there == "py":
            continue
        if here == "local_core":
            allowed = there in LAYERS[-1]
        elif there == "local_core":
            allowed = here in LOCAL_CORE_USERS
        else:
            allowed = rank(there) >= rank(here)
        if not allowed:
            found.add((name, there))
    return found


def test_every_part_has_its_place() -> None:
    """A new module or folder has to be put into the list before anything imports it."""
    parts = {part_of(name) for name, _ in modules(PACKAGE)}

    assert len(parts) > 15, "found hardly any parts: this test would pass without checking anything"
    assert parts - set().union(*LAYERS) == {"local_core"}


def test_imports_point_down() -> None:
    """Nothing below knows what stands above, but for the exceptions in the list."""
    pairs = list(own_imports(PACKAGE))

    assert len(pairs) > 200, "found hardly any imports: this test would pass without checking anything"
    assert breaches(PACKAGE) - UPWARD.keys() == set()


def test_no_exception_is_stale() -> None:
    """An exception that is not used any more would let a new breach pass."""
    assert UPWARD.keys() <= breaches(PACKAGE)


@pytest.mark.parametrize("part", sorted(THIRD_PARTY_BARRED))
def test_engine_and_evidence_stand_on_their_own(part: str) -> None:
    """They import neither the agent runtime nor Core."""
    imported = {
        module.split(".")[0]
        for name, path in modules(PACKAGE)
        if part_of(name) == part
        for module in imports_of(path, PACKAGE)
        if not module.startswith(".")
    }

    assert imported, "found no imports: this test would pass without checking anything"
    assert imported & THIRD_PARTY_BARRED[part] == set()


@pytest.mark.parametrize(
    ("where", "line", "breach"),
    [
        pytest.param("_run/x.py", "from .._seams import loop", ("_run.x", "_seams"), id="up"),
        pytest.param(
            "_run/x.py", "def f():\n    from ..factory import y", ("_run.x", "factory"), id="in a function"
        ),
        pytest.param(
            "_core/x.py", "from .. import governance", ("_core.x", "governance"), id="a whole module"
        ),
        pytest.param(
            "local_core/x.py", "from ..errors import E", ("local_core.x", "errors"), id="out of local_core"
        ),
        pytest.param(
            "_seams/x.py", "from ..local_core import L", ("_seams.x", "local_core"), id="into local_core"
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


def test_imports_for_types_do_not_count(tmp_path: Path) -> None:
    """Under ``TYPE_CHECKING``, nothing is imported."""
    path = tmp_path / "_core" / "x.py"
    path.parent.mkdir()
    path.write_text("if TYPE_CHECKING:\n    from .._run.state import RunState\n", encoding="utf-8")

    assert breaches(tmp_path) == set()
