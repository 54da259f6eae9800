"""The command line as acel-core has it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from openbox_agentrt import cli as ours
from openbox_agentrt.acel import cli, config, hooks

RULES = '{"contracts": [{"template": "must_precede", "args": ["backup", "delete"]}]}'


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.json").write_text(RULES)
    (tmp_path / "-trace.json").write_text('[{"tool": "delete"}]')


def run(*arguments: str) -> int:
    args = cli.build_parser().parse_args(arguments)
    return int(args.func(args))


def test_the_commands_and_their_exit_codes(tmp_path: Path) -> None:
    """A program that drives acel-core's parser gets acel-core's codes."""
    replay = (
        "replay",
        "--rules",
        "rules.json",
        "--evidence",
        "--save-evidence",
        "e.json",
        "--",
        "-trace.json",
    )

    assert run("validate", "rules.json") == 0
    assert run(*replay) == 1
    assert run("verify", "e.json") == 0
    assert run("verify", "e.json", "--public-key", "") == 2
    assert run("show", "e.json", "--trace") == 0
    assert run("init-config", "new.yaml") == 0
    assert run("init-config", "new.yaml") == 2
    assert run("init-config", "new.yaml", "--force") == 0
    bundles = json.loads((tmp_path / "e.json").read_text())
    bundles[0]["violation"]["tool"] = "list"
    (tmp_path / "e.json").write_text(json.dumps(bundles))
    assert run("verify", "e.json") == 1


def test_main_ends_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    """The entry point of acel-core raises SystemExit."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["validate", "rules.json"])

    assert caught.value.code == 0
    assert "must_precede(backup, delete)" in capsys.readouterr().out


def test_serve_and_hooks_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doors do the work; the parser knows their arguments."""
    calls: list[object] = []

    def note(*arguments: object, **options: object) -> int:
        calls.append((*arguments, *options.values()))
        return 0

    monkeypatch.setattr(ours, "main", note)
    monkeypatch.setattr(hooks, "main_pretooluse", note)
    monkeypatch.setattr(hooks, "main_posttooluse", note)

    run("serve", "server.py", "--shadow", "--contracts", "rules.json")
    run("serve", "server.py")
    run("hook-pretooluse", "--rules", "rules.json")
    run("hook-posttooluse", "--state-dir", "d")

    assert calls == [
        (("serve", "--shadow", "--contracts=rules.json", "--", "server.py"),),
        (("serve", "--", "server.py"),),
        ("rules.json", ".claude/acel_state"),
        ("d",),
    ]


def test_modules_are_loaded_by_path_or_name(tmp_path: Path) -> None:
    """`_load_module` takes both, and says what is not there."""
    (tmp_path / "server.py").write_text("answer = 42\n")

    assert cli._load_module("server.py").answer == 42
    assert cli._load_module("json") is json
    with pytest.raises(FileNotFoundError, match=r"no such file: missing.py"):
        cli._load_module("missing.py")
    with pytest.raises(ImportError, match="no_such_module_here"):
        cli._load_module("no_such_module_here")


def test_it_is_a_module_too() -> None:
    """`python -m` runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "openbox_agentrt.acel.cli", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "hook-pretooluse" in done.stdout


def test_a_path_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that no loader takes is told as such."""
    (tmp_path / "server.py").write_text("")
    monkeypatch.setattr("importlib.util.spec_from_file_location", lambda name, path: None)

    with pytest.raises(ImportError, match=r"could not load module from path: server.py"):
        cli._load_module("server.py")


def test_private_names_that_cost_nothing() -> None:
    """Tests of acel-core reach for the config module through here."""
    assert cli.config_mod is config
    assert "openbox_agentrt.acel.cli" in sys.modules
