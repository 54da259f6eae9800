"""The command line as a whole: help, version, and how a command ends."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import typer

from openbox_agentrt import __version__, cli
from openbox_agentrt.cli import running


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]], ids=str)
def test_help_lists_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that has a summary is listed with it."""
    assert cli.main(arguments) == 0

    out = capsys.readouterr().out
    for name, command in cli.COMMANDS.items():
        assert not command.summary or f"  {name} " in out


@pytest.mark.parametrize("argument", ["--version", "-V"])
def test_version(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The version is printed."""
    assert cli.main([argument]) == 0
    assert capsys.readouterr().out == f"openbox-agentrt {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: a command is needed; see openbox-agentrt --help\n"),
        (
            ["replya"],
            "error: there is no command 'replya', did you mean 'replay'; see openbox-agentrt --help\n",
        ),
        (["\x1b[2J"], "error: there is no command '\\x1b[2J'; see openbox-agentrt --help\n"),
    ],
    ids=["nothing", "mistyped", "hostile"],
)
def test_a_call_that_is_none(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is one line on standard error, and the exit code is 2."""
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err == message


def test_no_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that is called without a command says which there are."""
    assert cli.main([]) == 2
    assert capsys.readouterr().out.startswith("usage: openbox-agentrt COMMAND ...\n")


@pytest.mark.parametrize("name", [name for name in cli.COMMANDS if name != "core"])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command in the table is there and says what it takes."""
    assert cli.main([name, "--help"]) == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [[], *([name] for name in cli.COMMANDS), ["core", "serve"], ["evidence", "witness"]],
    ids=" ".join,
)
def test_help_is_whole_at_eighty_columns(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No line is longer than a small terminal, and no name or summary is cut off."""
    monkeypatch.setenv("COLUMNS", "80")

    assert cli.main([*words, "--help"]) == 0

    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in printed
    assert not re.search(r"[a-z]\.\.\.$", printed, re.MULTILINE)


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_load_no_command(argument: str) -> None:
    """They are there at once: nothing is loaded but what prints them."""
    code = (
        "import sys; from openbox_agentrt.cli import main; main([sys.argv[1]]);"
        "loaded = {name.partition('.')[0] for name in sys.modules} | set(sys.modules);"
        "heavy = 'typer click rich yaml msgspec cryptography httpx agent_rt openbox_core mcp opentelemetry'"
        " ' prometheus_client starlette regopy re2 logging asyncio argparse openbox_agentrt.acel'"
        " ' openbox_agentrt.evidence openbox_agentrt.cli.running';"
        "print('heavy:', sorted(loaded & set(heavy.split())))"
    )

    done = subprocess.run([sys.executable, "-c", code, argument], capture_output=True, text=True, check=True)

    assert done.stdout.endswith("heavy: []\n")


def test_it_is_a_module_too() -> None:
    """`python -m openbox_agentrt.cli` is the same program, with the same exit codes."""
    done = subprocess.run(
        [sys.executable, "-m", "openbox_agentrt.cli", "nothing"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no command 'nothing'")


def test_the_arguments_of_the_process_are_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry point calls `main` without arguments."""
    monkeypatch.setattr(sys, "argv", ["openbox-agentrt", "--version"])

    assert cli.main() == 0
    assert __version__ in capsys.readouterr().out


def command_that(monkeypatch: pytest.MonkeyPatch, main: Any) -> None:
    module = types.ModuleType("openbox_agentrt.cli.made_up")
    module.main = main  # type: ignore[attr-defined]  # a module of our own
    monkeypatch.setitem(sys.modules, "openbox_agentrt.cli.made_up", module)


def raising(error: BaseException) -> Any:
    def main(arguments: list[str]) -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        pytest.param(running.InputError("is wrong"), 2, "error: is wrong\n", id="input"),
        pytest.param(
            FileNotFoundError(2, "No such file", "a\x1bb"), 2, "error: no such file: 'a\\x1bb'\n", id="file"
        ),
        pytest.param(OSError("strange"), 2, "error: strange\n", id="system"),
        pytest.param(SystemExit(3), 3, "", id="exit"),
        pytest.param(SystemExit(), 0, "", id="exit without a code"),
        pytest.param(SystemExit("text"), 1, "", id="exit with a text"),
        pytest.param(KeyboardInterrupt(), 130, "", id="interrupt"),
        pytest.param(
            ZeroDivisionError("a\nb"),
            2,
            "error: internal error, ZeroDivisionError: a b; set OPENBOX_AGENTRT_DEBUG=1 to see where\n",
            id="our own mistake",
        ),
    ],
)
def test_whatever_happens_there_is_no_traceback(
    error: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A user gets one line and an exit code."""
    monkeypatch.delenv("OPENBOX_AGENTRT_DEBUG", raising=False)
    command_that(monkeypatch, raising(error))

    assert running.run("made_up", [], prog="p") == code
    assert capsys.readouterr().err == message


def test_whoever_looks_for_a_mistake_of_ours_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable set, an error of our own is raised as it is; one of the input is not."""
    monkeypatch.setenv("OPENBOX_AGENTRT_DEBUG", "1")
    command_that(monkeypatch, raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        running.run("made_up", [], prog="p")

    command_that(monkeypatch, raising(running.InputError("is wrong")))
    assert running.run("made_up", [], prog="p") == 2


@pytest.mark.parametrize(
    ("result", "code"), [(None, 0), (0, 0), (1, 1), (typer.Exit(3), 3), (typer.Abort(), 130)], ids=str
)
def test_how_a_typer_command_ends(monkeypatch: pytest.MonkeyPatch, result: Any, code: int) -> None:
    """It returns its code, or nothing, or raises."""
    app = typer.Typer()

    @app.command()
    def made_up() -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    module = types.ModuleType("openbox_agentrt.cli.made_up")
    module.app = app  # type: ignore[attr-defined]  # a module of our own
    monkeypatch.setitem(sys.modules, "openbox_agentrt.cli.made_up", module)

    assert running.run("made_up", [], prog="p") == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay"], "error: missing argument 'TRACE...'; see openbox-agentrt replay --help\n"),
        (["core", "show"], "error: missing argument 'ID'; see openbox-agentrt core show --help\n"),
        (
            ["evidence", "prove", "e.jsonl"],
            "error: missing option '--seq'; see openbox-agentrt evidence prove --help\n",
        ),
        (["replay", "a", "--rulez", "b"], "error: no such option: --rulez"),
        (["validate", "a", "b"], "error: got unexpected extra argument"),
    ],
    ids=["missing", "missing of a command in a group", "missing option", "unknown option", "too many"],
)
def test_wrong_arguments_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No usage text, no box: what is wrong, and where to read on."""
    assert cli.main(arguments) == 2

    err = capsys.readouterr().err
    assert err.startswith(message)
    assert err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end differently there")
def test_whoever_reads_the_output_may_stop() -> None:
    """`| head` is no error, and leaves no message."""
    code = "import sys; from openbox_agentrt.cli import main; sys.exit(main(['schema']))"
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (141, "")


def test_a_terminal_that_knows_no_umlauts(tmp_path: Path) -> None:
    """What it cannot show is escaped, and the command goes on."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("contracts: [{template: init, args: [größe]}]", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "openbox_agentrt.cli", "validate", rules],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert done.returncode == 0
    assert b"init(gr\\xf6\\xdfe)" in done.stdout
