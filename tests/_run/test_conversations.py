"""What is remembered of a conversation, and how much of it."""

from __future__ import annotations

from typing import Any

import pytest
from agent_rt import ContentPart, ModelMessage

from openbox_agentrt._run import conversations, judged_content
from openbox_agentrt._run.conversations import Quotes
from openbox_agentrt._run.judged_content import JudgedContent
from openbox_agentrt._wire.model_input import message_elements
from openbox_agentrt.message_extraction import last_user_text


def says(text: str, role: Any = "user") -> ModelMessage:
    return ModelMessage(role, (ContentPart("text", text),))


def test_the_same_content_in_another_message_is_known() -> None:
    """A client sends copies of what it was sent."""
    judged = JudgedContent()
    judged.remember(judged.unjudged([says("hello")]))

    assert judged.unjudged([says("hello")]) == []
    assert judged.unjudged([says("hello", "assistant")]) == [{"role": "assistant", "text": "hello"}]


def test_a_content_is_asked_about_once() -> None:
    """Twice the same text is one element."""
    assert JudgedContent().unjudged([says("hello"), says("hello")]) == [{"role": "user", "prompt": "hello"}]


def test_the_order_of_keys_makes_no_other_content() -> None:
    """A client may write an object in another order."""
    judged = JudgedContent()
    one = ModelMessage("tool", (ContentPart("json", data={"a": 1, "b": 2}),), tool_call_id="1")
    other = ModelMessage("tool", (ContentPart("json", data={"b": 2, "a": 1}),), tool_call_id="1")
    judged.remember(judged.unjudged([one]))

    assert judged.unjudged([other]) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda m: m.content[0].data.update(note="other"), id="data of a part"),
        pytest.param(lambda m: m.content.append(ContentPart("text", "more")), id="a part more"),
    ],
)
def test_a_message_that_was_changed_is_not_known_by_identity(change: Any) -> None:
    """It is frozen, and what it holds is not."""
    judged = JudgedContent()
    message = ModelMessage("user", [ContentPart("json", data={"note": "one"})])
    judged.remember(judged.unjudged([message]))
    assert judged.unjudged([message]) == []

    change(message)

    assert judged.unjudged([message]) != []


def test_a_conversation_that_grows_is_looked_at_where_it_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hundredth call costs what the second does."""
    judged = JudgedContent()
    messages = [says("hello"), says("hi", "assistant")]
    judged.remember(judged.unjudged(messages))
    judged.unjudged(messages)
    looked_at: list[Any] = []

    def watched(ones: Any) -> Any:
        looked_at.extend(ones)
        return message_elements(ones)

    monkeypatch.setattr(judged_content, "message_elements", watched)

    for number in range(3):
        messages.append(says(str(number)))
        judged.remember(judged.unjudged(tuple(messages)))
        judged.unjudged(tuple(messages))

    assert [message.content[0].text for message in looked_at] == ["0", "0", "1", "1", "2", "2"]
    judged.rest()
    assert judged.unjudged(messages) == []


def test_a_conversation_of_which_only_the_end_is_sent_is_looked_at_where_it_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was looked at twice is known by itself, also where the first messages are left out each time."""
    judged = JudgedContent()
    messages = [says(str(number)) for number in range(10)]
    looked_at: list[str] = []

    def watched(ones: Any) -> Any:
        looked_at.extend(message.content[0].text for message in ones)
        return message_elements(ones)

    monkeypatch.setattr(judged_content, "message_elements", watched)
    window = messages[:5]
    for message in messages[5:]:
        judged.remember(judged.unjudged(window))
        judged.unjudged(window)
        looked_at.clear()
        window = [*window[1:], message]
        assert judged.unjudged(window) == [{"role": "user", "prompt": message.content[0].text}]

    assert looked_at == ["8", "9"]


def test_contents_that_json_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told apart by what they hold, and never raise."""
    judged = JudgedContent()
    cyclic: dict[str, Any] = {}
    cyclic["self"] = cyclic
    odd = [{1: "a"}, {(1, 2): "b"}, float("nan"), {1, 2}, object(), cyclic, "\ud800", 2**80]
    messages = [ModelMessage("tool", (ContentPart("json", data=value),)) for value in odd]

    found = judged.unjudged(messages)
    judged.remember(found)

    assert len(found) == len(odd)
    assert judged.unjudged(messages) == []


def test_what_is_too_much_is_forgotten_and_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing passes because there was no room to remember it."""
    monkeypatch.setattr(judged_content, "MAX_ELEMENTS", 2)
    monkeypatch.setattr(judged_content, "MAX_MESSAGES", 1)
    judged = JudgedContent()
    messages = [says(str(number)) for number in range(3)]
    judged.remember(judged.unjudged(messages))

    assert judged.unjudged(messages) == [{"role": "user", "prompt": "0"}]


def test_a_redacted_text_is_known_in_other_runs_by_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text itself is not kept; of too many, the oldest is forgotten."""
    monkeypatch.setattr(conversations, "MAX_QUOTED", 1)
    kept = Quotes()
    kept.conversation().redactions.learn("call 555-0100", "call [phone]")

    assert kept.recall("call 555-0100") == "call [phone]"
    assert kept.recall("something else") is None
    kept.conversation().redactions.learn("call 555-0199", "call [phone]")
    assert kept.recall("call 555-0100") is None


def test_the_last_user_text_is_that_of_the_last_user_message() -> None:
    """Also where only the end of the conversation is looked at."""
    judged = JudgedContent()
    messages = [says("one"), says("sure", "assistant")]
    image = ModelMessage("user", (ContentPart("image", data="aGk="),))

    for more, expected in (
        (says("fine", "assistant"), "one"),
        (says("two"), "two"),
        (says("ok", "assistant"), "two"),
        (image, ""),
        (says("a cat", "assistant"), ""),
    ):
        messages.append(more)
        assert judged.last_user_text(messages) == last_user_text(messages) == expected
        judged.remember(judged.unjudged(messages))
        judged.unjudged(messages)
        assert judged.last_user_text(tuple(messages)) == expected
    assert judged.last_user_text(messages[:2]) == "one"
    assert judged.last_user_text([]) == ""
