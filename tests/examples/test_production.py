"""The service of examples/production without containers: what the person on call meets in a day."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.fleet.redis_server import BINARY, RedisServer, free_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "production"

pytestmark = [
    pytest.mark.skipif(BINARY is None, reason="there is no redis-server on this machine"),
    pytest.mark.timeout(180),
]


def until(true: Callable[[], bool], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            pytest.fail("it did not happen")
        time.sleep(0.05)


class Service:
    """Run workers beside each other, each on a port of its own, as replicas are."""

    def __init__(self, folder: Path, fleet: str) -> None:
        self.data = folder / "data"
        self.rules = Path(shutil.copy(EXAMPLE / "rules.yaml", folder))
        plain = {key: value for key, value in os.environ.items() if not key.startswith("OPENBOX_")}
        own = {"DATA": str(self.data), "RULES": str(self.rules), "OPENBOX_AGENTRT_FLEET": fleet}
        self.environ = {**plain, **own}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ports: list[int] = []

    def start(self) -> int:
        """Start one more worker, and say which one it is."""
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "app:app", "--app-dir", str(EXAMPLE), "--port", str(port)]
        self.processes.append(subprocess.Popen([*command, "--log-level", "warning"], env=self.environ))
        self.ports.append(port)
        until(lambda: self.answers(port))
        return len(self.ports) - 1

    def answers(self, port: int) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).is_success
        except httpx.TransportError:
            return False

    def refund(self, worker: int, amount: float, customer: str = "c-7") -> httpx.Response:
        address = f"http://127.0.0.1:{self.ports[worker]}/customers/{customer}/refunds"
        return httpx.post(address, json={"amount": amount}, timeout=60)

    def get(self, worker: int, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.ports[worker]}{path}", timeout=10)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "openbox_agentrt.cli", *words]
        return subprocess.run(line, capture_output=True, text=True, env=self.environ, check=False, timeout=60)

    def paid(self, customer: str = "c-7") -> float:
        rows = (self.data / "payments.csv").read_text(encoding="utf-8").splitlines()
        return sum(float(amount) for who, amount, _ in (row.split(",") for row in rows) if who == customer)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=60)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, "--appendonly", "yes") as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, store: RedisServer) -> Iterator[Service]:
    running = Service(tmp_path, store.url)
    try:
        running.start()
        running.start()
        yield running
    finally:
        running.stop()


def test_a_day_on_call(service: Service, store: RedisServer, tmp_path: Path) -> None:
    """A budget, a person, a change of rules, a dead worker, a dead store; and the evidence of all of it."""
    # The budget is one, whichever worker is asked.
    assert [service.refund(n % 2, 100).status_code for n in range(6)] == [200] * 5 + [409]
    assert service.paid() == 500

    # A person decides about a large one, from a shell that knows the file.
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(service.refund(0, 300, "c-8")))
    asking.start()
    database = str(service.data / "core.sqlite3")
    waiting: list[str] = []

    def somebody_waits() -> bool:
        listed = service.command("core", "approvals", "--json", "--db", database).stdout.splitlines()
        waiting[:] = [json.loads(line)["id"] for line in listed]
        return bool(waiting)

    until(somebody_waits)
    service.command("core", "approve", waiting[0], "--db", database, "--by", "ann")
    asking.join()
    assert [answer.status_code for answer in answers] == [200]

    # A larger budget, while it runs.
    before = service.get(0, "/health").json()["rules"]
    service.rules.write_text(service.rules.read_text().replace("limit: 500", "limit: 600"))
    until(lambda: all(service.get(n, "/health").json()["rules"] != before for n in (0, 1)))
    assert [service.refund(n, 100).status_code for n in (1, 0)] == [200, 409]

    # A worker dies. What it has paid stays paid, and the next one goes on.
    service.processes[0].send_signal(signal.SIGKILL)
    assert service.refund(1, 100, "c-9").status_code == 200
    third = service.start()
    assert service.refund(third, 600).status_code == 409

    # The store dies: nothing is paid that it cannot count, and it goes on by itself.
    port = store.port
    store.kill()
    assert service.refund(1, 100, "c-9").status_code == 503
    store.start()
    assert store.port == port
    until(lambda: service.refund(1, 100, "c-9").status_code == 200)
    assert service.paid("c-9") == 200
    assert service.paid() == 600

    numbers = service.get(1, "/metrics").text
    assert re.search(r'openbox_agentrt_decisions_total\{source="contracts",verdict="block"\} \d', numbers)
    assert re.search(r"openbox_agentrt_fleet_outages_total\{.*\} \d", numbers)

    service.stop()
    key = str(service.data / "evidence.key")
    shown = service.command("keys", "show", key).stdout.split()
    public = next(word for word in shown if re.fullmatch(r"[0-9a-f]{64}", word))
    folder = str(service.data / "evidence")
    checked = service.command("verify", folder, "--key", public, "--allow-unsigned", "--rerun")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    # The log of the worker that was killed ends before its last seal, and says so.
    assert checked.stdout.count("re-derived, 0 differ") == 3
    service.processes.clear()


def test_the_console_stands_behind_a_certificate(service: Service, tmp_path: Path) -> None:
    """The certificate is made at start; without it no other machine is listened to, and nobody is let in."""
    pem = tmp_path / "console.pem"
    made = [sys.executable, str(EXAMPLE / "certificate.py"), "localhost", str(pem)]
    subprocess.run(made, check=True, timeout=60)
    assert pem.stat().st_mode & 0o077 == 0

    port = free_port()
    words = [
        "console",
        "--db",
        str(service.data / "core.sqlite3"),
        "--port",
        str(port),
        "--name",
        "localhost",
    ]
    words += ["--host", "0.0.0.0", "--allow-other-machines"]
    assert "--tls-cert" in service.command(*words).stderr
    process = subprocess.Popen(
        [sys.executable, "-m", "openbox_agentrt.cli", *words, "--tls-cert", str(pem)],
        env=service.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        trusted = ssl.create_default_context(cafile=str(pem))
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trusted) as client:

            def refused() -> bool:
                try:
                    return client.get("/approvals").status_code in (401, 403)
                except httpx.TransportError:
                    return False

            until(refused)
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_the_containers_are_what_the_pages_say() -> None:
    """Redis that forgets nothing, two workers, and a console with a certificate made at start."""
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert "noeviction" in services["redis"]["command"]
    assert services["worker"]["deploy"]["replicas"] == 2
    assert "certificate.py" in services["console"]["command"]
    assert "--key /data/evidence.key" in services["console"]["command"]
    assert services["console"]["environment"] == services["worker"]["environment"]
    assert services["console"]["depends_on"] == {"worker": {"condition": "service_healthy"}}
    assert services["console"]["ports"] == ["127.0.0.1:8087:8087"]
