"""Contracts, shadow mode, evidence and the overview say what the command line and the engine say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from openbox_agentrt.acel import (
    Session,
    at_most_n_times,
    at_most_total,
    must_precede,
    never_after,
    rate_limit,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.engine.store.standing import standings
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.cli import main
from openbox_agentrt.console.sessions import LiveSessions
from openbox_agentrt.evidence import EvidenceFile, ed25519_signer
from tests.console.desk import Desk, OpenDesk

CALLS = (
    ("verify", {"customer": "a"}),
    ("refund", {"customer": "a", "amount": 120}),
    ("refund", {"customer": "b", "amount": 10}),
    ("mail", {"to": "a"}),
    ("mail", {"to": "a"}),
    ("close", {"customer": "a"}),
)


def _contracts() -> tuple[TemporalContract, ...]:
    return (
        must_precede("verify", "refund", key="customer", id="verify-first"),
        at_most_total("refund", "amount", limit=500, key="customer", id="refund-cap"),
        rate_limit("mail", 2, 60, id="mail-rate"),
        at_most_n_times("close", n=1),
        never_after("close", "read_card"),
        must_precede("read_policy", "close", id="policy-first", mode="shadow"),
        at_most_n_times("never_called", n=1, mode="shadow"),
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "refunds.jsonl"


def _until(holds: Callable[[], bool]) -> None:
    """Wait for what another thread does, for as long as a busy machine may need."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def _verified(desk: Desk, lines: int) -> None:
    followed = desk.sources.logs[0]
    _until(lambda: followed.report is not None and followed.report.count >= lines)


def _rules(tmp_path: Path) -> Path:
    rules = tmp_path / "rules.json"
    contracts = [
        {"template": "must_precede", "args": ["verify", "refund"], "id": "verify-first"},
        {"template": "at_most_n_times", "args": ["refnud"], "kwargs": {"n": 1}, "mode": "shadow"},
    ]
    rules.write_text(json.dumps({"contracts": contracts}))
    return rules


def test_contracts_stand_as_in_the_live_session(open_desk: OpenDesk, log: Path) -> None:
    """Built again from its steps, a session refuses the same calls and counts the same."""
    with EvidenceFile(log, record="steps") as evidence:
        session = Session(contracts=_contracts(), evidence=evidence, session_id="s-20418")
        for tool, args in CALLS:
            reservation = session.reserve(tool, args)
            if reservation.allowed:
                reservation.commit({"done": True})
        under_way = session.reserve("refund", {"customer": "a", "amount": 300})
        desk = open_desk(evidence=[log])
        sessions = LiveSessions(desk.sources)
        _until(lambda: any(known.steps == 13 for known in sessions.open()))
        known = sessions.open()[0]

        assert known.problem == ""
        assert known.flying == session.in_flight == 1
        assert known.name == "s-20418"
        for tool, args in (*CALLS, ("refund", {"customer": "a", "amount": 80}), ("read_card", {})):
            theirs, ours = known.would(tool, dict(args)), session.would(tool, args)
            assert _told(theirs) == _told(ours)
        built = [(known.text_of(one.contract), *_shown(one)) for one in known.standings()]
        live = [(one.contract.spec, *_shown(one)) for one in standings(engine_of(session).store)]
        assert sorted(built, key=repr) == sorted(live, key=repr)
        assert known.store is not None
        assert [known.text_of(breach.contract) for breach in known.store.unmet()] == session.unmet()
        under_way.commit()


def _told(refusal: Any) -> Any:
    if refusal is None:
        return None
    return {(one.contract, one.needs, one.remaining, one.blame) for one in refusal.broken}


def _shown(one: Any) -> tuple[Any, ...]:
    return one.key, one.others, one.used, one.left, one.needs, one.owed, one.refuses


