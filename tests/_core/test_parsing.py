"""Core's answers, read strictly."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openbox_core.contracts.results import EvaluationResult, PatchDirective

from openbox_agentrt._core.parsing import decoded, parse_answer, parse_time, read_answer
from openbox_agentrt._errors.refusals import raise_for_answer
from openbox_agentrt._plain.strict_json import JsonError
from openbox_agentrt.decision import MISSING, Verdict
from openbox_agentrt.errors import GovernanceBlockedError, GovernanceHaltError

UNDERSTOOD: dict[str, tuple[dict[str, Any], Verdict]] = {
    "allow": ({"verdict": "allow"}, Verdict.ALLOW),
    "constrain": ({"verdict": "constrain"}, Verdict.CONSTRAIN),
    "approval": ({"verdict": "require_approval"}, Verdict.REQUIRE_APPROVAL),
    "approval with a hyphen": ({"verdict": "require-approval"}, Verdict.REQUIRE_APPROVAL),
    "approval by its other name": ({"action": "request_approval"}, Verdict.REQUIRE_APPROVAL),
    "block": ({"verdict": "block"}, Verdict.BLOCK),
    "halt": ({"verdict": "halt"}, Verdict.HALT),
    "legacy continue": ({"action": "continue"}, Verdict.ALLOW),
    "legacy stop": ({"action": "stop"}, Verdict.HALT),
    "upper case": ({"verdict": "BLOCK"}, Verdict.BLOCK),
    "blanks": ({"verdict": " block\n"}, Verdict.BLOCK),
    "stricter action": ({"verdict": "allow", "action": "block"}, Verdict.BLOCK),
    "stricter verdict": ({"verdict": "halt", "action": "continue"}, Verdict.HALT),
    "empty action": ({"verdict": "allow", "action": ""}, Verdict.ALLOW),
    "null action": ({"verdict": "allow", "action": None}, Verdict.ALLOW),
    "empty verdict beside an action": ({"verdict": "", "action": "continue"}, Verdict.ALLOW),
    "block beside an unknown action": ({"verdict": "block", "action": "quarantine"}, Verdict.BLOCK),
    "halt beside guardrails that are none": ({"verdict": "halt", "guardrails_result": 5}, Verdict.HALT),
    "constraints beside an allow": ({"verdict": "allow", "constraints": ["x"]}, Verdict.CONSTRAIN),
    "constraints beside an approval": (
        {"verdict": "require_approval", "constraints": ["x"]}, Verdict.REQUIRE_APPROVAL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_an_answer_of_the_vocabulary_is_understood(name: str) -> None:
    """Trimmed, in any case, and the stricter of two."""
    raw, verdict = UNDERSTOOD[name]

    answer = parse_answer(raw)

    assert (answer.verdict, answer.local) == (verdict, False)


NOT_UNDERSTOOD: dict[str, Any] = {
    "empty object": {},
    "unknown": {"verdict": "quarantine"},
    "deny": {"verdict": "DENY"},
    "approved": {"verdict": "approved"},
    "empty": {"verdict": ""},
    "null": {"verdict": None},
    "number": {"verdict": 1},
    "true": {"verdict": True},
    "list": {"verdict": ["allow"]},
    "object": {"verdict": {"allow": True}},
    "allow beside an unknown action": {"verdict": "allow", "action": "quarantine"},
    "allow beside an action that is a number": {"verdict": "allow", "action": 0},
    "unknown beside an allow": {"verdict": "monitor", "action": "continue"},
    "guardrails that are text": {"verdict": "allow", "guardrails_result": "passed"},
    "guardrails that are a list": {"verdict": "allow", "guardrails_result": [{"validation_passed": False}]},
    "constraints that are text": {"verdict": "constrain", "constraints": "run_in_sandbox"},
    "a constraint without a name": {"verdict": "constrain", "constraints": [{"level": 3}]},
    "a constraint that is a number": {"verdict": "allow", "constraints": [3]},
    "a JSON list": [{"verdict": "allow"}],
    "JSON null": None,
    "JSON text": "allow",
    "JSON number": 1,
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
@pytest.mark.parametrize(("on_unknown", "verdict"), [("block", Verdict.BLOCK), ("halt", Verdict.HALT)])
def test_an_answer_that_is_not_understood_is_no_allow(name: str, on_unknown: Any, verdict: Verdict) -> None:
    """It counts as the options say, is ours and not Core's, and says what was wrong."""
    answer = parse_answer(NOT_UNDERSTOOD[name], on_unknown=on_unknown)

    assert (answer.verdict, answer.local, answer.latches) == (verdict, True, False)
    assert str(answer.reason).startswith("core's answer was not understood: ")


def test_only_a_halt_of_core_s_latches() -> None:
    """One made up here stops a single call."""
    assert parse_answer({"verdict": "halt"}).latches
    assert not parse_answer({}, on_unknown="halt").latches
    assert not parse_answer({"verdict": "block"}).latches


