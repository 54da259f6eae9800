"""Personal data in what goes in and in what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Make = Callable[..., Any]
SENTINEL = {"__openbox": {"tool_type": "database"}}


def test_an_input_is_mirrored_with_replacements(make: Make) -> None:
    """The redacted input has the shape of the input, so it can take its place."""
    given = [{"to": "ada@example.com", "n": [1, "call 555-123-4567"], "none": None}, SENTINEL]

    result = make(guardrails="everything").send(activity_input=given)["guardrails_result"]

    (redacted, sentinel) = result["redacted_input"]
    assert (result["input_type"], result["validation_passed"]) == ("activity_input", True)
    assert sentinel == SENTINEL
    assert redacted["none"] is None
    assert redacted["n"][0] == 1
    assert "ada@" not in str(redacted)
    assert "555-123" not in str(redacted)
    assert [reason["field"] for reason in result["reasons"]] == [
        "activity_input[0].to",
        "activity_input[0].n[1]",
    ]


def test_a_prompt(make: Make) -> None:
    """The text around a replacement stays."""
    result = make(guardrails=True).send(
        activity_type="llm_call", activity_input=[{"prompt": "mail ada@example.com now"}]
    )

    text = result["guardrails_result"]["redacted_input"][0]["prompt"]
    assert text.startswith("mail ")
    assert text.endswith(" now")
    assert "ada@" not in text


@pytest.mark.parametrize(
    "output", [{"result": "ada@example.com"}, ["ada@example.com"], "ada@example.com"], ids=type
)
def test_an_output(make: Make, output: Any) -> None:
    """What a tool returned is looked at when it has completed, whatever its shape."""
    talk = make(guardrails=True)

    result = talk.send("ActivityCompleted", activity_output=output)["guardrails_result"]

    assert result["input_type"] == "activity_output"
    assert type(result["redacted_input"]) is type(output)
    assert "ada@" not in str(result["redacted_input"])


@pytest.mark.parametrize(
    ("event_type", "fields"),
    [
        ("ActivityStarted", {"activity_input": [{"prompt": "hello"}]}),
        ("ActivityStarted", {"activity_input": ...}),
        ("ActivityCompleted", {"activity_output": None}),
        ("WorkflowStarted", {"workflow_type": "ada@example.com"}),
        (
            "ActivityStarted",
            {"activity_input": ["ada@example.com"], "hook_trigger": True, "spans": [{"stage": "started"}]},
        ),
    ],
)
def test_nothing_found_is_no_result(make: Make, event_type: str, fields: dict[str, Any]) -> None:
    """Without a finding there is no result; operations inside an activity have none at all."""
    assert "guardrails_result" not in make(guardrails="everything").send(event_type, **fields)


def test_the_same_value_has_the_same_replacement(make: Make) -> None:
    """What belonged together still does, from one event to the next."""
    talk = make(guardrails="everything")

    one = talk.send(activity_id="a1", activity_input=["ada@example.com"])
    two = talk.send(activity_id="a2", activity_input=["ada@example.com"])

    assert one["guardrails_result"]["redacted_input"] == two["guardrails_result"]["redacted_input"]


@pytest.mark.parametrize(
    "given",
    ["ada@example.com", "call 555-123-4567", "ssn 123-45-6789", "card 4111 1111 1111 1111", "ip 10.1.2.3"],
)
def test_a_replacement_is_not_replaced_when_it_comes_back(make: Make, given: str) -> None:
    """A conversation has one value for one person, not a new one with every turn."""
    core = make(guardrails="everything")

    first = core.send(activity_input=[{"text": given}])["guardrails_result"]["redacted_input"]
    again = core.send(activity_id="another", activity_input=first)

    assert "guardrails_result" not in again


def test_the_environment_does_not_switch_it_off(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is meant for Agent-RT's own redaction is not about this one."""
    monkeypatch.setenv("AGENT_RT_DISABLE_PII_MORPHER", "1")

    talk = make(guardrails="everything")

    assert "guardrails_result" in talk.send(activity_input=["ada@example.com"])


