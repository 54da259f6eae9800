"""What the package of the local Core offers, and what importing it costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import openbox_agentrt.local_core as local_core

FOLDER = Path(local_core.__file__).parent
HEAVY = ("agent_rt", "regopy", "starlette", "uvicorn", "httpx", "openbox_core", "cryptography", "anyio")


def test_every_name_is_there_and_listed() -> None:
    """The list is a sorted tuple of names that exist."""
    assert isinstance(local_core.__all__, tuple)
    assert list(local_core.__all__) == sorted(local_core.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(local_core, name) for name in local_core.__all__)


def test_importing_it_loads_nothing_that_is_needed_later() -> None:
    """Also with a core made and used, Rego, HTTP and the detector are loaded only when they are asked for."""
    code = (
        "import sys, json\n"
        "from openbox_agentrt.local_core import LocalCore\n"
        "with LocalCore(guardrails=False) as core: core.handle('GET', '/', {}, b'')\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == []


def test_it_stands_alone() -> None:
    """Of this package it imports only what names a missing extra, and ids."""
    above = set()
    files = sorted(FOLDER.glob("*.py"))
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level > 1:
                above.add(node.module)
            elif isinstance(node, ast.ImportFrom | ast.Import):
                names = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                )
                assert not any(name.startswith(("openbox_agentrt", "openbox_core")) for name in names), file

    assert len(files) > 10, "found too few modules: this guard would pass without checking anything"
    assert above == {"_extras", "_ids"}
