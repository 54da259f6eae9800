"""A card says how the call that waits stands with the contracts about it, and what it leaves."""

from __future__ import annotations

import asyncio
import html
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from openbox_agentrt import ContractRefusedError, create_openbox_agentrt
from openbox_agentrt.acel import Session, at_most_total, must_precede
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.fleet import SqliteFleet
from openbox_agentrt.fleet.halts import halts_in_force
from openbox_agentrt.fleet.opening import open_halts
from tests.console.desk import Desk, OpenDesk, OpenPage

RULES = (
    must_precede("verify", "refund", key="customer", id="verify-first"),
    at_most_total("refund", "amount", limit=500, key="customer", id="refund-cap"),
)
REFUND = {"customer": "c-7", "amount": 100}


def _facts(desk: Desk, approval: str) -> str:
    """The rows beside the arguments, as text."""
    with desk.client() as client:
        page = client.get(f"/approvals/{approval}").text
    facts = page.partition('<dl class="facts">')[2].partition("</dl>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", facts).split())


def test_a_call_under_way_is_counted_once(open_desk: OpenDesk, tmp_path: Path) -> None:
    """It was reserved before anybody was asked: what it makes, and what it leaves, is what stands there."""
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence:
        session = Session(contracts=RULES, evidence=evidence, session_id="s-1")
        session.call("verify", {"customer": "c-7"})
        session.call("refund", {"customer": "c-7", "amount": 380})
        session.reserve("refund", REFUND)
        desk = open_desk(evidence=[tmp_path / "log.jsonl"])
        facts = _facts(desk, desk.ask("refund", REFUND))
        with desk.client() as client:
            told = client.get("/api/v1/approvals").json()["approvals"][0]["contracts"]

    assert "both about this tool allow it" in facts
    assert "verify-first : verify came before" in facts
    assert "refund-cap : 380 of 500 used for c-7, this makes 480" in facts
    assert "Leaves 20 of 500 for c-7" in facts
    assert told["allowed"] is True
    assert sorted(line["name"] for line in told["lines"]) == ["refund-cap", "verify-first"]


async def test_arguments_that_the_log_does_not_tell_yet_are_those_of_the_card(
    open_desk: OpenDesk, tmp_path: Path
) -> None:
    """A governance writes them down when the call has ended. Two that wait are told apart."""
    log = tmp_path / "log.jsonl"
    desk = open_desk(evidence=[log])
    governance = await create_openbox_agentrt(
        core=desk.core, contracts=RULES[1:], evidence=log, record="steps", approval_poll_interval_ms=20
    )

    async def refund(amount: int) -> None:
        async with governance.activity("refund", {"customer": "c-7", "amount": amount}):
            pass

    async with governance, governance.run_scope(agent_name="desk", session_id="s-1"):
        waits = [asyncio.create_task(refund(40)) for _ in range(2)]
        while len(desk.core.pending_approvals()) < 2:  # noqa: ASYNC110 - Core tells nobody of the second
            await asyncio.sleep(0.01)
        facts = [
            await asyncio.to_thread(_facts, desk, one.id)
            for _ in range(2)
            for one in desk.core.pending_approvals()
        ]
        for one in desk.core.pending_approvals():
            desk.core.approve(one)
        await asyncio.gather(*waits)

    assert "this makes 80" in facts[-1]
    assert "Leaves 420 of 500 for c-7" in facts[-1]


def test_what_would_be_refused_now_is_said(open_desk: OpenDesk, tmp_path: Path) -> None:
    """Contracts that judge after Core have not been asked yet."""
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence:
        session = Session(contracts=RULES, evidence=evidence, session_id="s-1")
        session.call("verify", {"customer": "c-7"})
        desk = open_desk(evidence=[tmp_path / "log.jsonl"])
        facts = _facts(desk, desk.ask("refund", {"customer": "c-7", "amount": 600}))

    assert "would refuse it now" in facts
    assert "500 left of 500" in facts


