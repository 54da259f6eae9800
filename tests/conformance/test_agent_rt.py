"""Agent-RT's own tests give the same result with every run governed."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).parent
VERSION = importlib.metadata.version("agent-rt")

LEAST_PASSED = 400
LEAST_RUNS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of Agent-RT's tests: what became of each, and what Core was told meanwhile."""

    tests: Mapping[str, str]
    report: Mapping[str, Any]

    @property
    def passed(self) -> int:
        return sum(result == "passed" for result in self.tests.values())


def _start(folder: Path, work: Path, *, governed: bool) -> subprocess.Popen[bytes]:
    work.mkdir()
    environ = {
        **{
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("OPENBOX_", "PYTEST_", "COV_"))
        },
        "PYTHONPATH": str(HERE),
        "GOVERNED_REPORT": str(work / "report.json"),
    }
    plugin = ["-p", "govern_every_run"] if governed else []
    return subprocess.Popen(
        [
            *[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin],
            *[
                "-o",
                "asyncio_mode=auto",
                "--continue-on-collection-errors",
                "--junitxml",
                str(work / "results.xml"),
            ],
            "tests",
        ],
        cwd=folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _outcome(work: Path) -> Outcome:
    tests = {}
    for case in ElementTree.parse(work / "results.xml").iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        tests[f"{case.get('classname')}::{case.get('name')}"] = ",".join(sorted(kinds)) or "passed"
    report = work / "report.json"
    return Outcome(tests=tests, report=json.loads(report.read_text()) if report.is_file() else {})


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory, sdist: Callable[[str, str], Path]
) -> tuple[Outcome, Outcome]:
    """Agent-RT's tests as they are, and with every run governed; both at the same time."""
    folder = sdist("agent-rt", VERSION)
    works = {governed: tmp_path_factory.mktemp("agent_rt") / "run" for governed in (False, True)}
    running = [_start(folder, work, governed=governed) for governed, work in works.items()]
    for process in running:
        process.wait(timeout=200)
    return _outcome(works[False]), _outcome(works[True])


@pytest.mark.conformance
@pytest.mark.timeout(400)
def test_governing_changes_no_result(outcomes: tuple[Outcome, Outcome]) -> None:
    """Whatever passes, fails or is skipped without governance does so with it."""
    plain, governed = outcomes

    assert plain.passed > LEAST_PASSED, "hardly any tests ran: this would pass without checking anything"
    changed = {
        name: (result, governed.tests.get(name))
        for name, result in plain.tests.items()
        if governed.tests.get(name) != result
    }
    assert changed == {}
    assert governed.tests.keys() == plain.tests.keys()


@pytest.mark.conformance
@pytest.mark.timeout(400)
def test_the_runs_were_governed_and_closed(outcomes: tuple[Outcome, Outcome]) -> None:
    """Core was told of every one of them, from its start to its one end."""
    plain, governed = outcomes

    assert plain.report == {}
    assert governed.report["runs"] > LEAST_RUNS
    assert governed.report["problems"] == []
    assert governed.report["ungoverned"] == 0
