"""Read what a model thought aloud, which stands in the state that a provider keeps in its message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent_rt import PROVIDER_STATE_MIME, ContentPart, ModelMessage


def reasoning_text(message: ModelMessage) -> str:
    """Give the reasoning in `message` that can be read; providers keep some of it encrypted."""
    states = (part.data for part in message.content if _is_state(part))
    thoughts = (state.get("thinking") for state in states if isinstance(state, Mapping))
    return "\n".join(thought for thought in thoughts if isinstance(thought, str) and thought)


def without_reasoning(message: ModelMessage) -> ModelMessage:
    """Drop the reasoning from `message`: it is signed, so it cannot be edited."""
    kept = tuple(part for part in message.content if not _is_state(part))
    return message if len(kept) == len(message.content) else replace(message, content=kept)


def _is_state(part: ContentPart) -> bool:
    return part.mime_type == PROVIDER_STATE_MIME
