"""replay, validate, schema, verify, show and init-config."""

import io
import json
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.contracts.identity import meaning_of
from openbox_agentrt.acel.rulesfile import parse_rules, read_rules
from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import EvidenceFile, EvidenceLog, ed25519_signer, verify_file
from tests.acel.rulesfile.schema import rules_schema
from tests.cli.conftest import Run

VECTORS = Path(__file__).parent.parent / "evidence" / "vectors"
PUBLIC_KEY = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
RULES = (
    "state: {open: true}\n"
    "contracts:\n"
    "  - {template: must_precede, args: [backup, delete], id: r1, severity: high, remedy: back up first}\n"
    "  - {template: required_before_session_end, args: [log_out]}\n"
)


@pytest.fixture
def run(run: Run) -> Run:
    Path("rules.yaml").write_text(RULES)
    Path("good.json").write_text('[{"tool": "backup"}, {"tool": "delete"}, {"tool": "log_out"}]')
    Path("bad.json").write_text('[{"tool": "delete", "args": {"id": "\\u001b[2J"}}, {"tool": "log_out"}]')
    return run


# replay


def test_replay_of_a_good_trace(run: Run) -> None:
    """Nothing broken is exit code 0."""
    assert run("replay", "good.json", "--rules", "rules.yaml") == (
        0,
        "OK  — 3 events checked, no violations.\n",
        "",
    )


def test_replay_of_a_bad_trace(run: Run) -> None:
    """Something broken is exit code 1, with each contract that was."""
    assert run("replay", "bad.json", "--rules", "rules.yaml") == (
        1,
        "FAIL — 1 violation(s) in 2 events:\n"
        "  [step 1] temporal: must_precede(backup, delete)  (tool=delete)\n",
        "",
    )


def test_replay_names_every_refused_call(run: Run, tmp_path: Path) -> None:
    """With the key that it was refused for, and how many there were for each contract and key."""
    (tmp_path / "limits.yaml").write_text(
        "contracts:\n"
        "  - {template: at_most_n_times, args: [refund, 1], key: customer}\n"
        "  - {template: required_before_session_end, args: [log_out]}\n"
    )
    calls = [{"tool": "refund", "args": {"customer": customer}} for customer in (7, "8", "7", 7.0, " 8")]
    (tmp_path / "t.json").write_text(json.dumps(calls))

    code, out, _ = run("replay", "t.json", "--rules", "limits.yaml")

    limit = "at_most_n_times(refund, n=1, key=customer)"
    assert code == 1
    assert out == (
        "FAIL — 4 violation(s) in 5 events:\n"
        f"  [step 3] temporal: {limit}  (tool=refund, customer=7)\n"
        f"  [step 4] temporal: {limit}  (tool=refund, customer=7)\n"
        f"  [step 5] temporal: {limit}  (tool=refund, customer=8)\n"
        "  [step 5] temporal: required_before_session_end(log_out)  (tool=<session-end>)\n"
        "Calls by contract:\n"
        f"      3  {limit}\n"
        "            2  7\n"
        "            1  8\n"
        "      1  required_before_session_end(log_out)\n"
    )
    result = json.loads(run("replay", "t.json", "--rules", "limits.yaml", "--json")[1])
    assert result["contracts"][0] == {"spec": limit, "id": None, "calls": 3, "keys": {"7": 2, "8": 1}}
    assert (result["refused"], result["violations"][0]["key"]) == (3, "7")


def test_replay_of_many_sessions(run: Run, tmp_path: Path) -> None:
    """Each is judged by itself, in however many files it stands and whatever stands between its calls."""
    (tmp_path / "a.jsonl").write_text(
        '{"tool": "backup", "session_id": "s1"}\n{"tool": "delete", "session_id": "s2"}\n'
        '{"tool": "log_out", "session_id": "s2"}\n{"tool": "log_out", "session_id": "s3"}\n'
    )
    (tmp_path / "b.json").write_text(
        '[{"tool": "delete", "session_id": "s1"}, {"tool": "log_out", "session_id": "s1"},'
        ' {"tool": "log_out"}]'
    )

    code, out, _ = run("replay", "a.jsonl", "b.json", "--rules", "rules.yaml")

    assert code == 1
    assert out == (
        "FAIL — 1 violation(s) in 7 events of 4 sessions:\n"
        "  [s2 step 1] temporal: must_precede(backup, delete)  (tool=delete)\n"
    )
    assert run("replay", "a.jsonl", "--rules", "rules.yaml")[1].count("s1 step") == 1


