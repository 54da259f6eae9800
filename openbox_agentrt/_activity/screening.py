"""The prompt of a run: judged as a signal, and ahead of the model call that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..evidence.redaction import redaction_marker
from ..lifecycle_events import LLM_ACTIVITY
from ..message_extraction import last_user_text
from .activity import Activity
from .decide import decide, reserve
from .request import model_request, prompt_request

if TYPE_CHECKING:
    from .._run.state import RunState

__all__ = ("screen_prompt", "take_prescreen")


async def screen_prompt(run: RunState) -> None:
    """
    Have the prompt of `run` judged, if it has one, and the model call that it is for.

    Raises:
        GovernanceError: The run may not start.
    """
    if not run.prompt.strip():
        return
    prompt = Activity(run, prompt_request(run, run.prompt))
    await decide(prompt)
    prompt.begin()
    await prompt.complete(None, shown=_shown(run, prompt.content))
    if run.services.options.send_llm_start_event:
        request = model_request(run, prompt.content, activity_id=run.identity.prescreen_id)
        prescreen = Activity(run, request)
        await decide(prescreen)
        prescreen.move("keep")


async def take_prescreen(run: RunState, request: Any) -> Activity | None:
    """
    Take over the pre-screen of `run`, if `request` is the call that it was made for. That happens once.

    Raises:
        ContractRefusedError: Something else came first, and the contracts refuse it by now. The row is
            closed.
    """
    prescreen = run.open_activities.get(run.identity.prescreen_id)
    if not isinstance(prescreen, Activity) or prescreen.state != "ahead":
        return None
    if run.refusal(LLM_ACTIVITY) is not None:
        return None
    if last_user_text(request.messages) != run.prompt:
        prescreen.release()
        return None
    prescreen.move("take")
    if prescreen.take_released():
        try:
            await reserve(prescreen)
        except BaseException as error:
            # Refused or cancelled: Core has a row for it.
            prescreen.tell_enclosing(error)
            await prescreen.fail(error)
            raise
    return prescreen


def _shown(run: RunState, prompt: str) -> dict[str, Any] | None:
    if not run.services.options.send_llm_start_event:
        return None
    # Core redacts prompts in the pre-screen, which comes after this. Its row shows the text.
    return {"prompt": redaction_marker(prompt, run.services.marker_key), "characters": len(prompt)}
