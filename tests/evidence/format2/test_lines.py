"""Lines of format 2."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.evidence.canonical import GENESIS_HASH, canonical, sha256_hex
from openbox_agentrt.evidence.format2.lines import session_text, write_line
from openbox_agentrt.evidence.format2.parsing import parse_line

DEEP = b'{"a":' * 200_000 + b"1" + b"}" * 200_000


def line(body: object = None, session: str | None = "s-1") -> bytes:
    raw, _ = write_line(
        body=canonical(body or {"tool": "delete"}),
        prev=GENESIS_HASH,
        seq=7,
        session=session_text(session),
        time="2026-01-02T03:04:05.678901+00:00",
        type="violation",
    )
    return raw


def test_a_line_is_this() -> None:
    """The format, byte for byte."""
    assert line() == (
        b'{"body":{"tool":"delete"},'
        b'"hash":"48fbcf5d12b403dd2d27baf08c6051b15b51a9433bf3da8bb7ac3a300d7384b4",'
        b'"prev":"0000000000000000000000000000000000000000000000000000000000000000",'
        b'"seq":7,"session":"s-1","time":"2026-01-02T03:04:05.678901+00:00","type":"violation"}\n'
    )


def test_the_hash_is_of_the_line_without_it() -> None:
    """Anyone can check a line with a text editor and a hash tool."""
    raw = line()
    own = json.loads(raw)["hash"]

    assert sha256_hex(raw.rstrip(b"\n").replace(b',"hash":"%b"' % own.encode(), b"")) == own


@given(st.dictionaries(st.text(), st.text()), st.none() | st.text(st.characters(categories=None)))
def test_what_is_written_is_read(body: dict[str, str], session: str | None) -> None:
    """Whatever the body and the session say, a line has one reading."""
    parsed = parse_line(line({"x": body}, session))

    assert parsed.data() == {"x": body} or "$mapping" in str(parsed.data())
    assert (parsed.seq, parsed.prev, parsed.type) == (7, GENESIS_HASH, "violation")
    assert parsed.hash == parsed.computed_hash
    if session is None:
        assert parsed.session is None
    else:
        assert parsed.session == session.encode("utf-8", "backslashreplace").decode()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="empty object"),
        pytest.param(line()[:-1], id="without its line end"),
        pytest.param(b" " + line(), id="space before"),
        pytest.param(line().replace(b'"seq":7', b'"seq":07'), id="leading zero"),
        pytest.param(line().replace(b'"seq":7', b'"seq": 7'), id="space inside"),
        pytest.param(line().replace(b"violation", b"unheard"), id="unknown type"),
        pytest.param(line().replace(b'"seq":7', b'"seq":7,"more":1'), id="more members"),
        pytest.param(line().replace(b'{"tool":"delete"}', b'{"tool":delete}'), id="body that is no json"),
        pytest.param(line().replace(b'{"tool":"delete"}', b'{},"x":{}'), id="body in two pieces"),
        pytest.param(line().replace(b'{"tool":"delete"}', b'{"a":"\xff"}'), id="not utf-8"),
        pytest.param(line().replace(b'"s-1"', b'"\xff"'), id="session that is not utf-8"),
        pytest.param(line().replace(b'"s-1"', b"5"), id="session that is no text"),
        pytest.param(
            line().replace(b'{"tool":"delete"}', b'{"a":' * 200_000 + b"1" + b"}" * 200_000),
            id="deep",
        ),
        pytest.param(line().upper(), id="upper case"),
    ],
)
def test_what_no_writer_writes_is_refused(raw: bytes) -> None:
    """There is one way to write a line."""
    with pytest.raises(ValueError, match=r"."):
        parse_line(raw)
