"""
Pictures of the console for the pages: ``python -m tests.console.screenshots FOLDER``.

The demo is played for them, so what they show is what it does.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright
from rich.console import Console

from openbox_agentrt.acel import Session, at_most_n_times, must_precede
from openbox_agentrt.console import Place, Sources, running_console
from openbox_agentrt.demo.narrator import Narrator
from openbox_agentrt.demo.play import Stage, play
from openbox_agentrt.evidence import EvidenceFile, ed25519_signer
from openbox_agentrt.local_core import LocalCore

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--font-render-hinting=none",
]
SIZE = {"width": 1280, "height": 800}


def main(folder: Path) -> int:
    """Take them all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        _take(Path(work), folder)
    return 0


def _take(work: Path, folder: Path) -> None:
    log, other, key = work / "refunds.jsonl", work / "mail.jsonl", work / "signing.key"
    signer, public_key = ed25519_signer(key)
    _other_log(other, signer)
    links: list[str] = []
    ready, over = threading.Event(), threading.Event()

    @contextmanager
    def beside(core: LocalCore) -> Iterator[None]:
        with as_file(files("openbox_agentrt.demo") / "rules.yaml") as rules:
            sources = Sources.open(
                core,
                work / "core.sqlite3",
                evidence=[log, other],
                rules=rules,
                public_key=public_key,
                who="night-desk",
            )
        with running_console(sources, Place(port=0), on_link=links.append):
            ready.set()
            yield
        sources.close()

    async def afterwards() -> None:
        await asyncio.to_thread(over.wait)

    stage = Stage(database=work / "core.sqlite3", beside=beside, pace=0.05, afterwards=afterwards)
    narrator = Narrator(Console(file=io.StringIO()))
    agent = threading.Thread(
        target=lambda: asyncio.run(play(narrator, evidence=log, key_file=key, stage=stage))
    )
    agent.start()
    ready.wait(30)
    try:
        _look(links, folder, other)
    finally:
        over.set()
        agent.join(30)


def _look(links: list[str], folder: Path, other: Path) -> None:
    chromium = shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]  # a dict is what it takes
        page.goto(links[-1])
        url = links[0].partition("/sign-in")[0]

        def shoot(path: str, name: str, *, dark: bool = False) -> None:
            page.emulate_media(color_scheme="dark" if dark else "light")
            if path:
                page.goto(f"{url}{path}")
            page.wait_for_timeout(200)
            page.screenshot(path=folder / f"console-{name}.png")

        page.goto(f"{url}/approvals")
        expect(page.get_by_role("button", name="Approve")).to_be_enabled(timeout=20_000)
        shoot("/approvals", "approvals", dark=True)
        shoot("/", "overview")
        _ask(page, url)
        shoot("", "contracts")
        page.goto(f"{url}/approvals")
        page.get_by_label("Note").fill("Looked at the order.")
        page.get_by_role("button", name="Approve").click()
        page.goto(f"{url}/runs")
        expect(page.locator("h1")).to_have_text("No runs are open", timeout=20_000)
        shoot("/runs", "runs")
        page.goto(f"{url}/")
        page.goto(f"{url}/runs")
        refused = page.locator("tr", has=page.locator("b.c-block")).locator("a").nth(2)
        page.goto(f"{url}{refused.get_attribute('href')}")
        shoot("", "run")
        shoot("/shadow", "shadow")
        _break(other)
        expect(page.locator(".tabs .n.bad")).to_be_visible(timeout=20_000)
        shoot("/evidence", "evidence")
        browser.close()


def _ask(page: Page, url: str) -> None:
    page.goto(f"{url}/contracts")
    page.get_by_label("Tool").fill("delete")
    page.get_by_label("Arguments").fill('{"record_id": "draft-7"}')
    page.get_by_role("button", name="Ask").click()


def _other_log(path: Path, signer: object) -> None:
    """A log of another agent, with contracts that only watch."""
    contracts = (
        must_precede("read_policy", "close_ticket", id="policy-first", mode="shadow"),
        at_most_n_times("issue_voucher", n=1, key="customer_id", id="one-voucher", mode="shadow"),
    )
    with EvidenceFile(path, signer=signer, record="steps") as evidence:  # type: ignore[arg-type]  # ours
        for number in range(6):
            session = Session(contracts=contracts, evidence=evidence, session_id=f"s-204{number}")
            if number % 3:
                session.call("read_policy", {})
            session.call("close_ticket", {"ticket_id": f"t-879{number}", "outcome": "voucher"})
            session.call("issue_voucher", {"customer_id": "cus_1044", "amount": 15})
            if number == 4:
                session.call("issue_voucher", {"customer_id": "cus_1044", "amount": 15})
            session.end_session()


def _break(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[17] = lines[17].replace(b'"t-8792"', b'"t-8799"').replace(b'"e"', b'"f"')
    path.write_bytes(b"".join(lines))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")))