@pytest.mark.parametrize(
    "row",
    [
        '"error": "disk full"',
        '"error": {"type": "OSError"}',
        '"outcome": "failed"',
        '"outcome": "aborted"',
        '"result": {"isError": true}',
    ],
)
def test_replay_of_a_call_that_failed(run: Run, tmp_path: Path, row: str) -> None:
    """It allows nothing, whoever says in which way that it failed."""
    (tmp_path / "t.json").write_text(
        f'[{{"tool": "backup", {row}}}, {{"tool": "delete"}}, {{"tool": "log_out", "error": null}}]'
    )

    code, out, _ = run("replay", "t.json", "--rules", "rules.yaml")

    assert (code, "must_precede(backup, delete)" in out) == (1, True)


def test_replay_of_nothing_is_an_error(run: Run, tmp_path: Path) -> None:
    """A recorder that is broken writes traces without calls, and they break nothing."""
    (tmp_path / "empty.json").write_text("[]")

    assert run("replay", "good.json", "empty.json", "--rules", "rules.yaml") == (
        2,
        "",
        "error: 'empty.json' holds no calls\n",
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ('[{"tool": "backup", "tool": "delete"}]', "'tool' is there twice"),
        ('[{"tool": "backup", "args": {"n": 1, "n": 2}}]', "'n' is there twice"),
        ('[{"tool": "backup", "argz": {}}]', "unknown key 'argz'"),
    ],
    ids=["a key twice", "an argument twice", "an unknown key"],
)
def test_replay_of_rows_that_can_be_read_in_two_ways(run: Run, tmp_path: Path, rows: str, said: str) -> None:
    """They are an error: whoever reads them the other way sees another call."""
    (tmp_path / "t.json").write_text(rows)

    code, out, err = run("replay", "t.json", "--rules", "rules.yaml")

    assert (code, out) == (2, "")
    assert said in err


def test_replay_as_json(run: Run) -> None:
    """The result is data, with the evidence if asked for."""
    code, out, _ = run("replay", "bad.json", "--rules", "rules.yaml", "--json", "--evidence")

    result = json.loads(out)
    assert code == 1
    assert (result["ok"], result["events"]) == (False, 2)
    assert result["violations"][0]["id"] == "r1"
    assert result["rules_hash"] == parse_rules(RULES).rules_hash
    assert len(result["evidence"]) == 1
    assert "evidence" not in json.loads(run("replay", "good.json", "--rules", "rules.yaml", "--json")[1])


def test_replay_prints_the_evidence(run: Run) -> None:
    """--evidence shows the bundles."""
    _, out, _ = run("replay", "bad.json", "--rules", "rules.yaml", "--evidence")

    assert '"bundle_hash"' in out.partition("Evidence bundle:\n")[2]


def test_replay_saves_evidence_of_format_1(run: Run, tmp_path: Path) -> None:
    """The file is private, and acel-core reads it."""
    _, _, err = run("replay", "bad.json", "--rules", "rules.yaml", "--save-evidence", "e.json")

    assert err == "Evidence log written to 'e.json'.\n"
    assert verify_file(tmp_path / "e.json").ok
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "e.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["e.json", "e.jsonl"])
def test_replay_signs_evidence(run: Run, tmp_path: Path, name: str) -> None:
    """With a key the evidence is signed, in either format, and the public key is told."""
    _, _, err = run("replay", "bad.json", "--rules", "rules.yaml", "--save-evidence", name, "--key", "key")

    public_key = err.partition("public key: ")[2].partition("\n")[0]
    report = verify_file(tmp_path / name, public_key)
    assert (report.authenticated, report.records) == (True, 1)
    assert report.format == (1 if name == "e.json" else 2)


def test_replay_tells_what_is_odd_about_the_rules(run: Run, tmp_path: Path) -> None:
    """Warnings go to standard error."""
    (tmp_path / "odd.yaml").write_text("groups: {g: []}\n" + RULES.partition("\n")[2])

    assert run("replay", "good.json", "--rules", "odd.yaml")[2] == "warning: odd.yaml:1: group 'g' is empty\n"


def test_replay_keeps_the_last_calls(run: Run, tmp_path: Path) -> None:
    """A violation carries the last twenty calls before it."""
    (tmp_path / "t.jsonl").write_text('{"tool": "list"}\n' * 30 + '{"tool": "delete"}\n{"tool": "log_out"}\n')

    _, out, _ = run("replay", "t.jsonl", "--rules", "rules.yaml", "--json")

    assert len(json.loads(out)["violations"][0]["trace"]) == 20


