"""The door: what it offers, and that looking at it loads nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import acel as peer
import pytest

from openbox_agentrt import acel

HEAVY = (
    "agent_rt",
    "httpx",
    "cryptography",
    "mcp",
    "opentelemetry",
    "yaml",
    "typer",
    "prometheus_client",
    "starlette",
    "regopy",
    "re2",
    "msgspec",
    "openbox_core",
)


def test_every_name_is_there() -> None:
    """And listed once, in order."""
    assert isinstance(acel.__all__, tuple)
    assert list(acel.__all__) == sorted(set(acel.__all__))
    for name in acel.__all__:
        assert getattr(acel, name) is not None
    assert set(dir(acel)) == set(acel.__all__)


def test_everything_of_acel_core_is_there() -> None:
    """A program changes its import and nothing else."""
    assert set(peer.__all__) <= set(acel.__all__)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("temporal", "MustPrecede AtMostNTimes CumulativeLimit NeverAfter RequiredBeforeSessionEnd"),
        ("temporal", "CannotFollowWithout MutuallyExclusive RateLimit ToolMatcher TemporalContract"),
        ("registry", "TEMPLATES build_contract"),
        ("matchers", "ContentMatch matching"),
        ("conditions", "Check precondition postcondition collect_checks describe _arity"),
        ("session", "Session Gate ToolSpec"),
        ("state", "StateStore"),
        ("events", "ToolCallEvent"),
        ("violations", "Violation ContractViolation"),
        ("verdict", "Verdict"),
    ],
)
def test_the_modules_of_acel_core_are_there(module: str, names: str) -> None:
    """With the names that programs take from them."""
    found = __import__(f"openbox_agentrt.acel.{module}", fromlist=["*"])

    for name in names.split():
        assert hasattr(found, name), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        acel.nothing  # noqa: B018 - looking is what is tested


@pytest.mark.parametrize(
    "code",
    [
        "import openbox_agentrt.acel",
        "from openbox_agentrt.acel import Session, must_precede, Violation, build_contract, matching",
        "from openbox_agentrt.acel import *; Session(contracts=[must_precede('a', 'b')]).reserve('b')",
    ],
    ids=["the door", "what it offers", "a session"],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    """No third-party package is loaded before it is needed."""
    allowed = {"msgspec"} if "reserve" in code else {""}
    check = f"import sys; {code}; print(*(set({HEAVY!r}) & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout

    assert set(loaded.split()) <= allowed


def test_a_door_s_types_are_known() -> None:
    """The lazy names are what their modules define."""
    from openbox_agentrt.acel.session import Session

    names: dict[str, Any] = {}
    exec("from openbox_agentrt.acel import *", names)
    assert names["Session"] is Session


def test_the_store_in_memory_is_what_a_session_asks_for() -> None:
    """Another one can take its place: mypy compares the two, and here every name is looked up."""
    from openbox_agentrt.acel.engine.storage import Store
    from openbox_agentrt.acel.engine.store import MemoryStore

    store: Store = MemoryStore()

    asked = {name for name in {*vars(Store), *Store.__annotations__} if not name.startswith("_")}
    assert {"add", "plan", "reserve", "commit", "abort", "lose", "step", "flying"} == asked
    assert all(hasattr(store, name) for name in asked)
