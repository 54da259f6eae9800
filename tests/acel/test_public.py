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


OF_ACEL_CORE = (
    "state halt_on_violation mode violations evidence metrics trace contracts groups add_contract"
    " add_contracts add_contract_group contracts_in_group register_tool register"
    " call precheck postcheck end_session replay replay_prefix"
)
PROMISED = (
    "session_id would reserve areserve acall unmet closed in_flight verdict has_conditions snapshot restore"
    " from_rules replace_contracts halt hold ahold release"
)


def test_a_session_shows_what_is_promised_and_nothing_else() -> None:
    """What an engine needs is not in the way of whoever looks at a session."""
    of_acel_core, promised = set(OF_ACEL_CORE.split()), set(PROMISED.split())

    assert len(of_acel_core) == 21
    assert {name for name in dir(acel.Session()) if not name.startswith("_")} == of_acel_core | promised
    assert {name for name in dir(peer.Session()) if not name.startswith("_")} <= of_acel_core