def test_a_dry_run_says_what_would_unblock_a_call(open_desk: OpenDesk, tmp_path: Path) -> None:
    """It is asked by a form, and moves nothing."""
    desk = open_desk(rules=_rules(tmp_path))
    with desk.client() as client:
        page = client.get("/contracts").text
        form = {"token": _field(page, "token"), "session": "new", "tool": "refund", "args": '{"amount": 5}'}
        refused = client.post("/contracts", data=form, headers={"origin": desk.url}).text
        allowed = client.post("/contracts", data=form | {"tool": "verify"}, headers={"origin": desk.url}).text
        wrong = client.post("/contracts", data=form | {"args": "{"}, headers={"origin": desk.url}).text

    assert "Would be refused" in refused
    assert "<b>verify</b> first" in refused
    assert "Would be allowed" in allowed
    assert "arguments are not JSON" in wrong


def test_the_headline_says_when_no_session_is_open(open_desk: OpenDesk, log: Path, tmp_path: Path) -> None:
    """What stands below is how one begins, and in which some calls would be refused."""
    rules = tmp_path / "rules.json"
    source = {"template": "came_from", "args": ["mail", "to", ["prompt"]], "id": "known"}
    rules.write_text(json.dumps({"contracts": [source]}))
    with EvidenceFile(log, record="steps") as evidence:
        Session(contracts=_contracts(), evidence=evidence).end_session()
    desk = open_desk(evidence=[log], rules=rules)
    with desk.client() as client:
        page = client.get("/contracts").text
        rows = client.get("/api/v1/contracts").json()["states"]

    assert "<h1>No session is open</h1>" in page
    assert "Below is how one begins." in page
    assert [(row["name"], row["refuses"]) for row in rows] == [("known", "any other value")]


def _field(page: str, name: str) -> str:
    return page.partition(f'name="{name}" value="')[2].partition('"')[0]


