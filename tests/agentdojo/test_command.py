"""The command line of the benchmarks."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks.__main__ import COMMANDS, main
from benchmarks.agentdojo import command
from benchmarks.agentdojo.measuring import Attacked, Benign, SuiteNumbers
from benchmarks.agentdojo.report import PageError, fill
from benchmarks.agentdojo.traces import ORDERS


def numbers(*, refused: tuple[str, ...] = ()) -> SuiteNumbers:
    """Numbers of a small suite."""
    benign = Benign(traces=3, refused=refused)
    attacked = Attacked(attacks=4, passed=("toy/user_task_1/injection_task_2/at-once",), disturbed=(), by=())
    return SuiteNumbers(
        suite="toy",
        pairs=5,
        without_calls=1,
        alone=2,
        alone_passed=(),
        benign={"order": benign, "origin": benign, "all": benign},
        reworded=benign,
        attacked={(which, order): attacked for which in ("order", "origin", "all") for order in ORDERS},
    )


def test_every_command_has_a_main() -> None:
    """What the table names can be imported and run."""
    assert COMMANDS
    assert all(callable(import_module(module).main) for module in COMMANDS.values())


@pytest.mark.parametrize("argv", [[], ["nothing"]])
def test_an_unknown_command_is_a_usage_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The names that exist are said."""
    assert main(argv) == 2
    assert "agentdojo" in capsys.readouterr().err


def test_a_refused_benign_trace_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says that something benign was refused, and the output says what."""
    monkeypatch.setattr(command, "measure", lambda name: numbers(refused=("toy/user_task_3",)))

    assert command.main([]) == 1
    assert capsys.readouterr().err == "refused: toy/user_task_3\n"


def test_the_command_prints_a_line_a_suite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused and stopped, of how many."""
    monkeypatch.setattr(command, "measure", lambda name: numbers())
    monkeypatch.setattr(command, "SUITES", ("toy",))

    assert command.main([]) == 0
    assert capsys.readouterr().out == (
        "toy: benign refused 0 of 3; attacks stopped: "
        "limits and order 6 of 8, where values come from 6 of 8, the whole file 6 of 8\n"
    )


def test_only_what_stands_between_markers_is_replaced() -> None:
    """The words of a page stay, and filling it twice is filling it once."""
    page = "# Page\n" + "".join(
        f"before {name}\n<!-- begin {name} -->\nold\n<!-- end {name} -->\nafter\n"
        for name in ("benign", "attacks", "passed", "contracts")
    )

    filled = fill(page, [numbers()])

    assert "old" not in filled
    assert filled.count("after\n") == 4
    assert "| toy | 0 of 3 |" in filled
    assert "`user_task_1`: 2" in filled
    assert fill(filled, [numbers()]) == filled


def test_a_page_without_a_place_for_a_table_is_an_error() -> None:
    """A table is not dropped in silence."""
    with pytest.raises(PageError, match="'benign'"):
        fill("# Page\n", [numbers()])
