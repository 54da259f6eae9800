"""The input of a model call: judged as a prompt before the run starts, and with what each call adds to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from .._run.judged_content import PrefixMatch
from .._wire.model_input import Element, message_elements
from ..decision import Verdict
from ..errors import GovernanceBlockedError, GovernanceUnavailableError
from ..lifecycle_events import LLM_ACTIVITY
from ..message_extraction import last_user_text, message_text
from .activity import Activity
from .decide import decide, decide_again, reserve
from .perform import perform
from .refused_input import concealed_prompt
from .request import model_request, prompt_request

if TYPE_CHECKING:
    from .._run.state import RunState
    from ..decision import Answer
    from .request import DecisionRequest

T = TypeVar("T")

CHANGING: Final = "its messages change while they are judged"


class Prescreen(Activity):
    """
    A model call that is judged with its prompt, long before its turn.

    Args:
        sent: Its messages, as they are now.
    """

    def __init__(self, run: RunState, request: DecisionRequest, sent: PrefixMatch) -> None:
        super().__init__(run, request)
        self.sent = sent


async def screen_prompt(
    run: RunState,
    messages: Sequence[Any] = (),
    instructions: str = "",
    *,
    max_output_tokens: int | None = None,
) -> None:
    """
    Have the prompt of `run` judged, if it has one, and the model call that it is for.

    Args:
        messages: All that the run was given; the prompt is the text of the last user message.
        instructions: The agent's own, which are its developer's and are not judged.
        max_output_tokens: The most that the model may say, where the agent says so.

    Raises:
        GovernanceError: The run may not start.
    """
    _recall(run, messages)
    run.judged.remember([{"role": "system", "text": instructions}])
    if not run.prompt.strip():
        return
    prompt = Activity(run, prompt_request(run, run.prompt))
    await decide(prompt)
    prompt.begin()
    await prompt.complete(None, shown=_shown(run, prompt.content))
    if run.services.options.send_llm_start_event:
        sent = run.judged.match(messages)
        others = _unjudged(run, run.redactions.messages(messages), prompt.content)
        request = model_request(
            run,
            prompt.content,
            others,
            max_output_tokens=max_output_tokens,
            activity_id=run.identity.prescreen_id,
            owed=_owed(prompt),
        )
        prescreen = Prescreen(run, request, sent)
        await decide(prescreen)
        if sent.is_unchanged():
            # What has changed is judged with the call itself: see `take_prescreen`.
            _note(prescreen)
        # Core has redacted it only now, and the model names what it was shown.
        prompt.replace_content(prescreen.content[0]["prompt"])
        prescreen.move("keep")


async def judge_input(
    run: RunState,
    messages: Sequence[Any],
    *,
    model: str | None,
    max_output_tokens: int | None = None,
) -> Activity:
    """
    Have a model call judged: what its messages add to what Core has been shown.

    Raises:
        GovernanceError: The model may not be called.
    """
    request, matches = _question(run, messages, model, max_output_tokens)
    activity = Activity(run, request)
    await decide(activity)
    if not all(map(PrefixMatch.is_unchanged, matches)):
        # Somebody has changed them since the call before this one, or while they were judged.
        run.judged.rest()
        request, matches = _question(run, messages, model, max_output_tokens)
        await decide_again(activity, request)
        if not all(map(PrefixMatch.is_unchanged, matches)):
            await refuse_changing(activity)
    _note(activity)
    return activity


def _question(
    run: RunState, messages: Sequence[Any], model: str | None, max_output_tokens: int | None
) -> tuple[DecisionRequest, tuple[PrefixMatch, ...]]:
    """Ask for what messages add to what is known of them. The matches tell later whether they changed."""
    matches: tuple[PrefixMatch, ...] = (run.judged.match_by_identity(messages),)
    clean = run.redactions.messages(messages)
    if clean is not messages:
        matches = (run.judged.match_by_identity(clean), *matches)
    prompt = run.judged.last_user_text(clean, matches[0])
    others = run.judged.unjudged(clean, besides=[{"role": "user", "prompt": prompt}], match=matches[0])
    return model_request(run, prompt, others, model=model, max_output_tokens=max_output_tokens), matches


async def take_prescreen(run: RunState, messages: Sequence[Any]) -> Activity | None:
    """
    Take over the pre-screen of `run`, if `messages` are the call that it was made for. That happens once.

    Raises:
        ContractRefusedError: Something else came first, and the contracts refuse it by now. The row is
            closed.
    """
    prescreen = run.open_activities.get(run.identity.prescreen_id)
    if not isinstance(prescreen, Prescreen) or prescreen.state != "ahead":
        return None
    if run.refusal(LLM_ACTIVITY) is not None:
        return None
    if (
        last_user_text(messages) != run.prompt
        or not prescreen.sent.is_unchanged()
        or _adds(messages, prescreen)
    ):
        prescreen.release()
        return None
    prescreen.move("take")
    if prescreen.take_released():
        sent = run.judged.match(messages)
        try:
            await reserve(prescreen, started=True)
        except BaseException as error:
            # Refused or cancelled: Core has a row for it.
            prescreen.tell_enclosing(error)
            await prescreen.fail(error)
            raise
        if not sent.is_unchanged():
            await refuse_changing(prescreen)
    return prescreen


async def judge_elements(run: RunState, elements: Sequence[Element], *, model: str | None) -> Activity:
    """
    Have a model call judged that has no conversation of its own.

    Raises:
        GovernanceError: The model may not be called.
    """
    activity = Activity(run, model_request(run, "", elements, model=model))
    await decide(activity)
    return activity


async def check_redacted(activity: Activity, messages: Sequence[Any]) -> None:
    """
    Refuse a model call whose messages still hold what Core redacted in it.

    Raises:
        GovernanceUnavailableError: A redaction did not find its way back into the messages.
    """
    if activity.content is not activity.request.content:
        await check_elements(activity, message_elements(messages))


async def check_elements(activity: Activity, elements: Sequence[Element]) -> None:
    """Do the same with the elements of a model call."""
    if activity.content is activity.request.content:
        return
    pairs = zip(_with_role(activity.request.content), _with_role(activity.content), strict=True)
    gone = [old for old, new in pairs if old != new]
    if any(element in gone for element in elements):
        error = GovernanceUnavailableError(
            "core's redaction cannot be applied to the messages", kind="unreadable", event=LLM_ACTIVITY
        )
        await activity.fail(error)
        raise error


async def refuse_changing(activity: Activity) -> NoReturn:
    """
    Refuse a model call whose messages are not what was judged any more.

    Raises:
        GovernanceBlockedError: Always. The row is closed.
    """
    error = GovernanceBlockedError(CHANGING, event=LLM_ACTIVITY)
    await activity.fail(error)
    raise error


def perform_as_judged(
    activity: Activity, work: Callable[[], Awaitable[T]], serialize: Callable[[], bytes]
) -> Awaitable[T]:
    """
    Run `work` inside `activity`, if what it sends still is what was judged once constraints are in place.

    Their context managers are entered after it was judged, and may take their time.

    Args:
        serialize: Gives what the work sends, in the form in which it can be compared.

    Raises:
        GovernanceBlockedError: It changed, even if a context manager swallows that. The work did not run.
    """
    if not activity.guards:
        return perform(activity, work)
    judged = serialize()

    async def unchanged() -> T:
        if serialize() != judged:
            activity.denied = GovernanceBlockedError(CHANGING, event=LLM_ACTIVITY)
            raise activity.denied
        activity.ran = True
        return await work()

    return perform(activity, unchanged, runs_at_once=False)


def _owed(prompt: Activity) -> Answer | None:
    """Give the answer to the prompt if it requires an approval, which the pre-screen's row waits for."""
    answer = prompt.answer
    return answer if answer is not None and answer.verdict is Verdict.REQUIRE_APPROVAL else None


