"""A console that is served, and a browser that looks at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.console.desk import Desk, OpenDesk, OpenPage, asks_a_person, opened_desk

# A busy machine may take its time.
expect.set_options(timeout=20_000)

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture
def open_desk(tmp_path: Path) -> Iterator[OpenDesk]:
    """Serve a console over a new database."""
    with ExitStack() as opened:

        def serve(policy: Any = asks_a_person, **options: Any) -> Desk:
            return opened_desk(opened, tmp_path / "core.sqlite3", policy, **options)

        yield serve


@pytest.fixture
def desk(open_desk: OpenDesk) -> Desk:
    """A console over a Core that asks a person about refunds."""
    return open_desk()


# Of a module and not of the session: while it is there, nothing else in this thread can run an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The real Chromium of this machine."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open a page that is signed in. Whatever the browser complains of fails the test."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def open_one(
        desk: Desk, path: str = "/approvals", *, expected: tuple[str, ...] = (), **options: Any
    ) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()

        def complain(text: str) -> None:
            if not any(part in text for part in expected):
                complaints.append(text)

        page.on("console", lambda message: complain(f"{message.text} {message.location['url']}"))
        page.on("pageerror", lambda error: complain(str(error)))
        page.on("dialog", lambda dialog: complain(f"dialog {dialog.message}"))
        page.goto(desk.links[-1])
        page.wait_for_url(f"{desk.url}/")
        page.goto(f"{desk.url}{path}")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []
