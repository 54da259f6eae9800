"""What the package of the local Core offers, and what importing it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import openbox_agentrt.local_core as local_core

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
        "with LocalCore() as core: core.handle('GET', '/', {}, b'')\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == []
