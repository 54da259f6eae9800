"""Nobody gets in without the link of the terminal, and no other page gets anything done."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from openbox_agentrt.console import Place, Sources, running_console
from openbox_agentrt.local_core import LocalCore, NotLoopbackError
from tests.console.desk import Desk, OpenDesk, opened_desk

PAGES = (
    "/",
    "/approvals",
    "/approvals/x",
    "/runs",
    "/runs/x",
    "/stream",
    "/api/v1/overview",
    "/api/v1/approvals",
    "/api/v1/runs",
    "/nothing",
)


@pytest.fixture(scope="module")
def quiet_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A console for tests after which it is as before."""
    with ExitStack() as opened:
        yield opened_desk(opened, tmp_path_factory.mktemp("quiet") / "core.sqlite3")


def _form(client: httpx.Client, approval: str) -> dict[str, str]:
    page = client.get(f"/approvals/{approval}").text
    return {
        name: page.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("token", "shown")
    } | {"do": "approve", "note": ""}


@pytest.mark.parametrize("path", PAGES)
def test_without_the_cookie_nothing_is_shown(quiet_desk: Desk, path: str) -> None:
    """Whatever is asked for, whether it exists or not."""
    answer = httpx.get(f"{quiet_desk.url}{path}", trust_env=False)

    assert answer.status_code == 401
    assert "open the link" in answer.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", ""])
@pytest.mark.parametrize("path", ["/", "/sign-in", "/static/console.css", "/api/v1/approvals"])
def test_another_name_is_not_answered(quiet_desk: Desk, path: str, host: str) -> None:
    """A name that was bound to this address by somebody else reads nothing, with or without a cookie."""
    with quiet_desk.client() as client:
        answer = client.get(path, headers={"host": host})

    assert answer.status_code == 421
    assert len(answer.text) < 100


@pytest.mark.parametrize(
    ("headers", "change", "status"),
    [
        pytest.param({}, {}, 403, id="no origin"),
        pytest.param({"origin": "http://evil.example"}, {}, 403, id="another origin"),
        pytest.param({"origin": "null"}, {}, 403, id="a hidden origin"),
        pytest.param({"origin": "https://OWN"}, {}, 403, id="another scheme"),
        pytest.param({"origin": "http://OWN", "sec-fetch-site": "cross-site"}, {}, 403, id="cross-site"),
        pytest.param({"origin": "http://OWN", "sec-fetch-site": "same-site"}, {}, 403, id="another port"),
        pytest.param({"origin": "http://OWN"}, {"token": "0" * 64}, 403, id="another token"),
        pytest.param({"origin": "http://OWN"}, {"token": ""}, 403, id="no token"),
        pytest.param({"origin": "http://OWN"}, {"token": "é"}, 403, id="a token with an accent"),
        pytest.param({"origin": "http://OWN"}, {"note": "x" * 70_000}, 413, id="too long"),
        pytest.param({"origin": "http://OWN", "host": "evil.example"}, {}, 421, id="another name"),
        pytest.param({"origin": "http://OWN"}, {"shown": "0" * 64}, 409, id="other arguments"),
        pytest.param({"origin": "http://OWN"}, {"do": "maybe"}, 400, id="neither yes nor no"),
    ],
)
def test_what_does_not_come_from_its_own_page_decides_nothing(
    quiet_desk: Desk, headers: dict[str, str], change: dict[str, str], status: int
) -> None:
    """Each part of the check holds by itself."""
    desk = quiet_desk
    approval = desk.ask("refund", {"amount": 180}, activity="a-of-all")
    own = desk.url.partition("//")[2]
    sent = {name: value.replace("OWN", own) for name, value in headers.items()}
    with desk.client() as client:
        answer = client.post(f"/approvals/{approval}", data=_form(client, approval) | change, headers=sent)

    assert answer.status_code == status
    assert {one.state for one in desk.core.approvals()} == {"pending"}


def test_the_same_with_everything_in_its_place_decides(desk: Desk) -> None:
    """So the refusals above are for what they say."""
    approval = desk.ask("refund", {"amount": 180})
    with desk.client() as client:
        form = _form(client, approval)
        answer = client.post(f"/approvals/{approval}", data=form, headers={"origin": desk.url})
        again = client.post(f"/approvals/{approval}", data=form, headers={"origin": desk.url})

    assert answer.status_code == 303
    assert again.status_code == 409
    assert "Already decided" in again.text
    assert [one.state for one in desk.core.approvals()] == ["approved"]


