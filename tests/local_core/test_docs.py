"""The examples of the pages about the local Core and about testing, as a reader would run them."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.local_core import LocalCore

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("local-core.md", "testing-your-agent.md")
_BLOCK = re.compile(r"^```(?P<kind>python|rego|text)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[Any]:
    """Every block of a kind, with the text block that follows it as the output to expect."""
    found = []
    for page in PAGES:
        matches = list(_BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")))
        for number, match in enumerate(matches):
            if match["kind"] != kind:
                continue
            after = matches[number + 1] if number + 1 < len(matches) else None
            output = after["code"] if after is not None and after["kind"] == "text" else None
            found.append(pytest.param(match["code"], output, id=f"{page}-{number}"))
    assert found, f"no {kind} block was found: this test would pass without checking anything"
    return found


@pytest.mark.parametrize(("code", "output"), blocks("python"))
def test_python_examples_run(
    code: str,
    output: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each example runs on its own, and prints what the page says."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "example"}

    exec(compile(code, "example", "exec"), namespace)

    printed = capsys.readouterr().out
    if output is not None:
        assert [line.rstrip() for line in printed.splitlines()] == [
            line.rstrip() for line in output.splitlines()
        ]


def test_the_first_test_of_the_page_passes() -> None:
    """The test that a reader copies is a test that passes."""
    (code, _), *_ = [param.values for param in blocks("python") if "testing-your-agent.md" in str(param.id)]
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(str(code), "example", "exec"), namespace)
    fixture = inspect.unwrap(namespace["core"])

    generator = fixture() if inspect.isgeneratorfunction(fixture) else namespace["core"].__wrapped__()
    core = next(generator)
    asyncio.run(namespace["test_a_refused_delete_does_not_happen"](core))

    assert next(generator, None) is None
    assert namespace["deleted"] == []


@pytest.mark.parametrize(("code", "output"), blocks("rego"))
def test_rego_examples_are_policies(code: str, output: str | None, tmp_path: Path) -> None:
    """Each policy on the pages can be loaded."""
    path = tmp_path / "policy.rego"
    path.write_text(code, encoding="utf-8")

    with LocalCore(path) as loaded:
        assert loaded.events() == []