@pytest.mark.parametrize("reserved", [True, False])
def test_a_halt_of_the_session_is_said(open_desk: OpenDesk, tmp_path: Path, reserved: bool) -> None:
    """A call that was reserved before is refused when it is judged again, whatever contracts count."""
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence:
        session = Session(contracts=RULES[1:], evidence=evidence, session_id="s-1")
        if reserved:
            session.reserve("refund", REFUND)
        session.halt(reason="it refunds twice", by="ops-lead")
        desk = open_desk(evidence=[tmp_path / "log.jsonl"])
        facts = _facts(desk, desk.ask("refund", REFUND))

    assert "would refuse it now: the session was halted: it refunds twice (halted by ops-lead)" in facts
    assert "allow" not in facts


def test_a_contract_of_the_fleet_that_would_refuse_is_said(open_desk: OpenDesk, tmp_path: Path) -> None:
    """One in shadow mode lets the call through, and is marked."""
    rules = (
        at_most_total("refund", "amount", 500, scope="fleet", per="day", id="enforce"),
        at_most_total("refund", "amount", 500, scope="fleet", per="week", id="shadow", mode="shadow"),
    )
    with (
        closing(SqliteFleet(tmp_path / "fleet.db", timeout_seconds=20)) as fleet,
        EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence,
    ):
        for number, rule in enumerate(rules):
            session = Session(contracts=[rule], evidence=evidence, session_id=f"s-{number}", fleet=fleet)
            session.call("refund", {"customer": "c-7", "amount": 450})
        desk = open_desk(evidence=[tmp_path / "log.jsonl"], fleet=f"sqlite:///{tmp_path}/fleet.db")
        enforced, watched = (
            _facts(desk, _asked(desk, REFUND, number=number, session=f"s-{number}")) for number in range(2)
        )

    assert "would refuse it now: enforce: 450 of 500 used today, this makes 550" in enforced
    assert "the one about this tool allows it" in watched
    assert "shadow (shadow) : 450 of 500 used this week, this makes 550" in watched


def _asked(desk: Desk, arguments: dict[str, Any], *, number: int, session: str) -> str:
    answer = desk.post(
        event_type="ActivityStarted",
        activity_id=f"a-{number}",
        activity_type="refund",
        activity_input=[arguments],
        session_id=session,
    )
    return str(answer["approval_id"])


@pytest.mark.parametrize("looked_at", [True, False], ids=["with the store", "without"])
def test_the_fleet_is_asked_where_the_console_has_its_store(
    open_desk: OpenDesk, tmp_path: Path, looked_at: bool
) -> None:
    """What others have used counts; without the store that is said, and nothing is guessed."""
    rules = (at_most_total("refund", "amount", 500, key="customer", scope="fleet", per="day", id="cap"),)
    with (
        closing(SqliteFleet(tmp_path / "fleet.db", timeout_seconds=20)) as fleet,
        EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence,
    ):
        Session(contracts=rules, fleet=fleet).call("refund", {"customer": "c-7", "amount": 380})
        session = Session(contracts=rules, evidence=evidence, session_id="s-1", fleet=fleet)
        session.reserve("refund", REFUND)
        store = {"fleet": f"sqlite:///{tmp_path}/fleet.db"} if looked_at else {}
        desk = open_desk(evidence=[tmp_path / "log.jsonl"], **store)
        facts = _facts(desk, desk.ask("refund", REFUND))

    if looked_at:
        assert "cap : 380 of 500 used today for c-7, this makes 480" in facts
        assert "Leaves 20 of 500 for c-7" in facts
    else:
        assert "not known here" in facts
        assert "--fleet URL" in facts


def test_without_steps_it_is_said_that_nothing_is_known(open_desk: OpenDesk, tmp_path: Path) -> None:
    """With what would tell."""
    desk = open_desk()

    assert "Contracts not known here: no evidence is followed here" in _facts(
        desk, desk.ask("refund", REFUND)
    )


def test_a_key_that_nobody_may_see_has_a_mark(open_desk: OpenDesk, tmp_path: Path) -> None:
    """In these rows too."""
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence:
        session = Session(contracts=RULES[1:], evidence=evidence, session_id="s-1")
        session.reserve("refund", REFUND)
        desk = open_desk(evidence=[tmp_path / "log.jsonl"], redact_fields=["customer"])
        facts = _facts(desk, desk.ask("refund", REFUND))

    assert "c-7" not in facts
    assert "REDACTED" in facts


