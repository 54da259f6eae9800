"""The commands that serve a console: one line, no network, and the link in the terminal works."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from openbox_agentrt.acel import Session, never
from openbox_agentrt.cli import main
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.evidence.keys import ed25519_signer
from openbox_agentrt.local_core import LocalCore

LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in\?once=\S+")


class _Program:
    """A command in a process of its own, and what it has printed."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "openbox_agentrt.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._came = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._came:
                self.lines.append(line)
                self._came.notify_all()

    def wait_for(self, pattern: str) -> str:
        """Wait until something is printed, and give it."""
        with self._came:
            assert self._came.wait_for(lambda: re.search(pattern, "".join(self.lines)), 40), "".join(
                self.lines
            )
        found = re.search(pattern, "".join(self.lines))
        assert found is not None
        return found[0]

    def stop(self) -> int:
        """Press Ctrl+C, and give the exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(20)
        self._reader.join(20)
        return code


@contextmanager
def _program(*arguments: str) -> Iterator[_Program]:
    program = _Program(*arguments)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.wait()
        program._reader.join(20)
        assert program.process.stdout is not None
        program.process.stdout.close()


def test_the_demo_is_played_on_a_page_and_goes_on_after_a_click(browser: Browser, tmp_path: Path) -> None:
    """A person approves the refund, a refusal says what would unblock it, and the evidence is verified."""
    arguments = ("demo", "--console", "--port", "0", "--pace", "0", "--keep", str(tmp_path))
    with _program(*arguments) as program:
        page = browser.new_page()
        page.goto(program.wait_for(LINK.pattern))
        page.get_by_role("link", name=re.compile("Decide refund")).click()
        page.get_by_role("button", name="Approve").click()
        program.wait_for("Ctrl\\+C ends it")
        page.get_by_role("link", name="Runs").click()
        expect(page.locator("h1")).to_have_text("No runs are open")
        page.get_by_role("link", name="Evidence").click()
        expect(page.locator("h1")).to_have_text("Every line is verified")
        page.get_by_role("link", name="Overview").click()
        expect(page.locator("#refusals")).to_contain_text("needs backup")
        page.close()
        assert program.stop() == 0

    printed = "".join(program.lines)
    assert "OK" in printed
    assert "Traceback" not in printed


def test_a_console_is_served_over_a_file(tmp_path: Path) -> None:
    """Its link works; nothing of a request is printed."""
    db = tmp_path / "core.sqlite3"
    LocalCore(path=db).close()
    with _program("console", "--db", str(db), "--port", "0", "--by", "night-desk") as program:
        link = program.wait_for(LINK.pattern)
        with httpx.Client(trust_env=False) as client:
            client.get(link)
            page = client.get(link.partition("/sign-in")[0]).text
        assert program.stop() == 0

    assert "Nothing has happened yet" in page
    assert "night-desk" in page
    assert [line for line in program.lines if not line.startswith("console: http")] == ["stopped\n"]


def test_a_database_that_is_not_there_yet_is_said(tmp_path: Path) -> None:
    """A path that was mistyped would show a page on which nothing ever waits."""
    db = tmp_path / "coer.sqlite3"
    with _program("console", "--db", str(db), "--port", "0") as program:
        program.wait_for(LINK.pattern)
        program.wait_for("no such file, so it is made")
        assert program.stop() == 0

    assert f"console: database {db}: no such file, so it is made\n" in program.lines


def test_a_core_is_served_with_its_console(tmp_path: Path) -> None:
    """One process, two ports, one file."""
    db = tmp_path / "core.sqlite3"
    log, (signer, public_key) = tmp_path / "log.jsonl", ed25519_signer(tmp_path / "key")
    with EvidenceFile(log, signer=signer) as evidence:
        Session(contracts=[never("wipe")], evidence=evidence).reserve("wipe")
    arguments = ("core", "serve", "--db", str(db), "--port", "0", "--console", "--console-port", "0")
    with _program(*arguments, "--evidence", str(log), "--key", public_key, "--by", "ada") as program:
        link = program.wait_for(LINK.pattern)
        url = program.wait_for(r"OPENBOX_URL=\S+").partition("=")[2]
        key = program.wait_for(r"OPENBOX_API_KEY=\S+").partition("=")[2]
        with httpx.Client(trust_env=False) as client:
            valid = client.get(f"{url}/api/v1/auth/validate", headers={"authorization": f"Bearer {key}"})
            client.get(link)
            page = client.get(link.partition("/sign-in")[0]).text
            proof = client.get(link.partition("/sign-in")[0] + "/evidence").text
        assert program.stop() == 0

    assert valid.json()["valid"] is True
    assert "You decide as ada" in " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "Every line is verified" in proof


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--db", "DB", "--host", "0.0.0.0"], "use 127.0.0.1, or --allow-other-machines with --tls-cert"),
        (["--db", "DB", "--key", "no-key"], "no-key"),
        (["--db", "DB", "--rules", "no-rules.yaml"], "no-rules.yaml"),
        (["--db", "/no/such/folder/core"], "/no/such/folder/core"),
    ],
    ids=["other machines", "key", "rules", "database"],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2, before anything is served."""
    db = str(tmp_path / "core.sqlite3")

    code = main(["console", "--port", "0", *(db if one == "DB" else one for one in arguments)])

    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert message in said
