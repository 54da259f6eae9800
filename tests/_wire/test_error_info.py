"""Exceptions as the error object of an event."""

from __future__ import annotations

import json

import pytest

from openbox_agentrt._wire.error_info import error_info, scrub

SECRETS = {
    "url with a password": ("cannot open https://me:hunter2@db.example/x", "cannot open https://[hidden]@db.example/x"),
    "url with a key": (
        "GET https://api.example/v1?key=hunter2&x=1 failed", "GET https://api.example/v1?[hidden] failed",
    ),
    "bearer": ("header Authorization: Bearer hunter2.token", "header Authorization: [hidden]"),
    "bearer alone": ("sent Bearer hunter2hunter2", "sent Bearer [hidden]"),
    "header": ("x-api-key: hunter2, accept: json", "x-api-key: [hidden], accept: json"),
    "google": ("x-goog-api-key=hunter2", "x-goog-api-key=[hidden]"),
    "json": ('{"password": "hunter2", "user": "me"}', '{"password": "[hidden]", "user": "me"}'),
    "environment": ("OPENAI_API_KEY=hunter2 is wrong", "OPENAI_API_KEY=[hidden] is wrong"),
    "our key": ("bad key obx_live_hunter2", "bad key [hidden]"),
    "their key": ("bad key sk-hunter2hunter2", "bad key [hidden]"),
    "token": ("bad eyJhbGciOi.eyJzdWIiOi.hunter2", "bad [hidden]"),
    "pem": ("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----", "[hidden]"),
    "home": ("[Errno 2] No such file: '/home/me/secret/plan.txt'", "[Errno 2] No such file: '[path]'"),
    "windows": (r"cannot read C:\Users\me\plan.txt", "cannot read [path]"),
    "tilde": ("cannot read ~/.ssh/id_rsa", "cannot read [path]"),
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_what_does_not_belong_in_an_event_is_hidden(name: str) -> None:
    """Texts of exceptions quote what they failed on."""
    text, expected = SECRETS[name]

    assert scrub(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "refund of 12.50 refused",
        "GET https://api.example/v1/users failed",
        "1/2 done",
        "token count is high",
        "a: b",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """A message is still of use to whoever reads it."""
    assert scrub(text) == text


def test_an_exception_has_a_type_and_a_message() -> None:
    """There is no stack trace: it holds paths and source."""
    assert error_info(ValueError("no such order")) == {"type": "ValueError", "message": "no such order"}


def test_an_exception_that_cannot_speak_still_has_a_type() -> None:
    """Describing a failure does not fail."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert error_info(MuteError()) == {"type": "MuteError", "message": ""}


def test_an_error_without_an_exception_can_be_described() -> None:
    """Rows that outlive their run have no exception."""
    info = error_info(type="AbandonedActivity", message="run ended before the activity completed")

    assert info == {"type": "AbandonedActivity", "message": "run ended before the activity completed"}


def test_a_long_message_is_cut_and_is_utf8() -> None:
    """An exception that quotes a document does not send it."""
    info = error_info(ValueError("\ud800" + "x" * 1_000_000))

    assert len(json.dumps(info, ensure_ascii=False).encode()) < 3_000