def test_replay_of_many_events(run: Run, tmp_path: Path) -> None:
    """JSON Lines, many of them."""
    (tmp_path / "t.jsonl").write_text('{"tool": "backup"}\n' * 5_000 + '{"tool": "log_out"}\n')

    assert (
        run("replay", "t.jsonl", "--rules", "rules.yaml")[1] == "OK  — 5001 events checked, no violations.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["replay", "no.json", "--rules", "rules.yaml"], "'no.json' could not be read", id="no trace"
        ),
        pytest.param(
            ["replay", "good.json", "--rules", "no.yaml"], "no such rules file: no.yaml", id="no rules"
        ),
        pytest.param(
            ["replay", "twice.json", "--rules", "rules.yaml"],
            "'twice.json' is not JSON: 'tool' is there twice",
            id="replay of a key that is there twice",
        ),
        pytest.param(
            ["replay", "unknown.json", "--rules", "rules.yaml"],
            "'unknown.json' row 1: unknown key 'eror', did you mean 'error'",
            id="replay of an unknown key",
        ),
        pytest.param(
            ["replay", "session.json", "--rules", "rules.yaml"],
            "'session.json' row 1: 'session_id' must be text, got int",
            id="replay of a session without a name",
        ),
        pytest.param(
            ["replay", "contradiction.json", "--rules", "rules.yaml"],
            "'contradiction.json' row 1: a row with an 'error' cannot have the outcome 'ok'",
            id="replay of a contradiction",
        ),
        pytest.param(
            ["replay", "row.json", "--rules", "rules.yaml"],
            "'row.json' row 2: 'tool' is missing",
            id="bad row",
        ),
        pytest.param(
            ["replay", "rules.yaml", "--rules", "rules.yaml"], "must hold a list of calls", id="no list"
        ),
        pytest.param(
            ["replay", "bad.json", "--rules", "rules.yaml", "--save-evidence", "no/e.json"],
            "could not write 'no/e.json' (no such file or directory)",
            id="evidence into nowhere",
        ),
        pytest.param(
            ["replay", "bad.json", "--rules", "rules.yaml", "--key", "rules.yaml"],
            "key file",
            id="no key",
        ),
        pytest.param(["validate", "no.yaml"], "no such rules file: no.yaml", id="validate nothing"),
        pytest.param(
            ["validate", "broken.yaml"],
            "broken.yaml:1: contracts[0].template: unknown template",
            id="validate broken",
        ),
        pytest.param(["verify", "no.json"], "could not read file", id="verify nothing"),
        pytest.param(["verify", "good.json", "--public-key", ""], "public key is empty", id="empty key"),
        pytest.param(
            ["verify", "good.json", "--public-key", "x"], "not an Ed25519 public key: 'x'", id="no key at all"
        ),
        pytest.param(
            ["verify", "good.json"],
            "doesn't look like a valid evidence log (missing or malformed field: 'index' of bundle 0)",
            id="verify a trace",
        ),
        pytest.param(["verify", "object.json"], "is no evidence log", id="verify an object"),
        pytest.param(
            ["verify", "e.jsonl", "--head", "no.head"], "no such file or directory: 'no.head'", id="no head"
        ),
        pytest.param(
            ["verify", "e.jsonl", "--head", "rules.yaml"],
            "'rules.yaml' is not JSON",
            id="head that is not json",
        ),
        pytest.param(
            ["verify", "e.jsonl", "--head", "good.json"],
            "'good.json' is not the head of an evidence log",
            id="head that is none",
        ),
        pytest.param(
            ["verify", "e.jsonl", "--rules", "no.yaml"], "no such rules file", id="verify against no rules"
        ),
        pytest.param(["show", "no.json"], "could not read file", id="show nothing"),
        pytest.param(
            ["show", "e.jsonl", "--verdict", "refuzed"],
            "invalid value for '--verdict': 'refuzed' is not one of 'allowed', 'refused'",
            id="show a word that is none",
        ),
        pytest.param(["show", "e.jsonl", "--since", "yesterday"], "not a time: 'yesterday'", id="no time"),
        pytest.param(["show", "e.jsonl", "--until", "2026-13"], "not a time: '2026-13'", id="no month"),
        pytest.param(
            ["replay", "e.jsonl", "--rules", "rules.yaml"],
            "'e.jsonl' is evidence and no trace; verify --rerun",
            id="replay of evidence",
        ),
        pytest.param(
            ["verify", "e.jsonl", "--key", "no.key"],
            "not an Ed25519 public key: 'no.key', and there is no such file",
            id="key in no file",
        ),
        pytest.param(["show", "good.json"], "doesn't look like a valid evidence log", id="show a trace"),
        pytest.param(
            ["init-config"], "rules.yaml already exists (use --force to overwrite)", id="rules are there"
        ),
        pytest.param(["init-config", "no/rules.yaml"], "directory: 'no/rules.yaml'", id="rules into nowhere"),
    ],
)
def test_what_is_wrong_with_the_input_is_one_line(
    run: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    """Exit code 2, one line that names the file, no traceback."""
    (tmp_path / "row.json").write_text('[{"tool": "a"}, {"args": {}}]')
    (tmp_path / "object.json").write_text("{}")
    (tmp_path / "twice.json").write_text('[{"tool": "a", "tool": "b"}]')
    (tmp_path / "unknown.json").write_text('[{"tool": "a", "eror": "disk full"}]')
    (tmp_path / "session.json").write_text('[{"tool": "a", "session_id": 5}]')
    (tmp_path / "contradiction.json").write_text('[{"tool": "a", "error": "x", "outcome": "ok"}]')
    (tmp_path / "broken.yaml").write_text("contracts: [{template: nope}]")
    EvidenceFile(tmp_path / "e.jsonl").close()

    code, out, err = run(*arguments)

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err
    assert (
        len([line for line in err.splitlines() if not line.startswith(("note:", "warning:", "public"))]) == 1
    )


def test_replay_of_standard_input_names_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes from a pipe has a name in errors too."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'[{"tool": 5}]')))

    code, _, err = run("replay", "-", "--rules", "rules.yaml")

    assert code == 2
    assert "'standard input' row 1: 'tool' must be text" in err


def test_replay_says_when_evidence_could_not_be_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence that is not there is not passed over in silence."""
    monkeypatch.setattr(EvidenceFile, "failures", property(lambda self: 1))

    code, _, err = run("replay", "bad.json", "--rules", "rules.yaml", "--save-evidence", "e.jsonl")

    assert code == 2
    assert "could not write 'e.jsonl'" in err


# validate and schema


def test_validate(run: Run, tmp_path: Path) -> None:
    """What was understood is printed, groups and options included."""
    (tmp_path / "grouped.yaml").write_text(
        "groups: {g: [{template: init, args: [a], mode: shadow}]}\ncontracts: [{group: g}]\n"
    )

    code, out, err = run("validate", "rules.yaml")
    assert (code, err) == (0, "")
    assert out.splitlines()[:8] == [
        "OK — rules.yaml parses cleanly.",
        "State:",
        "  open: true",
        "Contracts (2):",
        "  - must_precede(backup, delete)",
        "      id: r1",
        "      severity: high",
        "      remedy: back up first",
    ]
    grouped = run("validate", "grouped.yaml")[1]
    assert "Groups (1):\n  - g (1):\n      - init(a)\n          mode: shadow\n" in grouped


def test_validate_of_rules_that_are_empty_on_purpose(run: Run, tmp_path: Path) -> None:
    """Nothing is nothing, and said so."""
    (tmp_path / "empty.yaml").write_text("allow_empty: true\n")

    assert "State: (none)\nContracts: (none)\n" in run("validate", "empty.yaml")[1]


def test_validate_as_json(run: Run) -> None:
    """The same as data."""
    code, out, _ = run("validate", "rules.yaml", "--json")

    result = json.loads(out)
    assert code == 0
    assert result["contracts"][0] == {
        "spec": "must_precede(backup, delete)",
        "template": "must_precede",
        "id": "r1",
        "severity": "high",
        "mode": "enforce",
        "on_violation": "refuse",
        "remedy": "back up first",
        "description": None,
    }
    assert (result["ok"], result["warnings"], result["groups"]) == (True, [], {})


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--strict"], 2)], ids=["lenient", "strict"])
def test_validate_reports_suspicious_names(run: Run, tmp_path: Path, arguments: list[str], code: int) -> None:
    """Names that may not be what they look like are told, and can be made an error."""
    (tmp_path / "odd.yaml").write_text("contracts: [{template: must_precede, args: [pay, Pay]}]")

    found, out, err = run("validate", "odd.yaml", *arguments)

    assert found == code
    assert err == "warning: odd.yaml:1: name 'Pay' differs only in case from 'pay'\n"
    said = "FAIL — odd.yaml has 1 warning." if code else "OK — odd.yaml parses cleanly, with 1 warning."
    assert out.splitlines()[0] == said
    result = json.loads(run("validate", "odd.yaml", "--json", *arguments)[1])
    assert (result["ok"], result["warnings"][0]["line"]) == (not code, 1)


def test_validate_warns_without_a_line_where_there_is_none(run: Run, tmp_path: Path) -> None:
    """JSON that the line finder does not understand, as a key too long for it, has warnings without lines."""
    name = "g" * 1100
    (tmp_path / "odd.json").write_text(
        f'{{"groups": {{"{name}": []}}, "contracts": [{{"template": "init", "args": ["a"]}}]}}'
    )

    for command in (["validate", "odd.json"], ["replay", "good.json", "--rules", "odd.json"]):
        assert run(*command)[2].startswith("warning: odd.json: group 'ggg"), command


def test_schema(run: Run) -> None:
    """The schema is printed as it is published."""
    code, out, _ = run("schema")

    assert code == 0
    assert json.loads(out) == rules_schema()


# init-config


def test_init_config(run: Run, tmp_path: Path) -> None:
    """The starter is commented, valid, and nothing in it is odd."""
    code, out, _ = run("init-config", "new.yaml")

    assert code == 0
    assert out == (
        "Wrote a starter rules file to new.yaml. Edit it, then try: openbox-agentrt validate new.yaml\n"
    )
    rules = read_rules(tmp_path / "new.yaml")
    assert rules.warnings == ()
    text = (tmp_path / "new.yaml").read_text(encoding="utf-8")
    for name in rules_schema()["$defs"]["contract"]["properties"]["template"]["enum"]:
        assert f"#   {name}(" in text
    assert yaml.safe_load(text)["contracts"]


def test_init_config_replaces_only_on_demand(run: Run, tmp_path: Path) -> None:
    """--force is needed to replace a file."""
    assert run("init-config", "rules.yaml")[0] == 2
    assert (tmp_path / "rules.yaml").read_text() == RULES
    assert run("init-config", "--force")[0] == 0
    assert (tmp_path / "rules.yaml").read_text(encoding="utf-8") != RULES


# verify


def log_of(path: Path, **options: Any) -> str:
    signer, public_key = ed25519_signer()
    with EvidenceFile(path, signer=signer, session_id="s", **options) as log:
        log.record(Violation("temporal", "must_precede(a, b)", "b\x1b", 1, args={"id": "\x1b[2J"}))
    return public_key


def test_verify_of_format_2(run: Run, tmp_path: Path) -> None:
    """What was found, and that a key is needed for more."""
    public_key = log_of(tmp_path / "e.jsonl", rules_hash=parse_rules(RULES).rules_hash)

    code, out, err = run("verify", "e.jsonl")
    assert code == 0
    first, log, sessions, times = out.splitlines()
    assert first == "OK — 2 line(s), 1 record(s): chain intact, head there."
    assert re.fullmatch(r"  log [0-9a-f]{32}, key [0-9a-f]{16}, closed", log)
    assert sessions == "  sessions: s"
    assert times.startswith("  from 2")
    assert err.startswith(
        "warning: verifying hash-chain linkage only, no --key given: nothing is authenticated"
    )
    assert err.count("\n") == 1
    code, out, err = run(
        "verify", "e.jsonl", "--public-key", public_key, "--session", "s", "--rules", "rules.yaml"
    )
    assert (code, err) == (0, "")
    assert "head there and signed" in out


def test_verify_takes_the_key_from_a_file(run: Run, tmp_path: Path) -> None:
    """The one beside the log, a copy of it, or the private key; `keys show` says what a file holds."""
    public_key = log_of(tmp_path / "e.jsonl")
    signer, own = ed25519_signer(tmp_path / "own.key")
    (tmp_path / "text").write_text("no key")
    (tmp_path / "copy").write_text(f"{public_key}\n")
    (tmp_path / "shown").write_text(run("keys", "show", public_key)[1])

    assert (tmp_path / "e.jsonl.pub").read_text() == f"{public_key}\n"
    for given in ("e.jsonl.pub", "copy", "shown", public_key):
        assert run("verify", "e.jsonl", "--public-key", given)[0] == 0
        assert run("keys", "show", given)[1].startswith(f"public key: {public_key}\nkey id:     ")
    assert json.loads(run("keys", "show", "own.key", "--json")[1]) == {
        "public_key": own,
        "key_id": signer.key_id,
    }
    assert run("verify", "e.jsonl", "--public-key", "own.key")[0] == 1
    assert run("keys", "show", "text")[::2] == (2, "error: key file holds no Ed25519 key: 'text'\n")
    assert run("keys", "show", "nothing")[0] == 2
    assert run("show", "e.jsonl", "--public-key", "copy")[0] == 0


def test_what_a_log_says_is_missing_comes_first(run: Run, tmp_path: Path) -> None:
    """And does not pass without a flag: the log holds, and not everything is in it."""

    class Strange:
        def to_dict(self) -> dict[str, Any]:
            raise RuntimeError("no")

    with EvidenceFile(tmp_path / "e.jsonl") as log:
        log.record(Strange())

    code, out, err = run("verify", "e.jsonl")
    assert (code, out) == (1, "")
    assert err.startswith("LOST: 1 record(s) are missing by the log's own account\n")
    assert "INCOMPLETE — 2 entries hold, and the log says itself that 1 more could not be recorded." in err
    assert run("verify", "e.jsonl", "--allow-gaps")[0] == 0
    assert json.loads(run("verify", "e.jsonl", "--json")[1])["lost"] == 1


def test_verify_derives_decisions_again(run: Run, tmp_path: Path) -> None:
    """How many follow from the rules, and which do not; also under which rules."""
    rules = read_rules(tmp_path / "rules.yaml")
    with EvidenceFile(tmp_path / "e.jsonl", record="steps") as log:
        session = Session(contracts=rules, evidence=log)
        session.reserve("other")
        session.reserve("delete")
    code, out, _ = run("verify", "e.jsonl", "--rerun", "--rules", "rules.yaml")
    assert code == 0
    assert "2 decision(s) re-derived, 0 differ\n" in out
    assert "shadow" not in out
    with EvidenceFile(tmp_path / "watched.jsonl", record="steps") as log:
        Session(contracts=rules, evidence=log, mode="shadow").reserve("delete")
    assert (
        "  1 let through what contracts refuse (shadow mode)\n"
        in run("verify", "watched.jsonl", "--rerun")[1]
    )

    (tmp_path / "strange.yaml").write_text("contracts: [{template: init, args: [x]}]")
    code, _, err = run("verify", "e.jsonl", "--rerun", "--rules", "strange.yaml")
    assert code == 1
    with EvidenceFile(tmp_path / "forged.jsonl", record="steps") as log:
        for step in ({"e": "start", "state": {}, "max_keys": 9, "halts": False}, *_FORGED):
            log.record_step({"run": "r", "rules": rules.contracts_hash, **step})
        log.record_rules(
            {
                "hash": rules.contracts_hash,
                "contracts": [meaning_of(contract) for contract in rules.contracts],
                "texts": ["first"],
            }
        )
    code, _, err = run("verify", "forged.jsonl", "--rerun")
    assert code == 1
    assert "1 decision(s) re-derived, 1 differ" in err
    assert "DIFFERS line 2, step 1 'delete': recorded allowed; derived refused, breaks first" in err
    assert "NOT FOLLOWED line 3: unknown step 'jump'" in err
    assert json.loads(run("verify", "forged.jsonl", "--rerun", "--json")[1])["rerun"]["ok"] is False
    log_of(tmp_path / "plain.jsonl")
    code, _, err = run("verify", "plain.jsonl", "--rerun")
    assert code == 1
    assert "the log holds no steps" in err


_FORGED = (
    {"e": "reserve", "step": 1, "tool": "delete", "args": {}, "allowed": True},
    {"e": "jump", "step": 2},
)


def test_verify_of_a_log_by_its_identity(run: Run, tmp_path: Path) -> None:
    """Two logs of one session and key are two logs."""
    log_of(tmp_path / "e.jsonl")
    log_id = verify_file(tmp_path / "e.jsonl").log_id

    assert log_id is not None
    assert run("verify", "e.jsonl", "--log-id", log_id)[0] == 0
    code, _, err = run("verify", "e.jsonl", "--log-id", "ab" * 16)
    assert code == 1
    assert f"this is log '{log_id}'" in err


def test_an_open_log_says_so(run: Run, tmp_path: Path) -> None:
    """What is there is not all that there will be."""
    with EvidenceFile(tmp_path / "e.jsonl") as log:
        log.seal()
        code, out, err = run("verify", "e.jsonl")

    assert code == 0
    assert ", open\n" in out
    assert "note: the log is open: its writer may go on" in err


def test_verification_shows_signs_of_life(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long log says how far it is."""
    monkeypatch.setattr("openbox_agentrt.cli.progress._SECONDS", 0.0)
    monkeypatch.setattr("openbox_agentrt.cli.progress._LOOK_EVERY", 1)
    log_of(tmp_path / "e.jsonl")

    assert "1 lines ...\n2 lines ...\n" in run("verify", "e.jsonl")[2]


def test_verify_of_format_1(run: Run, tmp_path: Path) -> None:
    """The sentences are acel-core's."""
    code, out, err = run("verify", str(VECTORS / "format1" / "genuine.json"), "--public-key", PUBLIC_KEY)

    assert (code, err) == (0, "note: format 1 does not show whether entries were cut from the end\n")
    assert out == (
        "OK — 3 bundle(s) verified. "
        "Hash chain is intact and every signature checks out, no tampering detected.\n"
    )


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (
            "format1/changed.json",
            "Bundle 1 (of 3) is the first to break the chain — bundle 1 is not what its hash",
        ),
        ("format1/not-a-bundle.json", "Bundle 1 (of 3) is the first"),
        ("format2/changed.jsonl", "(changed) in changed.jsonl — line 2 is not what its hash was taken of"),
        ("format2/truncated.jsonl", "(truncated) — the log ends after 3 of 4 lines"),
        ("format2/emptied.jsonl", "(emptied) — the log is empty, its head vouches for 4 lines"),
        ("format2/resigned.jsonl", "(wrong_signer) — the head is not signed with this key"),
        ("format2/head-missing.jsonl", "(headless) — the head is missing"),
    ],
)
def test_verify_finds_tampering(run: Run, vector: str, message: str) -> None:
    """Exit code 1, with what was found and where."""
    code, out, err = run("verify", str(VECTORS / vector), "--public-key", PUBLIC_KEY)

    assert (code, out) == (1, "")
    assert "FAIL — tampering detected" in err
    assert message in err