def test_the_shadow_report_is_that_of_the_command_line(
    open_desk: OpenDesk, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Contract by contract, with the same examples."""
    with EvidenceFile(log, record="steps") as evidence:
        for number in range(3):
            session = Session(contracts=_contracts(), evidence=evidence, session_id=f"s-{number}")
            for tool, args in CALLS:
                reservation = session.reserve(tool, args)
                if reservation.allowed:
                    reservation.commit()
    assert main(["report", str(log), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)

    desk = open_desk(evidence=[log], rules=_rules(tmp_path))
    _verified(desk, 10)
    with desk.client() as client:
        data = client.get("/api/v1/shadow").json()
        page = client.get("/shadow").text

    assert data == {name: report[name] for name in data}
    # Six calls of each session, also those that were refused.
    assert "Enforcing would have refused 3 of 18 calls" in page
    assert "Contracts in shadow mode refused none of these calls." in page
    assert "<b>3</b>" in page
    assert "policy-first" in page
    # A rule about a misspelt tool watches nothing, and the name that was meant is named.
    assert "The closest name that was: <code>refund</code>" in page


def test_the_begin_and_the_end_of_a_run_are_no_calls_of_the_shadow_report(
    open_desk: OpenDesk, log: Path
) -> None:
    """What happens to a run is a step, and no call that a contract might have refused."""
    with EvidenceFile(log, record="steps") as evidence:
        session = Session(contracts=_contracts(), evidence=evidence, session_id="s-1")
        for event in ("run_started", "user_prompt", "verify", "run_ended"):
            session.reserve(event, {}).commit()

    desk = open_desk(evidence=[log])
    _verified(desk, 5)
    with desk.client() as client:
        page = client.get("/shadow").text

    assert "Enforcing would have refused 0 of 1 calls" in page


def test_a_call_that_breaks_two_contracts_is_one_call_of_the_shadow_report(
    open_desk: OpenDesk, log: Path
) -> None:
    """The headline counts calls; each contract has its own line."""
    contracts = [
        at_most_n_times("refund", n=0, mode="shadow"),
        must_precede("verify", "refund", mode="shadow"),
    ]
    with EvidenceFile(log, record="steps") as evidence:
        session = Session(contracts=contracts, evidence=evidence, session_id="s-1")
        for _ in range(2):
            session.reserve("refund", {"amount": 5}).commit()

    desk = open_desk(evidence=[log])
    _verified(desk, 5)
    with desk.client() as client:
        page = client.get("/shadow").text

    assert "Enforcing would have refused 2 of 2 calls" in page


def test_a_break_is_shown_at_its_line(open_desk: OpenDesk, log: Path) -> None:
    """With both hashes, what holds before it, and nothing trusted after it."""
    signer, public_key = ed25519_signer()
    with EvidenceFile(log, signer=signer, record="steps") as evidence:
        session = Session(contracts=[at_most_n_times("a", n=100)], evidence=evidence)
        for number in range(12):
            session.call("a", {"number": number})
    desk = open_desk(evidence=[log], public_key=public_key)
    _verified(desk, 20)
    with desk.client() as client:
        before = client.get("/evidence").text
        _change(log, 17)
        _until(lambda: not desk.sources.logs[0].intact)
        after = client.get("/evidence").text
        overview = client.get("/").text
        data = client.get("/api/v1/evidence").json()

    assert "Every line is verified" in before
    assert "Evidence is broken at line 17" in after
    row = after.partition('id="line-17"')[2].partition("</tr>")[0]
    assert "Broken" in row
    assert "Hash of the line as it stands" in after
    assert "Holds" in after.partition('id="line-16"')[2].partition("</tr>")[0]
    assert "Not trusted" in after.partition('id="line-18"')[2].partition("</tr>")[0]
    assert "Verified</span>" not in after
    assert "Evidence is broken at line 17" in overview
    assert data["logs"][0]["report"]["first_bad"] == 17


def _change(log: Path, number: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    lines[number] = lines[number].replace(b'"e"', b'"f"')
    changed = b"".join(lines)
    assert changed != log.read_bytes()
    log.write_bytes(changed)


def test_without_a_key_nothing_is_called_verified(open_desk: OpenDesk, log: Path) -> None:
    """A log that only holds together could have been written by anyone."""
    with EvidenceFile(log, record="all") as evidence:
        Session(contracts=_contracts(), evidence=evidence).reserve("refund", {"customer": "a"})
    desk = open_desk(evidence=[log])
    _verified(desk, 2)
    with desk.client() as client:
        page = client.get("/evidence").text

    assert "Verified</span>" not in page
    assert "Holds</span>" in page
    assert "Start with <code>--key HEX</code>" in page


@pytest.mark.parametrize("path", ["/", "/contracts", "/shadow", "/evidence", "/runs", "/approvals"])
def test_a_console_without_anything_says_so(desk: Desk, path: str) -> None:
    """Quiet is not the same as blind: what is missing is named, with the option that brings it."""
    with desk.client() as client:
        answer = client.get(path)

    assert answer.status_code == 200
    assert "<h1>" in answer.text


def test_a_run_tells_what_contracts_refused_and_what_would_unblock_it(
    open_desk: OpenDesk, tmp_path: Path
) -> None:
    """Core was not asked about it, and the page says that too."""
    import asyncio

    from openbox_agentrt import create_openbox_agentrt

    log = tmp_path / "log.jsonl"
    desk = open_desk(evidence=[log])

    async def work() -> str:
        governance = await create_openbox_agentrt(
            core=desk.core, contracts=_rules(tmp_path), evidence=log, record="all", agent_name="refund-desk"
        )
        async with governance, governance.run_scope("Refund it.") as run:
            with pytest.raises(Exception, match="must_precede"):
                async with governance.activity("refund", {"amount": 5}):
                    pass
            async with governance.activity("verify", {"customer": "a"}):
                pass
            return run.run_id

    run_id = asyncio.run(work())
    _until(lambda: len(desk.sources.logs[0].decisions_of(run_id)) >= 3)
    with desk.client() as client:
        page = client.get(f"/runs/{run_id}").text
        listed = client.get("/runs").text
        overview = client.get("/").text

    assert "One call was refused" in page
    assert "Core was not asked" in page
    assert "<b>verify</b> first" in page
    assert page.count('class="v v-block"') == 1
    assert '<b class="c-block">1</b>' in listed
    assert "verify-first" in overview


def test_the_overview_says_the_same_as_json(desk: Desk) -> None:
    """What waits, the verdicts of the last hour, and what was refused."""
    desk.start()
    approval = desk.ask("refund", {"amount": 5})
    with desk.client() as client:
        said = client.get("/api/v1/overview").json()

    assert (said["waiting"], said["running"], said["alarms"]) == (1, 1, 0)
    assert said["verdicts"]["require_approval"] == 1
    assert [one["approval"]["id"] for one in said["asked"]] == [approval]
    assert said["doing"][0]["what"] == "refund waits for a person"
    assert "amount" not in json.dumps(said)


def test_the_stream_resumes_where_it_was_cut(desk: Desk) -> None:
    """Each event comes once, however often the stream is cut, also over a restart."""
    desk.start()
    seen: list[int] = []
    last = ""
    for part in range(3):
        desk.ask("refund", {"n": part}, activity=f"a-{part}")
        desk.ask("read", {"n": part}, activity=f"b-{part}")
        if part == 2:
            desk.stop()
            desk.serve(port=int(desk.url.rpartition(":")[2]))
        with desk.client() as client:
            numbers, last = _read_stream(client, last, until=2 * (part + 1) + 2)
            seen += numbers

    assert last == "8"
    assert seen == list(range(seen[0], 9))
    assert seen[0] > 4


def _read_stream(client: httpx.Client, last: str, *, until: int) -> tuple[list[int], str]:
    headers = {"last-event-id": last} if last else {}
    found: list[int] = []
    with client.stream("GET", "/stream", headers=headers, timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event:"):
                name = line.partition(": ")[2]
            elif line.startswith("id:"):
                last = line.partition(": ")[2]
                if name != "hello":
                    found.append(int(last))
            elif not line:
                name = ""
            if last == str(until) and not line:
                return found, last
    raise AssertionError("the stream ended")


def test_the_cells_of_a_fleet_stand_as_in_its_store(open_desk: OpenDesk, tmp_path: Path) -> None:
    """What is in flight is shown apart, as long as it is."""
    from openbox_agentrt.acel import at_most_total
    from openbox_agentrt.fleet import open_fleet

    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    rule = at_most_total("refund", "amount", limit=500, key="customer", within=86400, scope="fleet")
    fleet = open_fleet(url)
    session = Session(contracts=[rule], fleet=fleet)
    session.call("refund", {"customer": "a", "amount": 120})
    under_way = session.reserve("refund", {"customer": "a", "amount": 300})
    desk = open_desk(fleet=url)
    with desk.client() as client:
        page = client.get("/contracts").text
        row = client.get("/api/v1/contracts").json()["fleet"]["rows"][0]
    under_way.commit()
    fleet.close()

    assert row["name"] == "amount of refund within 1 d"
    assert row["name"] in page
    assert row["key"] == "a"
    assert row["state"] == "80 left of 500: 120 used, 300 in flight"
    assert row["state"] in page
    assert 'class="fly"' in page


def test_a_store_that_does_not_answer_is_said(open_desk: OpenDesk) -> None:
    """The page is there all the same."""
    desk = open_desk(fleet="redis://127.0.0.1:9/0")
    with desk.client() as client:
        answer = client.get("/contracts")
        data = client.get("/api/v1/contracts").json()["fleet"]

    assert answer.status_code == 200
    assert "The store does not answer" in answer.text
    assert data["problem"].startswith("the store does not answer")


def test_a_log_that_is_still_to_come_is_no_alarm(open_desk: OpenDesk, tmp_path: Path) -> None:
    """One that was there and has gone is."""
    log = tmp_path / "log.jsonl"
    desk = open_desk(evidence=[log])
    followed = desk.sources.logs[0]
    with desk.client() as client:
        assert "not there yet" in client.get("/").text
        assert followed.intact
        with EvidenceFile(log, record="all") as evidence:
            Session(contracts=_contracts(), evidence=evidence).reserve("refund", {"customer": "a"})
        _verified(desk, 2)
        log.unlink()
        _until(lambda: not followed.intact)
        assert "Evidence does not hold" in client.get("/").text
