"""The pages about contracts, evidence and the command line: each block is run and prints what it says."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    "evidence.md",
    "refusals.md",
    "shadow-rollout.md",
    "rules-files.md",
    "conditions.md",
    "command-line.md",
    "life-of-a-policy.md",
    "governed-contracts.md",
)
_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file that it is to be written to, and its text."""

    kind: str
    file: str | None
    text: str


def blocks(page: str) -> list[Block]:
    found = [
        Block(match["kind"], match["file"], match["text"])
        for match in _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8"))
    ]
    assert found, "no block was found: this test would pass without checking anything"
    return found


def matches(expected: str, printed: str) -> bool:
    """Whether the output is what the page says. `...` stands for anything."""
    pattern = ".*".join(map(re.escape, expected.rstrip().split("...")))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output that follows it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_true(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are written, code and commands are run in order, and what they print is compared."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "example"}
    printed = ""
    code = 0
    for block in blocks(page):
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            exec(compile(block.text, page, "exec"), namespace)
            printed = capsys.readouterr().out
        elif block.kind == "text":
            assert printed.rstrip() == block.text.rstrip()
        else:
            assert block.kind == "console", f"what is a {block.kind} block?"
            for command, output in commands(block.text):
                if command == "echo $?":
                    assert output.strip() == str(code)
                    continue
                program, *arguments = shlex.split(command)
                assert program == "openbox-agentrt"
                code = main(arguments)
                captured = capsys.readouterr()
                assert matches(output, captured.out + captured.err), captured.out + captured.err


def test_outputs_are_compared() -> None:
    """The comparison can fail, and `...` is no way around it."""
    assert matches("a ...\nb\n", "a 1\n2\nb")
    assert not matches("a ...\nb\n", "a 1\nc")
    assert not matches("a\n", "a\nb")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Pages that are linked are there."""
    for target in re.findall(r"\]\(([\w.-]+\.md)\)", (DOCS / page).read_text(encoding="utf-8")):
        assert (DOCS / target).is_file(), target
