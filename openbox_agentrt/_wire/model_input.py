"""
All that reaches a model, as Core is asked about it: ``activity_input`` of a model call.

The first element is the text of the last user message, under ``prompt``, as guardrails are configured on it.
One element follows for each other text or part: user text under ``prompt`` as well, text of other roles under
``text``, JSON and tool calls under ``json``, and of media what they are and a hash.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from .payloads import DEFAULT_MAX_BYTES
from .redaction_shapes import fit_redaction, unfit_redaction

Element = dict[str, Any]

MEDIA: Final = frozenset({"image", "audio", "video", "pdf", "document", "file"})
_TEXTUAL: Final = ("text/", "application/json", "application/xml", "application/yaml")
_EDITABLE: Final = frozenset({"prompt", "text", "json", "tool_call_id"})


def message_elements(messages: Iterable[Any]) -> list[Element]:
    """List what messages say to a model, oldest first: texts, parts that are no text, and tool calls."""
    elements: list[Element] = []
    for message in messages:
        if message.content or message.tool_call_id:
            elements += content_elements(message.role, message.content, call_id=message.tool_call_id)
        for call in message.tool_calls:
            said = {"tool": call.name, "arguments": call.arguments, "id": call.id}
            if call.argument_error is not None:
                said["argument_error"] = call.argument_error
            elements.append({"role": message.role, "json": said})
    return elements


def content_elements(role: str, content: Iterable[Any], *, call_id: str | None = None) -> list[Element]:
    """
    List what the parts of one message say.

    Args:
        call_id: The call that it answers, which the first element names: an id is text for a model as well.
    """
    key = "prompt" if role == "user" else "text"
    texts: list[str] = []
    elements: list[Element] = []
    for part in content:
        if part.type in MEDIA:
            elements.append(_media(role, part))
            continue
        if part.data is not None:
            # Also beside a text: which of them a provider sends is its own affair.
            elements.append({"role": role, "json": part.data})
        if part.type == "text":
            texts.append(part.text or "")
        elif part.text:
            elements.append({"role": role, key: part.text})
    text = "".join(texts)
    if text and not text.isspace():
        elements.insert(0, {"role": role, key: text})
    if call_id:
        if not elements:
            elements.append({"role": role})
        elements[0]["tool_call_id"] = call_id
    return elements


def fit_elements(
    elements: list[Element], redacted: object, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> list[Element]:
    """
    Lay Core's redaction over the elements: the same list when nothing is redacted, else a copy.

    Raises:
        GovernanceUnavailableError: It does not fit: it is text for several elements, it changes what an
            element is about, or it changes media, of which Core saw only a hash.
    """
    fitted = fit_redaction(elements, redacted, max_bytes=max_bytes)
    if fitted is elements:
        return elements
    return [_checked(new, old) for new, old in zip(fitted, elements, strict=True)]


def _checked(new: object, old: Element) -> Element:
    if not isinstance(new, dict):
        raise unfit_redaction("core's redaction of a message is not an element like the one it was sent")
    if any(new[key] != old[key] for key in old if "media" in old or key not in _EDITABLE):
        raise unfit_redaction("core's redaction changes a part of a message that cannot be changed")
    for key in ("prompt", "text", "tool_call_id"):
        if new.get(key, "") is None:
            new = {**new, key: ""}
        elif not isinstance(new.get(key, ""), str):
            raise unfit_redaction("core's redaction of the prompt is not text")
    return new


def _media(role: str, part: Any) -> Element:
    data, further = part.data, {}
    if isinstance(data, Mapping):
        data = data.get("url") or data.get("data")
        further = {key: item for key, item in part.data.items() if item is not data}
    content, mime = _bytes_of(data), _mime_of(data) or part.mime_type
    element = {
        "role": role,
        "media": mime or part.type,
        "sha256": sha256(content).hexdigest(),
        "bytes": len(content),
    }
    if isinstance(data, str) and data.startswith(("http://", "https://")):
        element["url"] = data
    elif _is_text(mime, part.type, content):
        element["text"] = content.decode("utf-8", "replace")
    if further:
        element["json"] = further
    if part.text:
        element["caption"] = part.text
    return element


def _mime_of(data: Any) -> str | None:
    """Give the type that a ``data:`` address names, which is the one that Agent-RT sends."""
    if not isinstance(data, str) or not data.startswith("data:"):
        return None
    return data.partition(",")[0].removeprefix("data:").partition(";")[0]


def _is_text(mime: str | None, kind: str, content: bytes) -> bool:
    if mime:
        return mime.strip().lower().startswith(_TEXTUAL)
    if kind not in ("document", "file"):
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes_of(data: Any) -> bytes:
    """Give the bytes that a medium's data stands for: what base64 encodes, and the UTF-8 of other text."""
    if isinstance(data, bytes | bytearray):
        return bytes(data)
    if not isinstance(data, str):
        return repr(data).encode("utf-8", "replace")
    payload = data.partition(",")[2] if data.startswith("data:") else data
    try:
        # In lines as well, which decoders take. Nothing else is let pass: it would hide what is plain text.
        return base64.b64decode("".join(payload.splitlines()).strip(), validate=True)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "replace")