def test_a_long_unknown_word_is_shortened() -> None:
    """An answer does not fill the log."""
    assert len(str(parse_answer({"verdict": "x" * 10_000}).reason)) < 200


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        (True, True), ("true", True), (" TRUE ", True), ("false", False), (False, False), (None, False),
        ("", False), ("ok", False), (1, False), (0, False), ([], False),
    ],
)  # fmt: skip
def test_guardrails_have_passed_only_by_a_clear_yes(value: object, passed: bool) -> None:
    """Text counts as what it says, null says nothing."""
    answer = parse_answer({"verdict": "allow", "guardrails_result": {"validation_passed": value}})

    assert answer.guardrails is not None
    assert answer.guardrails.validation_passed is passed


@pytest.mark.parametrize(
    "reasons", ["a card number", ["a card number"], [{"reason": "a card number"}]], ids=repr
)
def test_guardrails_with_reasons_and_no_verdict_have_not_passed(reasons: Any) -> None:
    """Nobody gives reasons for a yes."""
    answer = parse_answer({"verdict": "allow", "guardrails_result": {"reasons": reasons}})

    assert answer.guardrails is not None
    assert not answer.guardrails.validation_passed
    assert answer.guardrails.reasons == ("a card number",)


@pytest.mark.parametrize("reasons", [[{"why": "a card number"}], {"card": "a number"}, 1], ids=repr)
def test_reasons_in_an_unknown_form_are_some(reasons: Any) -> None:
    """Nobody gives reasons for a yes, however they are written."""
    answer = parse_answer({"verdict": "allow", "guardrails_result": {"reasons": reasons}})

    assert answer.guardrails is not None
    assert not answer.guardrails.validation_passed


def test_guardrails_that_do_not_speak_of_validation_have_passed() -> None:
    """A redaction alone is no failure."""
    answer = parse_answer({"verdict": "allow", "guardrails_result": {"redacted_input": "x"}})

    assert answer.guardrails is not None
    assert answer.guardrails.validation_passed


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([{"type": "pii", "field": "x", "reason": "no"}, "rude", {"type": "x"}, 5, ""], ("no", "rude")),
        ("no", ("no",)),
        (None, ()),
        ({"reason": "no"}, ("no",)),
    ],
)
def test_reasons_are_read_as_far_as_they_are_text(reasons: object, expected: tuple[str, ...]) -> None:
    """openbox_core fails on a reason that is no object."""
    raw = {"verdict": "allow", "guardrails_result": {"validation_passed": False, "reasons": reasons}}

    answer = parse_answer(raw)

    assert answer.guardrails is not None
    assert answer.guardrails.reasons == expected


@pytest.mark.parametrize(
    ("guardrails", "redacted"),
    [
        ({}, None),
        ({"redacted_input": None}, MISSING),
        ({"redacted_input": ""}, ""),
        ({"redacted_input": [1]}, [1]),
    ],
)
def test_a_redaction_to_nothing_is_not_no_redaction(guardrails: Any, redacted: Any) -> None:
    """Null and absent say that nothing was redacted, an empty text says that all of it was."""
    answer = parse_answer({"verdict": "allow", "guardrails": guardrails})

    if redacted is None:
        assert answer.guardrails is None
    else:
        assert answer.guardrails is not None
        assert answer.guardrails.redacted_input == redacted


def test_constraints_are_names() -> None:
    """As text, or as objects with a name."""
    raw = {
        "verdict": "constrain",
        "constraints": ["run_in_sandbox ", {"name": "log", "level": 3}, {"type": "cap"}],
    }

    assert parse_answer(raw).constraints == ("run_in_sandbox", "log", "cap")


@pytest.mark.parametrize(
    ("risk", "expected"),
    [(0.5, 0.5), (3, 3.0), (math.nan, None), (math.inf, None), ("0.5", None), (True, None), (10**400, None)],
)
def test_a_risk_is_a_finite_number_or_none(risk: object, expected: float | None) -> None:
    """A strange one is left out, not the whole answer."""
    answer = parse_answer({"verdict": "allow", "risk_score": risk})

    assert (answer.risk_score, answer.verdict, answer.local) == (expected, Verdict.ALLOW, False)


def test_what_core_says_beside_the_verdict_is_kept() -> None:
    """Ids may arrive as numbers, and what is no text is left out."""
    raw = {
        "verdict": "block", "reason": "no", "policy_id": 7, "governance_event_id": "e1", "trust_tier": "gold",
        "approval_id": ["x"], "approval_expiration_time": "2024-01-02 03:04:05",
        "patch": {"new_input": {"amount": 5}},
    }  # fmt: skip

    answer = parse_answer(raw)

    assert (answer.reason, answer.policy_id, answer.governance_event_id) == ("no", "7", "e1")
    assert (answer.trust_tier, answer.approval_id) == ("gold", None)
    assert answer.approval_expires_at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert answer.patch == PatchDirective(new_input={"amount": 5}, governance_event_id="e1", reason="no")
    assert answer.result == EvaluationResult.from_dict(raw)


def test_what_openbox_core_cannot_read_has_no_result() -> None:
    """The answer itself was read strictly; only the view of the other library is missing."""
    assert parse_answer({"verdict": 7}).result is None
    assert parse_answer([]).result is None