def test_a_cookie_of_somebody_else_is_none(desk: Desk) -> None:
    """And a token is of one cookie only."""
    approval = desk.ask("refund", {"amount": 180})
    with desk.client() as one, desk.client() as other:
        form = _form(one, approval)
        answer = other.post(f"/approvals/{approval}", data=form, headers={"origin": desk.url})
        other.cookies.clear()
        name = next(iter(one.cookies))
        bare = other.get("/approvals", headers={"cookie": f"{name}=guess"})

    assert answer.status_code == 403
    assert bare.status_code == 401


def test_a_form_that_is_cut_off_decides_nothing_and_is_no_failure(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever goes away in the middle of a request leaves nothing in the log."""
    approval = desk.ask("refund", {"amount": 180})
    host = desk.url.partition("//")[2]
    with desk.client() as client:
        name, value = next(iter(client.cookies.items()))
        with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2]))) as sent:
            head = f"POST /approvals/{approval} HTTP/1.1\r\nhost: {host}\r\norigin: {desk.url}\r\n"
            sent.sendall(f"{head}cookie: {name}={value}\r\ncontent-length: 100\r\n\r\ntoken=".encode())
        assert client.get("/approvals").status_code == 200
    desk.stop()

    assert [one.state for one in desk.core.approvals()] == ["pending"]
    assert "Exception" not in caplog.text


def test_a_link_works_once(desk: Desk) -> None:
    """The terminal then shows another."""
    used = desk.links[0]
    assert "set-cookie" not in httpx.head(used, trust_env=False).headers
    with desk.client():
        pass

    assert httpx.get(used, trust_env=False).status_code == 401
    assert len(desk.links) == 2
    assert httpx.get(desk.links[1], trust_env=False).status_code == 200


def test_a_cookie_is_for_twelve_hours(open_desk: OpenDesk) -> None:
    """It cannot be read by a script, and is sent with no request of another page."""
    now = [1_800_000_000.0]
    desk = open_desk(now=lambda: now[0])
    answer = httpx.get(desk.links[-1], trust_env=False)
    cookie = answer.headers["set-cookie"].lower()

    assert {"httponly", "samesite=strict", "max-age=43200"} <= {part.strip() for part in cookie.split(";")}
    with httpx.Client(base_url=desk.url, trust_env=False, cookies=answer.cookies) as client:
        assert client.get("/approvals").status_code == 200
        now[0] += 12 * 3600
        assert client.get("/approvals").status_code == 401


def test_whoever_signs_out_is_out_whatever_they_keep(desk: Desk) -> None:
    """The cookie is worth nothing any more, after a restart neither; and nobody else is signed out."""
    with desk.client() as one, desk.client() as other:
        token = one.get("/approvals").text.partition('name="token" value="')[2].partition('"')[0]
        cookie = "; ".join(f"{name}={value}" for name, value in one.cookies.items())
        unasked = one.post("/sign-out", data={"token": token})
        forged = one.post("/sign-out", data={"token": "0" * 64}, headers={"origin": desk.url})
        assert one.get("/approvals").status_code == 200
        answer = one.post("/sign-out", data={"token": token}, headers={"origin": desk.url})
        kept = httpx.get(f"{desk.url}/approvals", headers={"cookie": cookie}, trust_env=False)
        desk.stop()
        desk.serve(port=int(desk.url.rpartition(":")[2]))
        again = httpx.get(f"{desk.url}/approvals", headers={"cookie": cookie}, trust_env=False)
        assert other.get("/approvals").status_code == 200

    assert (unasked.status_code, forged.status_code, answer.status_code) == (403, 403, 200)
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    assert (kept.status_code, again.status_code) == (401, 401)


def test_a_stream_ends_with_the_sign_in(desk: Desk) -> None:
    """Nothing that happens after it is told."""
    with desk.client() as client:
        token = client.get("/approvals").text.partition('name="token" value="')[2].partition('"')[0]
        with client.stream("GET", "/stream") as stream:
            lines = stream.iter_lines()
            assert "retry" in next(lines)
            client.post("/sign-out", data={"token": token}, headers={"origin": desk.url})
            desk.start("run-after")
            assert "run-after" not in "".join(lines)


def test_two_consoles_at_one_name_do_not_sign_each_other_out(desk: Desk, tmp_path: Path) -> None:
    """Whether at two ports, or one after the other at the same: browsers keep cookies by name alone."""
    with ExitStack() as opened, httpx.Client(trust_env=False) as browser:
        assert browser.get(desk.links[-1]).status_code == 200
        port = int(desk.url.rpartition(":")[2])
        beside = opened_desk(opened, tmp_path / "beside.sqlite3")
        assert browser.get(beside.links[-1]).status_code == 200
        assert browser.get(f"{desk.url}/approvals").status_code == 200
        desk.stop()
        after = opened_desk(opened, tmp_path / "after.sqlite3", port=port)
        assert browser.get(f"{after.url}/approvals").status_code == 401
        assert browser.get(after.links[-1]).status_code == 200
        after.stop()
        desk.serve(port=port)
        assert browser.get(f"{desk.url}/approvals").status_code == 200
        assert browser.get(f"{beside.url}/approvals").status_code == 200


def test_every_answer_carries_the_headers_of_security(desk: Desk) -> None:
    """Also one that refuses."""
    with desk.client() as client:
        answers = [
            client.get(path) for path in ("/approvals", "/static/console.js", "/nothing", "/api/v1/runs")
        ]
        answers.append(client.get("/", headers={"host": "evil.example"}))
    answers.append(httpx.get(desk.url, trust_env=False))

    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_who_is_signed_in_is_kept_as_hashes_for_its_owner_alone(desk: Desk) -> None:
    """The file beside the database gives no cookie away."""
    with desk.client() as client:
        value = next(iter(client.cookies.values()))
    kept = Path(f"{desk.sources.reader.path}.console")

    assert kept.stat().st_mode & 0o077 == 0
    assert value not in kept.read_text()
    assert len(json.loads(kept.read_text())["until"]) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"host": "0.0.0.0"},
        {"host": "0.0.0.0", "allow_other_machines": True},
        {"host": "0.0.0.0", "tls_cert": "cert.pem"},
        {"host": "192.0.2.7", "allow_other_machines": True},
    ],
    ids=["alone", "no certificate", "no leave", "another address"],
)
def test_other_machines_need_leave_and_a_certificate(tmp_path: Path, given: dict[str, Any]) -> None:
    """One of the two is not enough."""
    db = tmp_path / "core.sqlite3"
    with LocalCore(path=db) as core:
        sources = Sources.open(core, db)
        with pytest.raises(NotLoopbackError), running_console(sources, Place(port=0, **given), on_link=print):
            pass
        sources.close()


def test_with_both_it_is_served_over_tls(tmp_path: Path) -> None:
    """Under the names that it was given, and with a cookie that is for TLS only."""
    import ssl

    import trustme

    authority = trustme.CA()
    cert = tmp_path / "cert.pem"
    authority.issue_cert("127.0.0.1", "console.example").private_key_and_cert_chain_pem.write_to_path(
        str(cert)
    )
    context = ssl.create_default_context()
    authority.configure_trust(context)
    db, links = tmp_path / "core.sqlite3", list[str]()
    host = socket.gethostbyname("localhost")
    place = Place(
        host=host, port=0, names=("console.example",), allow_other_machines=True, tls_cert=str(cert)
    )
    with LocalCore(path=db) as core:
        sources = Sources.open(core, db)
        with (
            running_console(sources, place, on_link=links.append),
            httpx.Client(verify=context, trust_env=False) as client,
        ):
            answer = client.get(links[0])
            port = links[0].partition("/sign-in")[0].rpartition(":")[2]
            named = client.get(
                f"https://{host}:{port}/approvals", headers={"host": f"console.example:{port}"}
            )
        sources.close()

    assert links[0].startswith("https://")
    assert "secure" in answer.headers["set-cookie"].lower()
    assert answer.headers["set-cookie"].startswith("__Host-")
    assert named.status_code == 200