def test_verify_of_another_session(run: Run, tmp_path: Path) -> None:
    """A log that is genuine and of another session is found."""
    log_of(tmp_path / "e.jsonl")

    code, out, err = run("verify", "e.jsonl", "--session", "other")

    assert (code, out) == (1, "")
    assert "FAIL — not the log that was asked for" in err
    assert "session 's', not 'other'" in err
    assert "tampering" not in err


def test_verify_of_a_log_that_names_no_rules(run: Run, tmp_path: Path) -> None:
    """Nobody can say that it is of these; nor that anybody changed it."""
    log_of(tmp_path / "e.jsonl")

    code, _, err = run("verify", "e.jsonl", "--rules", "rules.yaml")

    assert code == 1
    assert "not the log that was asked for (foreign)" not in err
    assert "the log does not say which rules it is of" in err


def test_verify_with_a_head_that_was_kept(run: Run, tmp_path: Path) -> None:
    """A log that was set back with its head is found."""
    vector = VECTORS / "format2" / "set-back-with-its-head-is-not-found.jsonl"
    genuine = VECTORS / "format2" / "genuine.jsonl.head"

    assert run("verify", str(vector), "--public-key", PUBLIC_KEY)[0] == 0
    code, _, err = run("verify", str(vector), "--public-key", PUBLIC_KEY, "--head", str(genuine))
    assert code == 1
    assert "(truncated)" in err


