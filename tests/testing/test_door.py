"""What the package of doubles offers, and what importing it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import openbox_agentrt.testing as testing

HEAVY = ("agent_rt", "h11", "httpx", "openbox_core", "sqlite3", "asyncio")


def test_every_name_is_there_and_listed() -> None:
    """The names that are offered exist, and `dir` shows them."""
    assert isinstance(testing.__all__, tuple)
    assert all(getattr(testing, name) is not None for name in testing.__all__)
    assert set(testing.__all__) <= set(dir(testing))
    assert set(testing._HOME) == set(testing.__all__)


def test_a_name_that_is_not_offered() -> None:
    """It is an attribute error that names it."""
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = testing.Nothing


def test_importing_it_loads_nothing() -> None:
    """Each double brings what it needs when it is used."""
    code = (
        "import sys, json, openbox_agentrt.testing\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("name", ["FaultyCore", "OpenAIServer"])
def test_a_server_without_its_extra_names_it(name: str) -> None:
    """The doubles without a network stay usable; a server says what to install."""
    code = (
        "import sys; sys.modules['h11'] = None\n"
        "from openbox_agentrt import testing; testing.ScriptedProvider\n"
        "try:\n"
        f"    testing.{name}\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == (
        "h11 needs the extra 'testing': pip install 'openbox-agentrt-sdk-python[testing]'"
    )