def test_what_needs_a_person_comes_to_the_first_page_by_itself(desk: Desk, open_page: OpenPage) -> None:
    """Also when the page was opened before anything had happened, and it goes when it is decided."""
    page = open_page(desk, "/")
    expect(page.locator("h1")).to_have_text("Nothing has happened yet")
    desk.start()
    approval = desk.ask("refund", REFUND)

    expect(page.locator("#needs")).to_contain_text("refund c-7, 100")
    order = page.locator("main > [data-live]").evaluate_all("all => all.map(one => one.id)")
    assert order[:3] == ["head", "needs", "last-hour"]
    desk.core.approve(approval)
    expect(page.locator("#needs")).to_have_count(0)


@pytest.mark.parametrize("kind", ["run", "session", "agent"])
def test_a_halt_of_the_console_reaches_core_and_fleet(open_desk: OpenDesk, tmp_path: Path, kind: str) -> None:
    """What is named in the form, and nothing else."""
    url = f"sqlite:///{tmp_path}/fleet.db"
    SqliteFleet(tmp_path / "fleet.db").halts.halt(_nothing())
    desk = open_desk(fleet=url)
    desk.start()
    named = {"run": "run-1", "session": "s-1", "agent": "refund-desk"}[kind]
    with desk.client() as client:
        token = client.get("/runs/run-1").text.partition('name="token" value="')[2].partition('"')[0]
        form = {"token": token, "of": kind, "reason": "it runs wild"}
        answer = client.post("/runs/run-1/halt", data=form, headers={"origin": desk.url})
        wrong = client.post("/runs/run-1/halt", data=form | {"of": "x"}, headers={"origin": desk.url})
    with closing(open_halts(url)) as rows:
        halts = [(halt.kind, halt.value, halt.why) for halt in halts_in_force(rows)]

    assert (answer.status_code, wrong.status_code) == (303, 400)
    assert [(one.kind, one.value) for one in desk.core.halts()] == [(kind, named)]
    assert (kind, named, "it runs wild (halted by night-desk)") in halts


def test_a_store_that_is_away_is_said(open_desk: OpenDesk, tmp_path: Path) -> None:
    """In Core it is halted all the same."""
    desk = open_desk(fleet=f"sqlite:///{tmp_path}/none/fleet.db")
    desk.start()
    with desk.client() as client:
        token = client.get("/runs/run-1").text.partition('name="token" value="')[2].partition('"')[0]
        form = {"token": token, "of": "agent", "reason": "it runs wild"}
        answer = client.post("/runs/run-1/halt", data=form, headers={"origin": desk.url})

    assert answer.status_code == 503
    assert "The store of the fleet was not told" in answer.text
    assert [one.kind for one in desk.core.halts()] == ["agent"]


def _nothing() -> Any:
    from openbox_agentrt._halt import Halt

    return Halt(kind="agent", value="somebody-else", reason="x", by="", at=0.0)


def test_a_session_that_another_worker_has_is_no_broken_contract(
    open_desk: OpenDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The overview says in its words what stood against the call, and that Core was not told."""
    monkeypatch.setattr("openbox_agentrt.fleet.sessions.HOLD_SECONDS", 0.0)

    async def refused() -> None:
        made = create_openbox_agentrt(
            core="off",
            contracts=RULES[1:],
            sessions="durable",
            fleet=other,
            evidence=tmp_path / "log.jsonl",
            record="all",
        )
        async with await made as governance:
            with pytest.raises(ContractRefusedError, match="in use by another worker"):
                async with governance.run_scope("Hello.", session_id="s-1"):
                    pass

    path = tmp_path / "fleet.db"
    with (
        closing(SqliteFleet(path, timeout_seconds=20)) as fleet,
        closing(SqliteFleet(path, timeout_seconds=20)) as other,
    ):
        session = Session(contracts=RULES[1:], fleet=fleet, durable=True, session_id="s-1")
        session.hold()
        with ThreadPoolExecutor() as apart:  # the browser's loop is in this thread
            apart.submit(asyncio.run, refused()).result()
    desk = open_desk(evidence=[tmp_path / "log.jsonl"])
    desk.start()
    with desk.client() as client:
        page = html.unescape(client.get("/").text)

    assert "session 's-1' is in use by another worker" in page
    assert "the session's store" in page
