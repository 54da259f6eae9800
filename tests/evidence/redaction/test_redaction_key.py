"""One key for redaction markers: equal secrets look equal in all logs, and nobody else can guess them."""

from __future__ import annotations

import io
import json
import logging
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_n_times, at_most_total, must_precede
from openbox_agentrt.cli.hook import main as hook
from openbox_agentrt.doors.stdio_proxy.command import proxy
from openbox_agentrt.errors import OptionError
from openbox_agentrt.evidence import EvidenceFile, KeyFileError, Redactor, ed25519_signer, read_entries
from openbox_agentrt.evidence.redaction.markers import redaction_marker

MARKER = re.compile(r"\"pin\": \"([^\"]+)\"")
SECRET = {"id": 1, "pin": "1234"}


def refused_pin(path: Path, **options: Any) -> str:
    """The marker that a session writes in the place of a refused pin."""
    with EvidenceFile(path, redact_fields=["pin"], **options) as log:
        Session(contracts=[must_precede("ask", "pay")], evidence=log).reserve("pay", SECRET)
    return marker_in(path)


def marker_in(path: Path) -> str:
    found: set[str] = {
        text for entry in read_entries(path) for text in MARKER.findall(json.dumps(entry.data))
    }
    assert len(found) == 1
    return found.pop()


def test_equal_secrets_have_equal_markers_over_logs(tmp_path: Path) -> None:
    """Whoever signs, and after a restart too; with another key or none, they differ."""
    key = tmp_path / "redaction.key"
    signers = [None, *(ed25519_signer(tmp_path / f"{name}.key")[0] for name in "ab")]
    markers = {
        refused_pin(tmp_path / f"{number}.jsonl", signer=signer, redaction_key=key)
        for number, signer in enumerate(signers)
    }
    assert len(markers) == 1
    others = {refused_pin(tmp_path / "x.jsonl", redaction_key=b"k" * 16), refused_pin(tmp_path / "y.jsonl")}
    assert len(markers | others) == 3
    # Who has the key can tell; who has not, cannot: a hash of the value alone is another one.
    assert markers == {redaction_marker("1234", key.read_bytes())}
    assert markers != {redaction_marker("1234")}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_key_file_is_made_private_and_has_to_stay_so(tmp_path: Path) -> None:
    """One that others can read keeps no secret."""
    key = tmp_path / "folder" / "redaction.key"
    refused_pin(tmp_path / "e.jsonl", redaction_key=key)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.chmod(0o644)
    with pytest.raises(KeyFileError, match="can be read by others"):
        EvidenceFile(tmp_path / "f.jsonl", redaction_key=key)
    assert not (tmp_path / "f.jsonl.lock").exists()
    with pytest.raises(ValueError, match="at least 16 bytes"):
        EvidenceFile(tmp_path / "f.jsonl", redaction_key=b"short")


def test_a_redactor_with_a_key_of_its_own_keeps_that(tmp_path: Path) -> None:
    """Who made it meant it."""
    own = Redactor(["pin"], key=b"its own key, 16+")
    with EvidenceFile(tmp_path / "e.jsonl", redact_fields=own, redaction_key=b"k" * 16) as log:
        assert log.marker_key == b"its own key, 16+"


async def test_governed_runs_mark_with_the_key(make_stage: Any, tmp_path: Path) -> None:
    """In the evidence, and in the fields of the program's log."""
    key = b"a key for all workers"
    markers = set()
    for name in ("a", "b"):
        path = tmp_path / f"{name}.jsonl"
        stage = await make_stage(
            contracts=[must_precede("ask", "pay")], evidence=path, redact_fields=["pin"], redaction_key=key
        )
        async with stage.governance.run_scope():
            with pytest.raises(Exception, match="must_precede"):
                async with stage.governance.activity("pay", SECRET):
                    pass
        await stage.governance.aclose()
        entries = [entry for entry in read_entries(path) if entry.type == "violation"]
        markers |= {entry.data["args"]["pin"] for entry in entries}
    assert markers == {redaction_marker("1234", key)}


async def test_a_key_that_cannot_be_used_is_an_error_of_the_option(make_stage: Any, tmp_path: Path) -> None:
    """Before anything is sent; its bytes are never shown."""
    with pytest.raises(OptionError, match="redaction_key") as caught:
        await make_stage(evidence=tmp_path / "e.jsonl", redaction_key=b"hunter2")
    assert "hunter2" not in str(caught.value)
    given = "has to be given to the evidence file"
    with EvidenceFile(tmp_path / "f.jsonl") as log, pytest.raises(OptionError, match=given):
        await make_stage(evidence=log, redaction_key=b"k" * 16)


def test_hooks_and_the_proxy_mark_with_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hook is a process of its own, and the proxy is another."""
    rules, key = tmp_path / "rules.json", tmp_path / "redaction.key"
    rules.write_text(json.dumps({"contracts": [{"template": "must_precede", "args": ["ask", "pay"]}]}))
    hidden = ["--redact-field", "pin", "--redaction-key", str(key)]
    for number in (1, 2):
        call = {"tool_name": "pay", "tool_input": SECRET, "tool_use_id": "t-1"}
        event = {"hook_event_name": "PreToolUse", "session_id": f"s-{number}", **call}
        text = io.BytesIO(json.dumps(event).encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(text))
        assert hook(["pre", "--rules", str(rules), "--state-dir", str(tmp_path / "state"), *hidden]) == 0
    logs = list((tmp_path / "state").glob("*.evidence.jsonl"))
    markers = {marker_in(log) for log in logs}
    assert (len(logs), markers) == (2, {redaction_marker("1234", key.read_bytes())})

    evidence = tmp_path / "proxy.jsonl"
    code = proxy(
        [sys.executable, "-c", ""],
        contracts=str(rules),
        evidence=str(evidence),
        redact_fields=["pin"],
        redaction_key=str(key),
    )
    assert code == 0
    with EvidenceFile(evidence, redact_fields=["pin"], redaction_key=key) as log:
        assert log.marker_key == key.read_bytes()


@pytest.mark.parametrize("governed", [False, True])
async def test_an_amount_that_is_redacted_is_said_when_the_session_is_made(
    governed: bool, make_stage: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not when the first call is judged, and once."""
    rules = [at_most_total("pay", "amount", 100), at_most_n_times("pay", 3, key="pin")]
    path = tmp_path / "e.jsonl"
    with caplog.at_level(logging.WARNING, "openbox_agentrt.evidence"):
        if governed:
            stage = await make_stage(
                contracts=rules, evidence=path, record="steps", redact_fields=["amount", "pin"]
            )
            assert len(caplog.messages) == 1
            async with stage.governance.run_scope():
                pass
            await stage.governance.aclose()
        else:
            with EvidenceFile(path, record="steps", redact_fields=["amount", "pin"]) as log:
                session = Session(contracts=rules, evidence=log.for_session("s-1"))
                assert len(caplog.messages) == 1
                session.reserve("pay", {"amount": 3, "pin": 1})
                Session(contracts=rules, evidence=log.for_session("s-2"))
    needs = "at_most_total(pay, amount, limit=100) needs 'amount', which is redacted here"
    assert caplog.messages == [f"{needs}: its decisions cannot be derived again"]


@pytest.mark.parametrize("record", ["violations", "all"])
def test_nothing_is_said_where_nothing_is_derived(
    record: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Decisions can be derived again from steps only."""
    with EvidenceFile(tmp_path / "e.jsonl", record=record, redact_fields=["amount"]) as log:
        Session(contracts=[at_most_total("pay", "amount", 100)], evidence=log)
    assert caplog.messages == []
