"""What pages and rooms name - modules, files, commands, options - is there under that name."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import openbox_agentrt
from openbox_agentrt.cli import main

ROOT = Path(__file__).parents[2]
PACKAGE = Path(openbox_agentrt.__file__).parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
NO_MODULES = {
    "openbox_agentrt.decisions": "a logger",
    "openbox_agentrt.options.OptionArguments": "the changelog says that it is gone",
}
NO_OPTIONS = {
    "--password": "of other programs, whose secrets are hidden",
    "--quick": "of the benchmarks",
    "--signing-key": "the changelog says that it is gone",
    "--what": "the measure of the fleet",
}
UNLISTED_COMMANDS = ("hook-pretooluse", "hook-posttooluse")
NOT_IN_THE_TABLE = {"__init__.py", "_version.py", "py.typed"}


def on_pages(pattern: str) -> dict[str, set[str]]:
    """What `pattern` finds, with the pages that have it."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        for text in re.findall(pattern, page.read_text(encoding="utf-8")):
            found.setdefault(text, set()).add(page.name)
    assert found, "nothing was found: this test would pass without checking anything"
    return found


def is_there(name: str) -> bool:
    """Whether ``a.b.c`` is a module, or a name in one."""
    module, _, rest = name.partition(".")
    there: object = importlib.import_module(module)
    while rest:
        part, _, rest = rest.partition(".")
        module += f".{part}"
        if hasattr(there, part):
            there = getattr(there, part)
        else:
            try:
                there = importlib.import_module(module)
            except ImportError:
                return False
    return True


def test_modules_on_pages() -> None:
    """A dotted name of the package leads to something; exceptions are still named somewhere."""
    named = on_pages(r"(?<![\w/.-])openbox_agentrt(?:\.\w+)+")

    assert {name: pages for name, pages in named.items() if not is_there(name)}.keys() == NO_MODULES.keys()


def test_paths_on_pages() -> None:
    """A path into this repository leads to a file or a folder."""
    named = on_pages(r"`((?:openbox_agentrt|tests|docs|examples|benchmarks)/[\w./-]*)")

    assert {path: pages for path, pages in named.items() if not (ROOT / path).exists()} == {}


def test_the_architecture_names_every_part() -> None:
    """Its table has each part of the package, and no part that is not there."""
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("| folder |")[2]
    first_cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {path.rstrip("/") for cell in first_cells for path in re.findall(r"`([\w/.]+)`", cell)}
    parts = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"} - NOT_IN_THE_TABLE

    assert sorted(path for path in named if not (PACKAGE / path).exists()) == []
    assert sorted(parts - named - {"local_core"}) == []  # which stands below the table


def rooms() -> Iterator[tuple[str, str]]:
    """Each package with what its docstring puts between backticks."""
    for path in sorted(PACKAGE.rglob("__init__.py")):
        room = ".".join(path.parent.relative_to(PACKAGE.parent).parts)
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for name in re.findall(r"(?<!`)`([\w.]+)`(?!`)", said):
            yield room, name


@pytest.mark.parametrize(("room", "name"), list(rooms()))
def test_what_a_room_says_of_itself(room: str, name: str) -> None:
    """A name in the docstring of a package is in that package, or a path from the top of ours."""
    assert is_there(f"{room}.{name}") or is_there(f"openbox_agentrt.{name}") or is_there(name)


@cache
def help_of(*command: str) -> str:
    """What a command says of itself, on lines so long that no option is broken."""
    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.suppress(SystemExit),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setitem(os.environ, "COLUMNS", "300")
        main([*command, "--help"])
    return out.getvalue()


def options_of(*command: str) -> set[str]:
    return set(re.findall(r"(?<!\w)--[a-z][a-z-]*", help_of(*command)))


def commands() -> dict[str, list[str]]:
    """The commands, and those below each."""
    listed = re.findall(r"^  ([a-z][a-z-]+)  ", help_of(), re.M)
    return {
        name: re.findall(r"^  +([a-z][a-z-]+)  ", help_of(name), re.M)
        for name in (*listed, *UNLISTED_COMMANDS)
    }


def test_options_on_pages() -> None:
    """An option between backticks is one of some command; exceptions are still named somewhere."""
    known = {"--help", "--version"}
    for name, below in commands().items():
        known |= options_of(name).union(*(options_of(name, other) for other in below))

    assert set(on_pages(r"`(--[a-z][a-z-]*)")) - known == NO_OPTIONS.keys()


def test_commands_on_pages() -> None:
    """A command line between backticks, or after a prompt, names a command and its own options."""
    known = commands()
    wrong = []
    for line in on_pages(r"(?m)(?:`|^\$ )openbox-agentrt ([a-z][^`\n#|>]*)"):
        name, *words = line.split()
        said = {word.strip("[],.") for word in words if word.lstrip("[").startswith("--")}
        below = [other for other in known.get(name, ()) if words[:1] in ([other], ["..."])]
        own = {"--help"}.union(options_of(name), *(options_of(name, other) for other in below))
        is_unknown = words and re.fullmatch("[a-z-]+", words[0]) and words[0] not in known.get(name, words)
        if name not in known or said - own or (known[name] and is_unknown):
            wrong.append(line)

    assert wrong == []
