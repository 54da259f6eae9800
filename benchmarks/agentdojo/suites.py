"""AgentDojo's four suites: their tools, and environments with or without planted text."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from agentdojo.task_suite.load_suites import get_suite
from agentdojo.task_suite.task_suite import read_suite_file

VERSION = "v1.2.2"
EARLIER_VERSIONS = ("v1", "v1.1", "v1.1.1", "v1.1.2", "v1.2", "v1.2.1")
SUITES = ("banking", "slack", "travel", "workspace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """What an agent is told about a tool."""

    name: str
    description: str
    parameters: tuple[str, ...]


def suite(name: str, version: str = VERSION) -> Any:
    """The suite of that name, as AgentDojo registers it."""
    return get_suite(version, name)


def rules_file(name: str) -> Path:
    """The suite's rules file."""
    return Path(__file__).parent / "rules" / f"{name}.yaml"


@lru_cache
def tool_schemas(name: str) -> tuple[ToolSchema, ...]:
    """The suite's tools."""
    return tuple(
        ToolSchema(
            name=tool.name,
            description=tool.description,
            parameters=tuple(tool.parameters.model_fields),
        )
        for tool in suite(name).tools
    )


@lru_cache
def places(name: str) -> Mapping[str, str]:
    """Where an attacker can write into the environment, and what stands there by default."""
    return MappingProxyType(suite(name).get_injection_vector_defaults())


def environment(name: str, injections: Mapping[str, str] | None = None) -> Any:
    """
    A fresh environment of the suite, with `injections` planted in their places.

    The same steps as AgentDojo's own `load_and_inject_default_environment`. But libyaml reads the text, and a
    further one of the same is unpickled: reading and copying take most of the time of a run over all pairs.
    """
    return pickle.loads(_environment(name, tuple(sorted((injections or {}).items()))))


@lru_cache(maxsize=1024)  # all pairs of all suites, some 15 MB
def _environment(name: str, injections: tuple[tuple[str, str], ...]) -> bytes:
    the_suite = suite(name)
    text = read_suite_file(name, "environment.yaml", the_suite.data_path)
    text = text.format(**{**places(name), **dict(injections)})
    # A safe loader too: CSafeLoader is SafeLoader on top of libyaml.
    return pickle.dumps(the_suite.environment_type.model_validate(yaml.load(text, Loader=yaml.CSafeLoader)))
