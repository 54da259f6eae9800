"""``openbox-agentrt fleet``: what a store holds, and settling what is stuck."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from openbox_agentrt.acel import (
    Session,
    TemporalContract,
    any_of,
    at_most_n_times,
    at_most_total,
    max_distinct,
    rate_limit,
)
from openbox_agentrt.cli import main
from openbox_agentrt.fleet import Fleet, FleetMove, FleetPlan, open_fleet
from tests.fleet.plans import spend
from tests.fleet.redis_server import BINARY, RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    if BINARY is None:
        pytest.skip("no redis-server is installed")
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return f"{request.getfixturevalue('server').url}?namespace={uuid.uuid4().hex}"
    return f"sqlite:///{tmp_path / 'fleet.db'}"


@pytest.fixture
def fleet(url: str) -> Iterator[Fleet]:
    with closing(open_fleet(url)) as fleet:
        fleet.timeout_seconds = 20
        yield fleet


def test_show_names_key_spent_outstanding_and_free(
    url: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Amounts are in the words of the rules, not in units."""
    first = fleet.reserve(spend(12_550, 50_000), started=True).lease
    assert first is not None
    fleet.finish(first, "commit", soon=False).result(20)
    second = fleet.reserve(spend(10_000, 50_000)).lease
    assert second is not None

    assert main(["fleet", "show", url]) == 0
    text = capsys.readouterr().out
    assert main(["fleet", "show", url, "--json"]) == 0
    cell, lease = map(json.loads, capsys.readouterr().out.splitlines())

    assert "refund, key 'c-7': spent 225.5, outstanding 100, 274.5 free of 500" in text
    assert "1 cells, 1 workers, 1 open leases" in text
    assert (cell["key"], cell["spent"], cell["free"]) == ("c-7", "225.5", "274.5")
    assert (lease["lease"], lease["state"]) == (second.id, "reserved")


RULES: list[tuple[TemporalContract, str]] = [
    (
        at_most_total("refund", "amount", 500, key="$subject.customer", scope="fleet", per="day"),
        "amount of refund per day, customer 'c-7': spent 100, outstanding 0, 400 free of 500,"
        " resets {day} UTC",
    ),
    (
        at_most_n_times(any_of("refund", "pay"), 3, key="order", scope="fleet", per="day", tz="Asia/Kolkata"),
        "calls of pay or refund per day in Asia/Kolkata, order 'o-1': spent 1, outstanding 0, 2 free of 3,"
        " resets {ist} IST",
    ),
    (
        rate_limit("refund", 5, 7200, scope="fleet"),
        "calls of refund within 2 h: spent 1, outstanding 0, 4 free of 5",
    ),
    (
        max_distinct("refund", "order", 2, scope="fleet", forever=True),
        "values of order in refund: spent 1, outstanding 0, 1 free of 2",
    ),
]