@pytest.mark.parametrize(
    "raw",
    [
        {"verdict": "halt", "patch": {"new_input": 1}},
        {"verdict": "allow", "patch": {"new_input": 1}},
        {"verdict": "block", "patch": {"new_input": True}},
        {"verdict": "block", "patch": {"new_input": 1, "more": 2}},
        {"verdict": "block", "patch": "x"},
        {"verdict": "quarantine", "patch": {"new_input": 1}},
    ],
)
def test_a_patch_comes_only_with_a_block_of_core_s(raw: dict[str, Any]) -> None:
    """And only in its exact form."""
    assert parse_answer(raw).patch is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05+02:00", datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05.123456789Z", datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("soon", None),
        (1704164645, None),
        (None, None),
    ],
)
def test_times_of_the_wire(value: object, expected: datetime | None) -> None:
    """Go's zero time is none."""
    assert parse_time(value) == expected


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    ["verdict", "action", "guardrails_result", "guardrails", "constraints", "patch", "reason", "risk_score",
     "approval_expiration_time", "approval_id"]
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(fields, anything | st.sampled_from(["allow", "block", "halt"])))
def test_any_answer_is_read_and_only_an_allow_allows(raw: dict[str, Any]) -> None:
    """Nothing raises, and an ALLOW needs the word for it."""
    answer = parse_answer(raw)

    if answer.verdict is Verdict.ALLOW:
        words = {str(raw[name]).strip().lower() for name in ("verdict", "action") if raw.get(name)}
        assert words & {"allow", "continue"}
        assert words <= {"allow", "continue", ""}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param('{"a":1,"a":2}', id="plain"),
        pytest.param('{"a" : 1, "a" :2}', id="blanks"),
        pytest.param('{"x":[{"b":{"a":1,"a":2}}]}', id="deep"),
        pytest.param('{"a":1,"\\u0061":2}', id="escaped"),
        pytest.param('{"a":":","a":2}', id="a colon in a text"),
    ],
)
def test_a_key_that_occurs_twice_is_found(body: str) -> None:
    """Whichever of the two readers sees it."""
    with pytest.raises(JsonError):
        decoded(body.encode())


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=12,
    ),
    ascii_only=st.booleans(),
    indent=st.none() | st.just(1),
)
def test_decoding_is_what_the_standard_library_says(value: Any, ascii_only: bool, indent: int | None) -> None:
    """The quick reader changes nothing but the time."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    assert decoded(text.encode(errors="surrogatepass")) == json.loads(text)


@given(
    raw=st.dictionaries(
        st.sampled_from(["verdict", "action", "reason", "policy_id", "governance_event_id", "constraints"]),
        st.sampled_from(
            ["allow", "continue", "ALLOW", " allow", "block", "halt", "", None, 7, "text", [], {}]
        ),
    )
)
def test_a_plain_allow_takes_a_short_way_to_the_same_answer(raw: dict[str, Any]) -> None:
    """Nobody can tell from the answer which way it was read."""
    assert read_answer(json.dumps(raw).encode()) == parse_answer(raw)


DEEP = b'"patch":{"new_input":' + b"[" * 600 + b"1" + b"]" * 600 + b"}"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b'{"verdict":"halt","action":"stop",' + DEEP + b"}", GovernanceHaltError, id="halt"),
        pytest.param(
            b'{"verdict":"block","action":"block",' + DEEP + b"}", GovernanceBlockedError, id="block"
        ),
    ],
)
def test_a_patch_that_nobody_can_read_takes_nothing_from_the_verdict(
    body: bytes, error: type[Exception]
) -> None:
    """openbox_core fails on it; that must not stand between a verdict and its enforcement."""
    answer = parse_answer(decoded(body))

    assert answer.patch is None
    assert answer.result is None
    with pytest.raises(error):
        raise_for_answer(answer)


def test_what_core_says_can_be_printed() -> None:
    """A reason with half a character in it is still a reason, and ends up in somebody's log."""
    answer = parse_answer(decoded(b'{"verdict": "block", "reason": "no \\ud83d", "policy_id": "p"}'))

    assert answer.reason == "no \ufffd"


@pytest.mark.parametrize(
    ("beside", "verdict", "passed"),
    [
        pytest.param({"constraints": ["read_only"]}, Verdict.CONSTRAIN, True, id="constraints"),
        pytest.param(
            {"guardrails_result": {"validation_passed": False}}, Verdict.ALLOW, False, id="guardrails"
        ),
        pytest.param(
            {"guardrails": {"validation_passed": False}}, Verdict.ALLOW, False, id="their other name"
        ),
        pytest.param({"guardrails": "broken"}, Verdict.BLOCK, True, id="unreadable guardrails"),
    ],
)
def test_an_allow_that_both_fields_agree_on_is_not_all(
    beside: dict[str, Any], verdict: Verdict, passed: bool
) -> None:
    """What stands beside it counts, as it does where only one field says it."""
    answer = parse_answer({"verdict": "allow", "action": "continue", **beside})

    assert answer.verdict is verdict
    assert (answer.guardrails is None or answer.guardrails.validation_passed) is passed