def test_verify_of_a_part(run: Run) -> None:
    """Earlier parts may have been put away, if one says so."""
    vector = VECTORS / "format2" / "earlier-parts-put-away.jsonl"

    assert run("verify", str(vector), "--public-key", PUBLIC_KEY)[0] == 1
    code, _, err = run("verify", str(vector), "--public-key", PUBLIC_KEY, "--partial")
    assert code == 0
    assert "lines before this part were not looked at" in err


def test_with_a_key_unsigned_lines_do_not_pass(run: Run) -> None:
    """What no signature covers may have been put there by anyone, so it takes a flag to pass."""
    vector = VECTORS / "format2" / "appended-to-an-open-log-is-not-authenticated.jsonl"

    code, out, err = run("verify", str(vector), "--public-key", PUBLIC_KEY)
    assert (code, out) == (1, "")
    assert "UNSIGNED — 5 line(s) hold, but a signature covers only 4 of them." in err
    assert run("verify", str(vector), "--public-key", PUBLIC_KEY, "--allow-unsigned")[0] == 0
    assert run("verify", str(vector))[0] == 0


def test_verify_as_json(run: Run) -> None:
    """The report is data, whatever it says."""
    code, out, _ = run("verify", str(VECTORS / "format2" / "changed.jsonl"), "--json")

    assert code == 1
    assert json.loads(out)["problem"] == "changed"


