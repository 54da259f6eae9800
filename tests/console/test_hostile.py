"""Whatever an agent, a policy or a forged log puts into a field, a page stays a page and shows it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from benchmarks.rechaining import rechained
from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt._plain.freezing import freeze
from openbox_agentrt.acel import must_precede
from openbox_agentrt.console import words
from openbox_agentrt.console.values import MOST_ARGUMENTS, arguments_of
from openbox_agentrt.errors import ContractRefusedError
from openbox_agentrt.evidence.format2.parsing import LogLine, parse_line
from tests.console.desk import Desk, OpenDesk, opened_desk

HIDDEN = "a\u202eb\x00c\u200bd<script>alert(1)</script>\"'><img src=x>"
FIELDS = ("agent_name", "activity_type", "session_id", "run_id", "reason", "name", "value")


def _asked(open_desk: OpenDesk, field: str, value: str) -> tuple[Desk, list[str]]:
    """Let a call wait that has `value` in one of its fields; give the pages on which it is."""

    def policy(event: dict[str, Any]) -> Any:
        return {"decision": "REQUIRE_APPROVAL", "reason": value if field == "reason" else "it says so"}

    desk = open_desk(policy)
    event = {"activity_type": "refund", "activity_input": [{"amount": 1}]}
    if field in ("name", "value"):
        event["activity_input"] = [{value: 1} if field == "name" else {"amount": value}]
    elif field != "reason":
        event[field] = value
    run = event.pop("run_id", "run-1")
    desk.post(str(run), workflow_id="w", event_type="WorkflowStarted")
    desk.post(str(run), workflow_id="w", event_type="ActivityStarted", activity_id="a", **event)
    approval = desk.core.pending_approvals()[0]
    pages = ["/", "/approvals", "/runs", f"/approvals/{approval.id}"]
    return desk, [*pages, "/api/v1/approvals", "/api/v1/runs", f"/runs/{quote(str(run), safe='')[:2000]}"]


@pytest.mark.parametrize("field", FIELDS)
def test_nothing_hides_or_moves_in_any_field(open_desk: OpenDesk, field: str) -> None:
    """Neither markup, nor what turns text around, nor what cannot be seen."""
    desk, pages = _asked(open_desk, field, HIDDEN)
    with desk.client() as client:
        answers = [client.get(page) for page in pages]

    assert {answer.status_code for answer in answers} == {200}
    shown = [answer.text for answer in answers if "html" in answer.headers["content-type"]]
    assert any("U+202E" in page for page in shown)
    for page in shown:
        assert not {"\u202e", "\x00", "\u200b"} & set(page)
        assert "<script>alert" not in page
        assert "<img" not in page


@pytest.mark.parametrize("field", ["activity_type", "reason", "name", "value"])
def test_a_megabyte_in_any_field_makes_no_page_long(open_desk: OpenDesk, field: str) -> None:
    """It is shown by its beginning, its end and its length; an argument is there to its last word."""
    desk, pages = _asked(open_desk, field, "m" * 1_000_000)
    with desk.client() as client:
        for page in pages[:4]:
            answer = client.get(page)
            assert answer.status_code == 200
            assert len(answer.content) < 60_000
        if field == "value":
            assert "m" * 1_000_000 in client.get(f"{pages[3]}/values/0").text


def test_very_many_arguments_are_folded_and_none_is_left_out(desk: Desk) -> None:
    """Those after the first hundred are one long value; the hash is of all."""
    given = {f"name {number}": number for number in range(5_000)}
    approval = desk.ask("refund", given)
    with desk.client() as client:
        page = client.get(f"/approvals/{approval}")
        rest = client.get(f"/approvals/{approval}/values/{MOST_ARGUMENTS}").text

    assert len(page.content) < 60_000
    assert f"and {5_000 - MOST_ARGUMENTS:,} more" in page.text
    assert "name 4999" in rest
    assert f"name {MOST_ARGUMENTS}&#34;" in rest
    event = {"activity_input": [given]}
    changed = {"activity_input": [given | {"name 4999": 0}]}
    assert arguments_of(event).sha256 != arguments_of(changed).sha256


@pytest.mark.parametrize("run", ["a/b", "a?b#c", "a/halt"])
def test_a_run_of_any_name_can_be_seen_and_halted(desk: Desk, run: str) -> None:
    """Whoever writes its own SDK names its runs."""
    desk.start(run)
    with desk.client() as client:
        link = f'href="/runs/{quote(run)}"'
        assert link in client.get("/runs").text
        page = client.get(f"/runs/{quote(run)}")
        token = page.text.partition('name="token" value="')[2].partition('"')[0]
        done = client.post(
            f"/runs/{quote(run)}/halt", data={"token": token, "reason": "stop"}, headers={"origin": desk.url}
        )
        listed = client.get(f"/api/v1/runs/{quote(run)}").json()

    assert page.status_code == 200
    assert done.status_code == 303
    assert [(halt.kind, halt.value) for halt in desk.core.halts()] == [("run", run)]
    assert listed["run"]["halted"] == "stop (halted by night-desk)"


def test_a_reason_that_quotes_a_secret_is_shown_without_it(open_desk: OpenDesk) -> None:
    """A policy may quote what it was asked about: on no page, and not as JSON."""
    key = "sk-ant-" + "a1B2" * 20

    def policy(event: dict[str, Any]) -> Any:
        if event["event_type"] != "ActivityStarted":
            return None
        decision = "BLOCK" if event["activity_type"] == "mail" else "REQUIRE_APPROVAL"
        return {"decision": decision, "reason": f"looks like {key}, and pin=4711"}

    desk = open_desk(policy, redact_fields=["pin"])
    desk.start()
    approval = desk.ask("refund", {"amount": 1})
    desk.ask("mail", {"to": "a"}, activity="a-2")
    paths = ("/", "/approvals", "/runs/run-1", f"/approvals/{approval}")
    with desk.client() as client:
        pages = [client.get(path).text for path in (*paths, "/api/v1/approvals", "/api/v1/runs/run-1")]

    assert all("looks like" in page for page in pages)
    assert not [page for page in pages if key in page or "4711" in page]


@pytest.fixture(scope="module")
def forged_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A console that follows two logs, the first of a run with a refused call."""
    folder = tmp_path_factory.mktemp("forged")
    logs = [folder / "a.jsonl", folder / "b.jsonl"]
    with ExitStack() as opened:
        desk = opened_desk(opened, folder / "core.sqlite3", evidence=logs)

        async def work() -> None:
            governance = await create_openbox_agentrt(
                core=desk.core, contracts=[must_precede("verify", "mail")], evidence=logs[0], record="steps"
            )
            async with governance, governance.run_scope("work"):
                with pytest.raises(ContractRefusedError):
                    async with governance.activity("mail", {"to": "a"}):
                        pass
                async with governance.activity("verify"):
                    pass

        asyncio.run(work())
        (folder / "good").write_bytes(logs[0].read_bytes())
        yield desk


