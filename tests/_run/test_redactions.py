"""Redactions that stay in force for a run."""

from __future__ import annotations

import copy
import gc
import json
from typing import Any

import pytest
from agent_rt import ContentPart, ModelMessage, ToolCall

from openbox_agentrt._run import redactions as module
from openbox_agentrt._run.redactions import Redactions
from openbox_agentrt.errors import GovernanceUnavailableError

RAW = "my ssn is 123-45-6789 ok"
CLEAN = "my ssn is *** ok"
IMAGE = ContentPart(type="image", data="aGk=", mime_type="image/png")


def text(value: str) -> ContentPart:
    return ContentPart(type="text", text=value)


def message(role: Any, *parts: ContentPart, calls: tuple[ToolCall, ...] = ()) -> ModelMessage:
    return ModelMessage(role=role, content=parts, tool_calls=calls)


@pytest.fixture
def redactions() -> Redactions:
    known = Redactions()
    known.learn(RAW, CLEAN)
    return known


def test_without_redactions_nothing_is_touched() -> None:
    """The same objects come back, the sequence included."""
    messages = [message("user", text(RAW))]

    assert not Redactions()
    assert Redactions().messages(messages) is messages


PLACES: dict[str, tuple[ModelMessage, ModelMessage]] = {
    "the message itself": (message("user", text(RAW)), message("user", text(CLEAN))),
    "in two parts": (message("user", text(RAW[:14]), text(RAW[14:])), message("user", text(CLEAN))),
    "beside media": (message("user", text(RAW), IMAGE), message("user", text(CLEAN), IMAGE)),
    "quoted by the system": (
        message("system", text(f"User: {RAW}!")),
        message("system", text(f"User: {CLEAN}!")),
    ),
    "an earlier answer": (
        message("assistant", text(f"You said {RAW}")),
        message("assistant", text(f"You said {CLEAN}")),
    ),
    "a tool's result": (
        message("tool", ContentPart(type="json", data={"rows": [{"q": RAW}]})),
        message("tool", ContentPart(type="json", data={"rows": [{"q": CLEAN}]})),
    ),
    "a key of a tool's result": (
        message("tool", ContentPart(type="json", data={RAW: 1})),
        message("tool", ContentPart(type="json", data={CLEAN: 1})),
    ),
    "arguments of a call": (
        message("assistant", calls=(ToolCall("1", "search", {"q": RAW, "n": 1}),)),
        message("assistant", calls=(ToolCall("1", "search", {"q": CLEAN, "n": 1}),)),
    ),
    "why arguments were no JSON": (
        message("assistant", calls=(ToolCall("1", "search", {}, f"cannot read {RAW}"),)),
        message("assistant", calls=(ToolCall("1", "search", {}, f"cannot read {CLEAN}"),)),
    ),
    "the telling word alone": (
        message("user", text("is 123-45-6789 mine")),
        message("user", text("is *** mine")),
    ),
    "the telling word in two parts": (
        message("user", text("is 123-"), text("45-6789?")),
        message("user", text("is ***?")),
    ),
    "the telling word as an argument": (
        message("assistant", calls=(ToolCall("1", "check", {"ssn": "123-45-6789"}),)),
        message("assistant", calls=(ToolCall("1", "check", {"ssn": "***"}),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_the_raw_text_is_taken_out_wherever_it_comes_back(redactions: Redactions, name: str) -> None:
    """In every role and every part of a message; the original is not changed."""
    before, expected = PLACES[name]
    untouched = copy.deepcopy(before)

    (after,) = redactions.messages([before])

    assert after == expected
    assert before == untouched


def test_a_message_without_it_is_the_same_object(redactions: Redactions) -> None:
    """Providers cache by identity, so nothing is copied that need not be."""
    other = message("user", text("hello"), IMAGE, calls=(ToolCall("1", "search", {"q": ["x"]}),))
    messages = (other,)

    assert redactions.messages(messages) is messages
    assert redactions.messages([message("user", text(RAW)), other])[1] is other


def test_a_redacted_message_is_the_same_new_object_every_turn(redactions: Redactions) -> None:
    """Sixty turns convert a message once, not sixty times."""
    raw = message("user", text(RAW))

    first = redactions.messages([raw])[0]
    again = redactions.messages([raw, message("user", text("more"))])[0]

    assert first is again
    assert redactions.messages([first])[0] is first


def test_another_redaction_leaves_the_objects_that_it_does_not_concern(redactions: Redactions) -> None:
    """Learning something in turn 5 does not make new objects of turns 1 to 4."""
    raw, other = message("user", text(RAW)), message("user", text("hello"))
    first = redactions.messages([raw, other])

    redactions.learn("my pin is 99887766", "my pin is ***")
    again = redactions.messages([raw, other, message("user", text("pin 99887766"))])

    assert again[0] is first[0]
    assert again[1] is other
    assert again[2] == message("user", text("pin ***"))


def test_a_longer_raw_text_is_found_around_a_shorter_one(redactions: Redactions) -> None:
    """A redaction of a part does not keep that of the whole from being applied."""
    longer = RAW + " and my password is correcthorsebattery"
    redactions.learn(longer, CLEAN + " and my password is ***")

    assert "correcthorsebattery" not in redactions.text(longer)
    assert "correcthorsebattery" not in redactions.text("it was correcthorsebattery")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_it_is_found_inside_a_text_that_is_json(ascii_only: bool) -> None:
    """Where line breaks, quotes and umlauts are written differently."""
    known = Redactions()
    known.learn('Frau M\u00fcller says:\n"ssn 123-45-6789"', "Frau [NAME] says:\n...")
    told = json.dumps({"q": 'Frau M\u00fcller says:\n"ssn 123-45-6789"'}, ensure_ascii=ascii_only)

    clean = known.text(told)

    assert json.loads(clean) == {"q": "Frau [NAME] says:\n..."}


def test_the_longest_text_is_taken_out_first() -> None:
    """A part of it that is known too would leave the rest of it behind."""
    known = Redactions()
    known.learn("the blue house", "[gone]")
    known.learn("the blue house is mine today", "[all gone]")

    assert known.text("he said: the blue house is mine today!") == "he said: [all gone]!"
    assert known.text("he said: the blue house!") == "he said: [gone]!"


def test_what_takes_the_place_of_a_text_is_looked_at_too() -> None:
    """Core may have redacted one secret there, and the other elsewhere."""
    known = Redactions()
    known.learn("first 11112222, second 33334444", "first ***, second 33334444")
    known.learn("again 33334444", "again ###")

    assert known.text("first 11112222, second 33334444") == "first ***, second ###"


def test_redacted_to_nothing_stays_nothing() -> None:
    """An empty replacement is a replacement."""
    known = Redactions()
    known.learn("a secret plan", "")

    assert known.text("a secret plan") == ""
    assert known.text("see: a secret plan.") == "see: ."


def test_a_short_text_is_replaced_only_as_a_whole() -> None:
    """`no` is part of too many words."""
    known = Redactions()
    known.learn("no", "[gone]")

    assert known.text("no") == "[gone]"
    assert known.text("nothing") == "nothing"


def test_words_that_differ_but_tell_nothing_are_left_alone() -> None:
    """A guardrail that replaces a common word does not replace it everywhere."""
    known = Redactions()
    known.learn("please call Bill about the invoice", "please call [NAME] about the invoice")

    assert known.text("the Bill is high") == "the Bill is high"


def test_applying_twice_is_applying_once() -> None:
    """Also where the replacement contains what it replaces."""
    known = Redactions()
    known.learn("ann@example.com", "<ann@example.com hidden>")

    once = known.text("ann@example.com")

    assert once == "<ann@example.com hidden>"
    assert known.text(once) == once


def test_what_was_redacted_in_arguments_is_learnt_leaf_by_leaf() -> None:
    """Every text that changed, also where a whole branch was replaced."""
    known = Redactions()
    before = {"note": "ssn 123-45-6789", "to": {"names": ["Annabel Example"]}, "n": 1, "list": ["same"]}
    known.learn(before, {"note": "ssn ***", "to": "[gone]", "n": 1, "list": ["same"]})

    assert known.text("ssn 123-45-6789") == "ssn ***"
    assert known.text("to Annabel Example") == "to [gone]"
    assert known.text("same") == "same"


def test_values_keep_their_shape_and_identity(redactions: Redactions) -> None:
    """Only what holds the raw text is copied."""
    inner = {"x": 1}
    value = {"a": inner, "b": (RAW,), "c": [inner], "d": None}

    result = redactions.value(value)

    assert result == {"a": inner, "b": (CLEAN,), "c": [inner], "d": None}
    assert result["a"] is inner
    assert redactions.value(result) is result


def test_memory_of_messages_is_bounded(redactions: Redactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run does not keep all its messages alive."""
    monkeypatch.setattr(module, "MAX_REMEMBERED_MESSAGES", 10)
    for number in range(200):
        redactions.messages([message("user", text(f"{RAW} {number}"))])
    gc.collect()

    assert len(redactions._memo) <= 10


def test_a_redaction_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than that, the run is refused."""
    monkeypatch.setattr(module, "MAX_REDACTIONS", 3)
    known = Redactions()
    for number in range(3):
        known.learn(f"raw text {number}", "***")
    known.learn("raw text 0", "***")

    with pytest.raises(GovernanceUnavailableError, match="too many redactions"):
        known.learn("raw text 3", "***")


def test_a_message_s_id_is_not_taken_for_another_s(redactions: Redactions) -> None:
    """Messages that are gone do not answer for new ones at the same address."""
    for number in range(2_000):
        (after,) = redactions.messages([message("user", text(f"{number}: {RAW}"))])
        assert after.content[0].text == f"{number}: {CLEAN}"
