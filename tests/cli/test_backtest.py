"""``backtest`` and ``import``: what is printed, and with which code they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from openbox_agentrt.acel import Session, at_most_n_times
from openbox_agentrt.cli.options import Format
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.traces.formats import FORMATS
from tests.cli.conftest import Run

RULES = """
contracts:
  - {template: at_most_total, args: [pay, amount], kwargs: {limit: LIMIT}, id: budget}
  - {template: rate_limit, args: [mail], kwargs: {n: 1, window_seconds: 60}}
  - {template: never, args: [wipe]}
"""
PAID = {"amount": 400, "card": "4111 1111 1111 1111"}
CHAT = [
    {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "1",
                "function": {"name": "pay", "arguments": '{"amount": 400, "card": "4111 1111 1111 1111"}'},
            },
            {"id": "2", "function": {"name": "mail", "arguments": "{}"}},
            {"id": "3", "function": {"name": "look", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "9", "content": "?"},
]


@pytest.fixture
def run(run: Run) -> Run:
    Path("small.yaml").write_text(RULES.replace("LIMIT", "300"), encoding="utf-8")
    Path("large.yaml").write_text(RULES.replace("LIMIT", "900"), encoding="utf-8")
    Path("chat.json").write_text(json.dumps(CHAT), encoding="utf-8")
    return run


def test_what_is_printed(run: Run) -> None:
    code, out, _ = run("backtest", "chat.json", "--rules", "small.yaml", "--redact", "card")
    assert code == 1
    assert "4111" not in out
    lines = out.splitlines()
    assert lines[0] == "3 calls of 1 session, out of 1 file of openai; not read: 1 a result without its call"
    assert lines[1] == "1 would be refused (33.3 %)"
    assert lines[2:4] == [
        "budget: at_most_total(pay, amount, limit=300)",
        "  refuses 1 call in 1 session",
    ]
    assert lines[4].startswith('  first: pay {"amount": 400, "card": "***REDACTED(')
    assert lines[4].endswith("(chat.json:1)")
    assert lines[5] == "  at_most_total(pay, amount, limit=300): 300 left of 300"
    assert lines[6:] == [
        "rate_limit(mail, 1 per 60s)",
        "  cannot be judged for 1 call: what it needs was not recorded",
        "never applied:",
        "  never(wipe)",
        "no contract looks at 1 call (33.3 %):",
        "         1  look",
        "An agent that is refused goes on differently: what it would have done, no recording says.",
    ]


def test_nothing_refused_and_nothing_changed_is_exit_code_0(run: Run) -> None:
    assert run("backtest", "chat.json", "--rules", "large.yaml")[0] == 0
    assert run("backtest", "chat.json", "--rules", "small.yaml", "--against", "small.yaml")[0] == 0
    code, out, _ = run("backtest", "chat.json", "--rules", "large.yaml", "--against", "small.yaml", "--json")
    assert code == 1
    (change,) = json.loads(out)["changes"]
    assert (change["tool"], change["refused"]) == ("pay", False)


REFUSED_THEN = {"tool": "pay", "args": {"amount": 400}, "refused": True}


@pytest.mark.parametrize(
    ("row", "code"),
    [
        pytest.param(REFUSED_THEN, 0, id="refused then as well"),
        pytest.param(
            {**REFUSED_THEN, "refused": False, "outcome": "aborted"}, 1, id="let through, and aborted"
        ),
        pytest.param({**REFUSED_THEN, "refused": False}, 1, id="ran"),
    ],
)
@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_what_was_refused_then_as_well_is_no_news(
    run: Run, row: dict[str, Any], code: int, mode: str
) -> None:
    """In CI it fails no recording of a run that was governed; what contracts let through then does."""
    Path("rows.jsonl").write_text(json.dumps(row))
    rules = RULES.replace("LIMIT", "300").replace("id: budget", f"id: budget, mode: {mode}")
    Path("small.yaml").write_text(rules)

    found, out, _ = run("backtest", "rows.jsonl", "--rules", "small.yaml")

    assert found == code
    assert ("each of them was refused then as well" in out) == (code == 0 and mode == "enforce")


def test_what_cannot_be_judged_is_exit_code_1_where_that_is_asked_for(run: Run) -> None:
    assert run("backtest", "chat.json", "--rules", "large.yaml")[0] == 0
    assert run("backtest", "chat.json", "--rules", "large.yaml", "--strict")[0] == 1


def test_each_format_can_be_asked_for() -> None:
    """The option lists what can be read, and "auto" before it."""
    assert get_args(get_args(Format)[0]) == ("auto", *FORMATS)


WRONG = {
    "no such format": (["--format", "csv"], "invalid value for '--format': 'csv' is not one of 'auto'"),
    "another format": (["--format", "otlp"], "'chat.json' is no otlp; say --format openai"),
    "by what": (["--by", "day"], "invalid value for '--by': 'day' is not one of 'session', 'file'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_line(run: Run, case: str) -> None:
    arguments, message = WRONG[case]
    code, out, err = run("backtest", "chat.json", "--rules", "small.yaml", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_recording_without_calls_is_no_success(run: Run, tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('[{"role": "user", "content": "hi"}]', encoding="utf-8")
    code, _, err = run("backtest", "none.json", "--rules", "small.yaml")
    assert code == 2
    assert "there are no calls in it" in err


def test_what_is_imported_replays(run: Run, tmp_path: Path) -> None:
    code, out, err = run("import", "chat.json", "--redact", "card")
    assert code == 0
    assert "4111" not in out
    assert err == "not read: 1 a result without its call\n"
    (tmp_path / "trace.jsonl").write_text(out, encoding="utf-8")
    code, out, _ = run("replay", "trace.jsonl", "--rules", "small.yaml")
    assert code == 1
    assert "at_most_total(pay, amount, limit=300)" in out


def test_contracts_of_a_fleet_count_over_all_sessions(run: Run) -> None:
    """And it is said, since the whole fleet did more than was recorded."""
    rules = (
        "contracts: [{template: at_most_total, args: [pay, amount, 300], scope: fleet, per: day, id: budget}]"
    )
    Path("fleet.yaml").write_text(rules, encoding="utf-8")
    rows = [
        {"tool": "pay", "args": {"amount": 200}, "session_id": name, "ts": 1e9} for name in ("a", "a", "b")
    ]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    code, out, _ = run("backtest", "rows.jsonl", "--rules", "fleet.yaml")

    assert code == 1
    assert "2 would be refused" in out
    assert (
        "counted over all sessions of the recording, and not what others of the fleet did:\n  budget\n" in out
    )
    assert json.loads(run("backtest", "rows.jsonl", "--rules", "fleet.yaml", "--json")[1])["counted_together"]


def rows(name: str, *some: dict[str, Any]) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in some), encoding="utf-8")


def pay(amount: int, **more: Any) -> dict[str, Any]:
    return {"tool": "pay", "args": {"amount": amount}, "session_id": "s", **more}


@pytest.mark.parametrize(
    "contract", ["", "\n  - {template: max_distinct, args: [x, y, 1], scope: fleet, per: day}"]
)
def test_a_session_in_several_files_is_judged_in_the_order_of_time(run: Run, contract: str) -> None:
    """Of 200, 150 and 100, out of 360, it is the last one that is refused, wherever that stands."""
    Path("small.yaml").write_text(RULES.replace("LIMIT", "360") + contract, encoding="utf-8")
    rows("logs/a.jsonl", pay(200, ts=10.0), pay(100, ts=30.0))
    rows("logs/b.jsonl", pay(150, ts=20.0))
    code, out, error = run("backtest", "logs", "--rules", "small.yaml", "--json")

    result = json.loads(out)
    assert (code, result["calls"], result["refused"], result["sessions"]) == (1, 3, 1, 1)
    assert result["contracts"][0]["example"]["where"] == "logs/a.jsonl row 2"
    assert result["in_order_of_files"] == 0
    assert "judged anew, by time" in error


def test_a_session_in_several_files_without_times_is_said_once(run: Run) -> None:
    rows("logs/a.jsonl", pay(100), pay(100))
    rows("logs/b.jsonl", pay(50), pay(50), pay(9, session_id="other"))
    code, out, error = run("backtest", "logs", "--rules", "small.yaml")
    said = "1 session in several files were judged in the order of the files: their calls say no time"
    assert out.splitlines().count(said) == 1
    assert (code, error) == (0, "")
    timed = pay(100, ts=1.0), pay(50, ts=2.0)
    rows("timed/a.jsonl", timed[0])
    rows("timed/b.jsonl", timed[1])
    assert "in several files" not in "".join(run("backtest", "timed", "--rules", "small.yaml")[1:])


def test_a_file_that_is_written_with_the_newest_first_is_said(run: Run) -> None:
    """It is judged in its own order, in which what came before comes after."""
    rows("t.jsonl", *(pay(1, ts=at, session_id=name) for name, at in (("a", 9.0), ("b", 5.0), ("a", 8.0))))
    said = "judged in the order of a file that has earlier calls after later ones: 1 session"
    assert said in run("backtest", "t.jsonl", "--rules", "small.yaml")[1].splitlines()
    assert (
        json.loads(run("backtest", "t.jsonl", "--rules", "small.yaml", "--json")[1])["earlier_after_later"]
        == 1
    )


def test_a_log_of_a_folder_that_holds_no_calls_is_named_and_the_rest_is_judged(run: Run) -> None:
    rows("logs/calls.jsonl", pay(100))
    with EvidenceFile("logs/violations.jsonl") as log:
        session = Session(contracts=[at_most_n_times("pay", 0)], evidence=log, halt_on_violation=False)
        session.reserve("pay", {})
    Path("logs/old.json").write_text('[{"bundle_hash": "x"}]', encoding="utf-8")
    code, out, _ = run("backtest", "logs", "--rules", "small.yaml")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("1 call of 1 session, out of 1 file of rows; not read: ")
    place = lines.index("cannot be judged: 2 files")
    assert lines[place + 1] == "  'logs/old.json' is evidence that holds violations only, and no calls"
    assert lines[place + 2].startswith("  'logs/violations.jsonl' is evidence without steps")
    assert run("backtest", "logs", "--rules", "small.yaml", "--strict")[0] == 1
    data = json.loads(run("backtest", "logs", "--rules", "small.yaml", "--json")[1])
    assert [each["file"] for each in data["unjudged"]] == ["logs/old.json", "logs/violations.jsonl"]
    # One that was named is meant.
    assert run("backtest", "logs/violations.jsonl", "logs/calls.jsonl", "--rules", "small.yaml")[0] == 2