def _forged(log: Path, kind: str, name: str, value: Any) -> None:
    """Write a log anew in which one field is another: every hash is right."""

    def forge(line: LogLine, body: dict[str, Any]) -> None:
        if line.type == kind:
            body[name] = freeze(value)

    log.write_bytes(rechained(log.read_bytes().splitlines(keepends=True), forge)[0])


@pytest.mark.parametrize(
    ("kind", "name", "page"),
    [
        ("decision", "contracts", "/"),
        ("decision", "acel_seconds", "/"),
        ("decision", "step", "/runs/RUN"),
        ("violation", "retry_after", "/runs/RUN"),
        ("rules", "texts", "/evidence"),
        ("rules", "contracts", "/shadow"),
        ("step", "args", "/contracts"),
    ],
)
def test_a_forged_log_breaks_no_page(forged_desk: Desk, kind: str, name: str, page: str) -> None:
    """Nor does it keep other logs from being followed."""
    log, other = (one.path for one in forged_desk.sources.logs)
    followed = forged_desk.sources.logs[1]
    run = forged_desk.sources.reader.runs(limit=1)[0].run_id
    with forged_desk.client() as client:
        for value in (True, 1e308, HIDDEN, [[1]], {"a": 1}):
            log.write_bytes((log.parent / "good").read_bytes())
            _forged(log, kind, name, value)
            with other.open("ab") as file:
                file.write(b"\n")

            forged_desk.sources.refresh()

            assert len(followed) == other.stat().st_size
            answer = client.get(page.replace("RUN", run))
            assert answer.status_code == 200
            assert "\u202e" not in answer.text


def test_a_log_that_was_written_anew_names_no_session(forged_desk: Desk) -> None:
    """A page may have listed its sessions a moment before."""
    log = forged_desk.sources.logs[0]
    log.path.write_bytes((log.path.parent / "good").read_bytes())
    forged_desk.sources.refresh()
    run = log.sessions()[-1]
    assert log.session_of(run) is not None

    log.path.write_bytes(b"")
    forged_desk.sources.refresh()

    assert log.sessions() == []
    assert log.session_of(run) is None


def test_rules_whose_terms_are_none_are_not_built(forged_desk: Desk) -> None:
    """They were tampered with, and verification says so."""
    log = forged_desk.sources.logs[0].path
    rules = next(
        line.fields
        for line in map(parse_line, (log.parent / "good").read_bytes().splitlines(keepends=True))
        if line.type == "rules"
    )
    log.write_bytes((log.parent / "good").read_bytes())
    _forged(log, "rules", "contracts", [{**rules["contracts"][0], "terms": "x"}])
    forged_desk.sources.refresh()
    with forged_desk.client() as client:
        assert client.get("/shadow").status_code == 200


def test_a_length_of_time_without_end_can_be_said() -> None:
    """The median of two numbers of a forged log may be infinite."""
    assert words.lasting(math.inf) == words.left(math.inf) == words.left(1e300)
    assert words.age(math.inf).endswith(" d")
    assert words.left(math.nan) == "0 s"
