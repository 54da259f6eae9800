"""Importing does nothing: no third-party package, no file, no environment, no thread."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import openbox_agentrt
from openbox_agentrt import errors

HEAVY = {
    "agent_rt",
    "aiohttp",
    "anyio",
    "cryptography",
    "ext",
    "fastapi",
    "httpx",
    "langchain",
    "langchain_core",
    "mcp",
    "msgspec",
    "openai",
    "openbox_core",
    "opentelemetry",
    "prometheus_client",
    "re2",
    "redis",
    "regopy",
    "rich",
    "starlette",
    "typer",
    "uvicorn",
    "yaml",
}


def loaded_by(code: str) -> set[str]:
    """Top-level modules that are loaded in a fresh interpreter after `code`, and were not before."""
    program = (
        "import sys; before = set(sys.modules)\n"
        f"{code}\n"
        "import json; print(json.dumps(sorted({name.split('.')[0] for name in set(sys.modules) - before})))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    )
    return set(json.loads(result.stdout))


@pytest.mark.parametrize(
    "code",
    [
        "import openbox_agentrt",
        "import openbox_agentrt.acel",
        "import openbox_agentrt.acel as acel; acel.Session, acel.ToolSpec",
        "import openbox_agentrt.evidence",
        "import openbox_agentrt.testing",
        "from openbox_agentrt import __version__",
    ],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    """What is needed later is loaded when it is needed."""
    loaded = loaded_by(code)

    assert "openbox_agentrt" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []], ids=["help", "version", "nothing"])
def test_the_help_of_the_command_line_loads_nothing_heavy(arguments: list[str]) -> None:
    """It is there at once."""
    loaded = loaded_by(
        "import contextlib, io\n"
        "from openbox_agentrt.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        f"    main({arguments!r})"
    )

    assert "openbox_agentrt" in loaded
    assert loaded & HEAVY == set()


def test_importing_the_package_loads_only_itself() -> None:
    """Not even much of the standard library."""
    third_party = loaded_by("import openbox_agentrt") - sys.stdlib_module_names

    assert third_party == {"openbox_agentrt"}


def test_every_public_name_is_there() -> None:
    """The door lists what it has, and has what it lists."""
    assert isinstance(openbox_agentrt.__all__, tuple)
    assert list(openbox_agentrt.__all__) == sorted(openbox_agentrt.__all__)
    for name in openbox_agentrt.__all__:
        assert getattr(openbox_agentrt, name) is not None
    assert set(openbox_agentrt.__all__) <= set(dir(openbox_agentrt))


def test_every_error_is_public() -> None:
    """Whoever calls the package can catch all that it raises by names of its door."""
    assert set(errors.__all__) <= set(openbox_agentrt.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As from any module."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        openbox_agentrt.nonsense  # noqa: B018  # looking it up is the test


def test_the_names_of_the_design_are_public() -> None:
    """They are part of the product."""
    promised = {
        "Decision",
        "GovernanceOptions",
        "GovernedAgentLoop",
        "OpenBoxAgentRTGovernance",
        "RunState",
        "__version__",
        "create_openbox_agentrt",
        "current_run",
    }

    assert promised <= set(openbox_agentrt.__all__)
