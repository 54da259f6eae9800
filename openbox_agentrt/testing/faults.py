"""Ways in which a Core can misbehave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Self

Ending = Literal["complete", "cut", "close", "reset", "hang"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    Describe what goes wrong with one request.

    Use the class methods; they can be combined with ``dataclasses.replace``.

    Attributes:
        name: For records and test ids.
        wait_seconds: Time before the Core sees the request.
        reaches_core: Whether the Core sees the request at all, and so remembers it.
        late_seconds: Time between the Core's answer and the first byte of it.
        status: Status to answer with; ``None`` keeps the Core's.
        headers: Headers to add.
        body: Body to answer with; ``None`` keeps the Core's.
        content_type: Content type of `body`.
        change: Fields to overwrite in the Core's answer.
        ending: How the answer ends. ``cut`` stops in the middle of the body, ``close`` and ``reset`` before
            the first byte, ``hang`` never answers.
    """

    name: str
    wait_seconds: float = 0.0
    reaches_core: bool = False
    late_seconds: float = 0.0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    body: bytes | None = None
    content_type: str = _JSON
    change: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    ending: Ending = "complete"

    @classmethod
    def respond(cls, status: int, *, retry_after: float | str | None = None, body: bytes = b"{}") -> Self:
        """Answer with `status`, and with a ``Retry-After`` if one is given."""
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        if 300 <= status < 400:
            headers["location"] = "/somewhere/else"
        return cls(name=f"status {status}", status=status, headers=headers, body=body)

    @classmethod
    def slow(cls, seconds: float) -> Self:
        """Let the request wait before the Core sees it."""
        return cls(name=f"slow by {seconds} s", wait_seconds=seconds, reaches_core=True)

    @classmethod
    def late(cls, seconds: float) -> Self:
        """Let the answer wait after the Core has decided: a client may have given up by then."""
        return cls(name=f"late by {seconds} s", late_seconds=seconds, reaches_core=True)

    @classmethod
    def lost(cls) -> Self:
        """Let the Core decide, and close the connection before the answer is sent."""
        return cls(name="lost answer", reaches_core=True, ending="close")

    @classmethod
    def black_hole(cls) -> Self:
        """Take the request and never answer."""
        return cls(name="black hole", ending="hang")

    @classmethod
    def close(cls) -> Self:
        """Close the connection without a byte."""
        return cls(name="closed", ending="close")

    @classmethod
    def reset(cls) -> Self:
        """Reset the connection without an answer."""
        return cls(name="reset", ending="reset")

    @classmethod
    def half_answer(cls) -> Self:
        """The Core decides, but only half of its answer arrives."""
        return cls(name="half an answer", reaches_core=True, ending="cut")

    @classmethod
    def text(cls, body: bytes | str, *, content_type: str = _JSON, status: int = 200) -> Self:
        """Answer with these bytes."""
        raw = body.encode() if isinstance(body, str) else body
        return cls(name=f"body {raw[:20]!r}", status=status, body=raw, content_type=content_type)

    @classmethod
    def html(cls, *, status: int = 200) -> Self:
        """Answer with a web page, as a proxy in between would."""
        page = b"<!doctype html><title>Sign in</title><p>Please sign in.</p>"
        return cls(name="HTML", status=status, body=page, content_type="text/html")

    @classmethod
    def value(cls, value: Any) -> Self:
        """Answer with this value as JSON; NaN and infinity are written as JavaScript would."""
        raw = json.dumps(value).encode()
        return cls(name=f"JSON {raw[:30].decode()}", status=200, body=raw)

    @classmethod
    def huge(cls, size: int = 50 * 1024 * 1024) -> Self:
        """Answer with an ALLOW that is padded to `size` bytes."""
        start, end = b'{"verdict": "allow", "reason": "', b'"}'
        body = start + b"x" * (size - len(start) - len(end)) + end
        return cls(name=f"{size} bytes", status=200, body=body)

    @classmethod
    def altered(cls, **change: Any) -> Self:
        """Send the Core's own answer with these fields overwritten; ``...`` removes a field."""
        return cls(name=f"altered {', '.join(change)}", reaches_core=True, change=change)

    def rewrite(self, body: bytes) -> bytes:
        """Make the body to send from the Core's."""
        if self.body is not None:
            return self.body
        if not self.change:
            return body
        merged = {**json.loads(body), **self.change}
        return json.dumps({key: value for key, value in merged.items() if value is not ...}).encode()


def answers_that_are_no_answers() -> Mapping[str, Fault]:
    """
    List every answer with a status of success that says nothing a client could rely on, by name.

    None of them is an ALLOW. Meant for a parametrised test: whatever the fail policy, none of these may be
    taken for a decision of the policy.
    """
    faults = {
        "empty": Fault.text(b""),
        "no content": Fault.respond(204),
        "html": Fault.html(),
        "half": Fault.half_answer(),
        "list": Fault.value([{"verdict": "allow"}]),
        "null": Fault.value(None),
        "text": Fault.value("allow"),
        "number": Fault.value(1),
        "not json": Fault.text(b'{"verdict": "allow"'),
        "bytes": Fault.text(b"\xff\xfe\x00"),
        "empty object": Fault.value({}),
        "unknown verdict": Fault.value({"verdict": "quarantine"}),
        "empty verdict": Fault.value({"verdict": ""}),
        "null verdict": Fault.value({"verdict": None}),
        "number verdict": Fault.value({"verdict": 1}),
        "object verdict": Fault.value({"verdict": {"allow": True}}),
        "list verdict": Fault.value({"verdict": ["allow"]}),
    }
    return MappingProxyType(faults)


def contradictions() -> Mapping[str, Fault]:
    """List every answer that says two things at once, by name; the stricter one has to count."""
    failed = {"validation_passed": False, "reasons": [{"type": "toxic", "field": "prompt", "reason": "no"}]}
    faults = {
        "allow, action block": Fault.altered(verdict="allow", action="block"),
        "allow, action stop": Fault.altered(verdict="allow", action="stop"),
        "block, action continue": Fault.altered(verdict="block", action="continue"),
        "allow, guardrails failed": Fault.altered(verdict="allow", action=..., guardrails_result=failed),
        "allow, guardrails failed and redacted": Fault.altered(
            verdict="allow",
            action=...,
            guardrails_result={**failed, "input_type": "activity_input", "redacted_input": "[gone]"},
        ),
    }
    return MappingProxyType(faults)