def test_verify_of_nothing(run: Run, tmp_path: Path) -> None:
    """An empty log of format 1 is no error."""
    (tmp_path / "empty.json").write_text("[]")

    code, out, _ = run("verify", "empty.json", "--public-key", PUBLIC_KEY)

    assert (code, out) == (0, "OK — empty.json contains 0 bundles (nothing to verify).\n")
    assert run("show", "empty.json") == (0, "empty.json: 0 bundles (no violations recorded).\n", "")


# show


def test_show_of_format_2(run: Run, tmp_path: Path) -> None:
    """Each line is shown, with nothing that a terminal would act upon."""
    public_key = log_of(tmp_path / "e.jsonl")

    code, out, _ = run("show", "e.jsonl", "--trace", "--public-key", public_key)

    assert code == 0
    assert out.startswith("ACEL Evidence Log — e.jsonl\n2 line(s), chain + signatures OK\n\n[0] ")
    assert "header  session s\n" in out
    assert (
        "step 1  session s\n    kind:     temporal\n    contract: must_precede(a, b)\n    tool:     b\\x1b\n"
        in out
    )
    assert '    args:     {"id": "\\u001b[2J"}\n    trace (0 call(s) leading up to this):\n' in out
    assert "(signature verified)" in out
    assert "\x1b" not in out