def test_show_is_for_people(url: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """What is counted in the words of the rules, of whom, how much is left and until when."""
    session = Session(contracts=[rule for rule, _ in RULES], fleet=fleet, subject={"customer": "c-7"})
    session.call("refund", {"amount": 100, "order": "o-1"}, result="paid")
    fleet.would(spend())  # asked after the end of the call was told

    assert main(["fleet", "show", url]) == 0
    shown = capsys.readouterr().out

    now = datetime.now(UTC)
    ends = {}
    for name, zone in (("day", ZoneInfo("UTC")), ("ist", ZoneInfo("Asia/Kolkata"))):
        midnight = datetime.combine(now.astimezone(zone) + timedelta(days=1), time(), zone)
        ends[name] = f"{midnight:%Y-%m-%d %H:%M}"
    for _, line in RULES:
        assert f"{line.format(**ends)}  (cell " in shown
    assert '"kind"' not in shown
    assert main(["fleet", "show", url, "--json"]) == 0
    cells = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {cell["counts"] for cell in cells} == {line.format(**ends).partition(":")[0] for _, line in RULES}


def test_show_finds_a_key_among_more_than_it_reads(
    url: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that it did not find would pass for one that has spent nothing; what is cut off is said."""
    per_customer = [at_most_total("refund", "amount", 500, key="c", scope="fleet", forever=True)]
    session = Session(contracts=per_customer, fleet=fleet)
    for customer in ("c-1", "c-2", "c-3"):
        session.call("refund", args={"c": customer, "amount": 1}, result="ok")
    fleet.close()

    for customer in ("c-1", "c-2", "c-3"):
        assert main(["fleet", "show", url, "--value", customer, "--most", "1"]) == 0
        shown = capsys.readouterr()
        assert f"c '{customer}': spent 1" in shown.out
        assert not shown.err
    assert main(["fleet", "show", url, "--most", "2"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("spent") == 2
    assert shown.err.startswith("only 2 cells are read")


@pytest.mark.parametrize("named", ["worker", "lease"])
def test_settle_gives_back_what_was_reserved(
    named: str, url: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a worker's name or a lease's; who comes to start it is told no."""
    lease = fleet.reserve(spend(500)).lease
    assert lease is not None

    assert main(["fleet", "settle", lease.worker if named == "worker" else lease.id, url]) == 0

    assert capsys.readouterr().out == f"{lease.id} given back\n"
    assert not fleet.start(lease)
    assert fleet.reserve(spend(500)).lease is not None


def test_settle_lets_a_cell_count_again(url: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """A cell refuses where an amount is missing, until somebody who knows says that it is all right."""
    plan = spend(0)
    later = FleetPlan(cells=plan.cells, moves=(FleetMove(cell=0, deferred=True, limit=500),))
    lease = fleet.reserve(later, started=True).lease
    assert lease is not None
    fleet.finish(lease, "commit", soon=False).result(20)
    assert fleet.reserve(spend(1)).broken[0].unread
    main(["fleet", "show", url])
    shown = capsys.readouterr().out
    cell = re.findall(r"\(cell (.*)\)", shown)[0]

    assert "refuses: an amount is missing" in shown
    assert main(["fleet", "settle", cell, url]) == 0
    assert fleet.reserve(spend(1)).lease is not None


def test_a_key_that_somebody_else_chose_forges_no_line(
    url: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing that a terminal obeys is printed, and a cell is settled by what is printed of it."""
    whose = "c\nworker w: dead for 9 s\x1b[2J\u202e"
    per_customer = [at_most_total("refund", "amount", 500, key="c", scope="fleet", forever=True)]
    Session(contracts=per_customer, fleet=fleet).call("refund", args={"c": whose, "amount": 1}, result="ok")
    fleet.close()

    assert main(["fleet", "show", url]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first.isprintable()
    assert all(line.startswith(("1 cells", "worker ")) and "dead" not in line for line in others)
    cell = first.partition("(cell ")[2].removesuffix(")")

    assert main(["fleet", "settle", cell, url]) == 0
    assert capsys.readouterr().out == f"{cell} counts again\n"


def test_check_names_what_makes_a_server_unfit(
    server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that forgets what was counted is not a store."""
    assert main(["fleet", "check", server.url]) == 1
    assert "note: nothing is written to disk" in capsys.readouterr().out

    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        assert main(["fleet", "check", server.url]) == 2
    finally:
        server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    problem = capsys.readouterr().err
    assert problem.count("\n") == 1
    assert "eviction policy 'allkeys-lru' would forget" in problem


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("redis://127.0.0.1:1/0", id="nobody listens"),
        pytest.param("sqlite:////nowhere/at/all.db", id="no file"),
        pytest.param("ftp://host", id="no store"),
        pytest.param("redis://", id="no host"),
        pytest.param("redis://host:99999/0", id="no port"),
    ],
)
def test_a_wrong_url_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and no traceback."""
    assert main(["fleet", "check", url]) == 2
    problem = capsys.readouterr().err
    assert problem.startswith("error: ")
    assert problem.count("\n") == 1
    assert "internal error" not in problem


def test_check_of_a_file_is_clean(url: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """What is in use is said; a file needs no more."""
    fleet.reserve(spend())

    assert main(["fleet", "check", url]) in ((0,) if url.startswith("sqlite") else (1,))
    assert capsys.readouterr().err == ""


def test_a_wrong_password_is_one_line_without_it(
    server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the secret stays where it was."""
    server.ask("ACL", "SETUSER", "worker", "on", ">right", "~*", "+@all")

    assert main(["fleet", "check", f"redis://worker:wr0ng@127.0.0.1:{server.port}/0"]) == 2

    problem = capsys.readouterr().err
    assert problem.count("\n") == 1
    assert "does not let this client in" in problem
    assert "wr0ng" not in problem