def _adds(messages: Sequence[Any], prescreen: Activity) -> bool:
    run = prescreen.run
    asked = (*_with_role(prescreen.request.content), *_with_role(prescreen.content))
    return bool(run.judged.unjudged(run.redactions.messages(messages), besides=asked))


def _unjudged(run: RunState, messages: Sequence[Any], prompt: str) -> list[Element]:
    return run.judged.unjudged(messages, besides=[{"role": "user", "prompt": prompt}])


def _note(activity: Activity) -> None:
    """Remember what Core has been shown, if it has judged it."""
    answer = activity.answer
    if answer is None or answer.unreachable:
        return
    _remember(activity.run, activity.request.content)
    if activity.content is not activity.request.content:
        _remember(activity.run, activity.content)


def _remember(run: RunState, elements: Sequence[Element]) -> None:
    first, *others = elements
    run.judged.remember_prompt(first["prompt"])
    if others:
        run.judged.remember(others)


def _with_role(elements: Sequence[Element]) -> list[Element]:
    """Give the elements as those of messages: the first one has no role on the wire, and is a user's."""
    first, *others = elements
    return [{"role": "user", **first}, *others]


def _recall(run: RunState, messages: Sequence[Any]) -> None:
    """Keep in force what an earlier run redacted of the history that this one quotes."""
    for message in messages:
        text = message_text(message)
        redacted = run.recall(text) if text else None
        if redacted is not None:
            run.redactions.learn(text, redacted)


def _shown(run: RunState, prompt: str) -> dict[str, Any] | None:
    if not run.services.options.send_llm_start_event:
        return None
    # Its row shows the text.
    return concealed_prompt(run, prompt)