def test_show_of_a_folder_with_one_log(run: Run, tmp_path: Path) -> None:
    """A folder stands for its log, also where that has no steps."""
    log_of(tmp_path / "logs" / "e.jsonl")

    code, out, err = run("show", "logs")

    assert (code, err) == (0, "")
    assert "logs/e.jsonl\n2 line(s), chain OK" in out


def test_show_of_decisions(run: Run, tmp_path: Path) -> None:
    """Decisions are shown with what they hold, and one session can be picked."""
    with EvidenceFile(tmp_path / "e.jsonl", record="all") as log:
        log.for_session("s-1").record_decision({"verdict": "block", "risk_score": 0.5, "policy_id": None})
        log.for_session("s-2").record_decision({"verdict": "allow"})

    _, out, _ = run("show", "e.jsonl", "--session", "s-1")

    assert "decision  session s-1\n    risk_score: 0.5\n    verdict:  block\n    hash:" in out
    assert "s-2" not in out
    assert "chain OK (no --key given" in out
    assert "(unsigned)" in out


def test_show_of_a_violation_with_everything(run: Run, tmp_path: Path) -> None:
    """Result, state, advice and trace are shown if they are there."""
    log = EvidenceLog(lambda data: "00")
    log.record(
        Violation(
            "postcondition",
            "ok",
            "pay",
            2,
            [{"step": 1, "tool": "log_in", "args": {"u": "ann"}, "result": True}],
            {"open": True},
            {},
            {"paid": False},
        )
    )
    bundles = json.loads(log.to_json())
    bundles[0]["violation"] |= {
        "id": "r1",
        "needs": "log_in",
        "trace": [*bundles[0]["violation"]["trace"], "odd"],
    }
    (tmp_path / "e.json").write_text(json.dumps(bundles))

    code, out, _ = run("show", "e.json", "--trace")

    assert code == 1
    assert (
        '    result:   {"paid": false}\n    state:    {"open": true}\n'
        "    id:       r1\n    needs:    log_in\n" in out
    )
    assert '    trace (2 call(s) leading up to this):\n      step 1: log_in({"u": "ann"}) -> true\n' in out
    assert "      step ?: odd({}) -> null\n" in out
    assert "(signature present (unverified — pass --key to check it))" in out


