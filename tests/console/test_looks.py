"""Every page can be used by everybody: axe finds nothing, and nothing is wider than a phone."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from openbox_agentrt.acel import Session, at_most_n_times, at_most_total, must_precede
from openbox_agentrt.evidence import EvidenceFile, ed25519_signer
from tests.console.desk import Desk, OpenDesk, OpenPage

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
PATHS = ("/", "/approvals", "/runs", "/runs/run-1", "/contracts", "/shadow", "/evidence")
LOOKS = (
    pytest.param({"width": 360, "height": 800}, "light", id="phone"),
    pytest.param({"width": 1280, "height": 900}, "dark", id="desk"),
)


@pytest.fixture
def busy_desk(open_desk: OpenDesk, tmp_path: Path) -> Desk:
    """A console with something of everything: waiting, decided, refused, halted, shadow, a broken log."""
    log, broken = tmp_path / "refunds.jsonl", tmp_path / "mail.jsonl"
    signer, public_key = ed25519_signer()
    contracts = (
        must_precede(
            "verify", "refund", key="customer_id", id="verify-first", remedy="verify this customer first"
        ),
        at_most_total("refund", "amount", limit=500, key="customer_id", id="refund-cap"),
        at_most_n_times("mail", n=2, id="mail-rate", mode="shadow"),
    )
    for path in (log, broken):
        with EvidenceFile(path, signer=signer, record="steps") as evidence:
            session = Session(contracts=contracts, evidence=evidence, session_id=f"s-{path.stem}")
            session.reserve("refund", {"customer_id": "cus_1", "amount": 5})
            for tool in ("verify", "mail", "mail", "mail"):
                session.call(tool, {"customer_id": "cus_1"})
            session.call("refund", {"customer_id": "cus_1", "amount": 480})
    lines = broken.read_bytes().splitlines(keepends=True)
    broken.write_bytes(b"".join([*lines[:5], lines[5].replace(b'"e"', b'"f"'), *lines[6:]]))
    desk = open_desk(evidence=[log, broken], public_key=public_key, redact_fields=["iban"])
    desk.sources.refresh()
    for run in ("run-1", "run-2"):
        desk.start(run)
        desk.post(
            run, event_type="ActivityStarted", activity_id="r-1", activity_type="read", activity_input=[{}]
        )
        desk.post(
            run,
            event_type="ActivityCompleted",
            activity_id="r-1",
            activity_type="read",
            activity_output={"total": 3},
            status="completed",
            duration_ms=12,
        )
    decided = desk.ask("refund", {"customer_id": "cus_2290", "amount": 148}, activity="a-0")
    desk.core.approve(decided, "Photo checked.", by="ops-lead")
    desk.ask(
        "refund",
        {
            "customer_id": "cus_3107",
            "amount": 312.4,
            "iban": "DE02",
            "reference": "R\u202e1",
            "message": "word " * 400,
        },
    )
    desk.ask("mail", {"to": ["a"] * 41}, run="run-2")
    return desk


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_axe_finds_nothing(busy_desk: Desk, open_page: OpenPage, size: dict[str, int], scheme: str) -> None:
    """WCAG 2.2 AA and best practice; folds open, so that what is in them counts too."""
    page = open_page(busy_desk, viewport=size, color_scheme=scheme)
    found: dict[str, Any] = {}
    for path in PATHS:
        page.goto(f"{busy_desk.url}{path}")
        page.evaluate(
            "() => { for (const one of document.querySelectorAll('details:not([name])')) one.open = true; }"
        )
        page.evaluate(AXE)
        result = page.evaluate(f"() => axe.run(document, {json.dumps(RULES)})")
        violations = [
            (one["id"], [node["html"][:200] for node in one["nodes"]]) for one in result["violations"]
        ]
        if violations:
            found[path] = violations
        width = page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= size["width"], f"{path} scrolls sideways"

    assert found == {}


def test_each_page_is_small_and_its_parts_have_one_id(busy_desk: Desk) -> None:
    """60 kB at most, and ids that are unique, since parts are replaced by them."""
    with busy_desk.client() as client:
        for path in PATHS:
            text = client.get(path).text
            ids = [part.partition('"')[0] for part in text.split(' id="')[1:]]
            assert len(text) <= 60_000, path
            assert sorted(set(ids)) == sorted(ids), path


def test_the_pages_say_what_the_counts_are(busy_desk: Desk, open_page: OpenPage) -> None:
    """Each opens with its answer, a sentence made of counts; and the title starts with it."""
    page = open_page(busy_desk, "/")
    expect(page.locator("h1")).to_have_text("One alarm. Two calls wait for you.")
    expect(page).to_have_title("2 wait, one alarm, overview")
    page.goto(f"{busy_desk.url}/evidence")
    expect(page.locator("h1")).to_have_text("Evidence is broken at line 5")
    expect(page.locator(".torn")).to_contain_text("Broken")
    page.goto(f"{busy_desk.url}/shadow")
    expect(page.locator("h1")).to_contain_text("Enforcing would have refused 2 of ")
    page.goto(f"{busy_desk.url}/runs")
    expect(page.locator("h1")).to_have_text("Two runs are open, two calls wait")


def test_the_browser_refuses_a_script_that_is_not_ours(desk: Desk, open_page: OpenPage) -> None:
    """So that no complaint in all of these tests means that none was needed."""
    page = open_page(desk, expected=("Content Security Policy",))

    page.evaluate(
        "() => { const one = document.createElement('script'); one.textContent = 'window.owned = 1';"
        " document.body.append(one); }"
    )

    assert page.evaluate("() => window.owned") is None