def test_nothing_is_changed_unasked(make: Make) -> None:
    """Neither a prompt nor an argument nor an output is looked at unless somebody says so."""
    talk = make()

    assert "guardrails_result" not in talk.send(activity_input=["ada@example.com"])
    assert "guardrails_result" not in talk.send("ActivityCompleted", activity_output="ada@example.com")
    prompt = [{"prompt": "mail ada@example.com"}]
    assert "guardrails_result" not in talk.send(
        activity_id="a2", activity_type="llm_call", activity_input=prompt
    )


def test_arguments_are_changed_only_when_asked(make: Make) -> None:
    """A tool that sends an invoice sends it where it was told to."""
    answer = make(guardrails=True).send(activity_input=[{"to": "ada@example.com"}])

    assert "guardrails_result" not in answer


def test_guardrails_that_are_none_of_these(make: Make) -> None:
    """A word that means nothing is not taken for off."""
    with pytest.raises(ValueError, match="guardrails are True, False, 'everything' or a callable, not 'all'"):
        make(guardrails="all")


def test_a_callable_takes_their_place(make: Make) -> None:
    """A test can say what the guardrails found."""
    found = {"validation_passed": False, "reasons": [{"type": "toxic", "field": "x", "reason": "no"}]}
    talk = make(guardrails=lambda event: found if event["activity_id"] == "a1" else None)

    assert talk.send()["guardrails_result"] == found
    assert "guardrails_result" not in talk.send(activity_id="a2")


def test_the_policy_has_the_last_word(make: Make) -> None:
    """A policy's own guardrails result replaces the detected one, and null takes it away."""
    own = {"validation_passed": False, "reasons": []}
    talk = make(lambda event: {"decision": "ALLOW", "guardrails_result": own}, guardrails="everything")
    silent = make(lambda event: {"decision": "ALLOW", "guardrails_result": None}, guardrails="everything")

    assert talk.send(activity_input=["ada@example.com"])["guardrails_result"] == own
    assert "guardrails_result" not in silent.send(activity_input=["ada@example.com"])


def test_guardrails_that_fail_do_not_pass(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Data that could not be looked at is not taken for clean, and is in no log."""

    def broken(event: dict[str, Any]) -> None:
        raise RuntimeError(f"cannot read {event['activity_input']}")

    result = make(guardrails=broken).send(activity_input=["secret"])["guardrails_result"]

    assert "the guardrails failed on ActivityStarted: RuntimeError in test_guardrails.py" in caplog.text
    assert "secret" not in caplog.text

    assert result["validation_passed"] is False
    assert result["reasons"][0]["reason"] == "the guardrails failed"


@pytest.mark.parametrize(
    "found", [{"redacted_input": float("nan")}, {"redacted_input": object()}], ids=["nan", "object"]
)
def test_a_finding_that_is_no_json_does_not_pass(make: Make, found: dict[str, Any]) -> None:
    """What cannot be written is not left out."""
    result = make(guardrails=lambda event: found).send()["guardrails_result"]

    assert result["validation_passed"] is False


@pytest.mark.parametrize(
    "between",
    [" ", ".", "\u00a0", "\u2011", "\u2013", "-\u200b", "\u2060-", "\uff0d", " - "],
    ids=ascii,
)
@pytest.mark.parametrize(
    "groups", [("123", "45", "6789"), ("212", "555", "0142"), ("4111", "1111", "1111", "1111")], ids="-".join
)
def test_numbers_of_people_are_found_with_any_separators(
    make: Make, groups: tuple[str, ...], between: str
) -> None:
    """A social security, phone or card number is the same number, and has the same replacement."""
    common = "" if len(groups) == 4 else "-"
    other = make(guardrails="everything").send(activity_input=[f"it is {between.join(groups)}, ok"])
    usual = make(guardrails="everything").send(activity_input=[f"it is {common.join(groups)}, ok"])

    assert other["guardrails_result"]["redacted_input"] == usual["guardrails_result"]["redacted_input"]
    assert groups[-1] not in str(other["guardrails_result"]["redacted_input"])


@pytest.mark.parametrize(
    "text",
    [
        "2026.01.1234",
        "000 12 3456",
        "666.12.3456",
        "987 65 4321",
        "123 00 4567",
        "123 45 0000",
        "1 2 3",
        "123456789",
    ],
)
def test_other_numbers_stay(make: Make, text: str) -> None:
    """A number that cannot be a person's is nobody's data."""
    assert "guardrails_result" not in make(guardrails="everything").send(activity_input=[f"see {text}"])