def test_show_of_what_is_no_trace(run: Run, tmp_path: Path) -> None:
    """A trace that is none is shown as empty."""
    (tmp_path / "e.json").write_text('[{"timestamp": "t", "violation": {"trace": 5}, "bundle_hash": "h"}]')
    genuine = json.loads((VECTORS / "format1" / "genuine.json").read_text())
    genuine[2]["violation"] = {"trace": 5}
    (tmp_path / "e.json").write_text(json.dumps(genuine))

    assert "trace (0 call(s)" in run("show", "e.json", "--trace")[1]


@pytest.mark.parametrize(
    ("vector", "key", "expected"),
    [
        (
            "format1/changed.json",
            True,
            [
                "CHAIN BROKEN at bundle 1 (chain or signature)",
                "step 2  ⚠ CHAIN BROKEN HERE",
                "step 3  ⚠ untrustworthy (chain broke earlier)",
                "(signature verified)",
                "(signature INVALID or missing (or chain broke here))",
                "(not checked — chain already broken earlier)",
            ],
        ),
        (
            "format1/changed.json",
            False,
            ["CHAIN BROKEN at bundle 1: bundle 1 is not what its hash was taken of"],
        ),
        (
            "format2/changed.jsonl",
            True,
            ["CHAIN BROKEN at line 2", "⚠ CHAIN BROKEN HERE", "(holds, but the log does not)"],
        ),
        (
            "format2/appended-to-an-open-log-is-not-authenticated.jsonl",
            True,
            ["chain OK, 4 of 5 line(s) are covered by a signature", "(see above for what is signed)"],
        ),
        (
            "format2/genuine.jsonl",
            False,
            ["(signature present (unverified — pass --key to check it))"],
        ),
    ],
)
def test_show_marks_what_does_not_hold(run: Run, vector: str, key: bool, expected: list[str]) -> None:
    """A reader sees how far the log can be trusted."""
    arguments = ["--public-key", PUBLIC_KEY] if key else []

    code, out, _ = run("show", str(VECTORS / vector), *arguments)

    assert code == (1 if "changed" in vector else 0)
    for text in expected:
        assert text in out


def test_show_ends_where_nothing_can_be_read(run: Run) -> None:
    """What is there is shown, and that there is more which cannot be."""
    code, out, err = run("show", str(VECTORS / "format2" / "line-inserted-that-is-none.jsonl"))

    assert code == 1
    assert "[1]" in out
    assert "[2]" not in out
    assert "the rest cannot be shown: not a line of an evidence log" in err


def test_show_as_json_is_json(run: Run, tmp_path: Path) -> None:
    """What acel-core writes and JSON does not know is told in JSON."""
    bundle = {"timestamp": "t", "violation": {"args": {"n": float("nan")}}, "bundle_hash": "h"}
    genuine = json.loads((VECTORS / "format1" / "genuine.json").read_text())
    (tmp_path / "e.json").write_text(json.dumps([genuine[0], {**genuine[1], **bundle}]))

    shown = json.loads(run("show", "e.json", "--json")[1], parse_constant=lambda name: pytest.fail(name))

    assert shown["entries"][1]["data"] == {"args": {"n": {"$float": "nan"}}}


def test_show_as_json(run: Run, tmp_path: Path) -> None:
    """The log and the report on it, as data."""
    log_of(tmp_path / "e.jsonl")

    code, out, _ = run("show", "e.jsonl", "--json")

    shown = json.loads(out)
    assert code == 0
    assert shown["report"]["ok"] is True
    assert [entry["type"] for entry in shown["entries"]] == ["header", "violation"]
