"""
What a request allows, read out of its text, and the contracts that follow from it.

A mandate is made from the request and the tools' schemas and from nothing else, before anything has run:

* **Effects are asked for.** A tool that changes something may be called if the request asks for that
  (`vocabulary.ASKS`). A request that hands the choice to a text ("do the actions in the email") allows
  every effect; the rest still holds for it.
* **Destinations are vouched for.** Whom something goes to, who is invited, which address is fetched: the
  request names it, or a record does in a field that the service fills in (the sender of a mail, the payee of
  an earlier payment, a member of a channel), or, in the chat, a colleague. What a web page, a file, a
  review or the text of a mail names is not vouched for; with two exceptions that the request itself makes:
  a document that it asks to pay, and the mail address on a page that was vouched for.
* **Quoted words are the words.** The title of an event, the name of a file, the subject of a mail is one
  of the texts that the request quotes, if it quotes any (`{hotel_name}` in one stands for anything). A
  password is quoted, or it is not set.
* **Links are not passed on**, unless the user or a colleague gave them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .suites import ToolSchema
from .vocabulary import (
    ASKS,
    BODIES,
    COLLEAGUES,
    DELEGATES,
    DESTINATIONS,
    LINK,
    LOOKS,
    MAIL_ADDRESS,
    NAMED_ONLY,
    QUOTED,
    QUOTED_ONLY,
    RECORDS,
    TITLES,
)

# Keys of a session's state: names that records hold, and texts by colleagues.
RECORDED = "recorded"
SAID = "said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """
    What one request allows.

    Attributes:
        request: The request, as the user wrote it.
        banned: Tools with an effect that it does not ask for.
        delegates: It hands the choice of what to do to a text that has yet to be read.
        quotes: The texts that it quotes.
    """

    request: str
    banned: frozenset[str]
    delegates: bool
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A precondition of a tool, in words and as a predicate over (state, args)."""

    description: str
    holds: Callable[[Any, Mapping[str, Any]], bool]


def mandate(request: str, tools: Iterable[ToolSchema]) -> Mandate:
    """What `request` allows an agent with these tools."""
    own_words = QUOTED.sub("''", request)
    delegates = re.search(DELEGATES, own_words, re.IGNORECASE) is not None
    effects = {tool.name for tool in tools if has_effect(tool.name)}
    asked = effects if delegates else {name for name in effects if _asks_for(name, own_words)}
    return Mandate(
        request=request,
        banned=frozenset(effects - asked),
        delegates=delegates,
        quotes=tuple(single or double for single, double in QUOTED.findall(request)),
    )


def has_effect(tool: str) -> bool:
    """Whether a tool does more than look."""
    return not tool.startswith(LOOKS)


def conditions(the_mandate: Mandate, tool: ToolSchema) -> tuple[Condition, ...]:
    """What has to hold of the arguments of `tool`."""
    found = []
    for parameter in tool.parameters:
        if parameter in NAMED_ONLY and has_effect(tool.name):
            found.append(
                _condition(f"{tool.name}: the user has named the {parameter}", parameter, the_mandate.request)
            )
        elif parameter == "url" or (parameter in DESTINATIONS and has_effect(tool.name)):
            found.append(
                _condition(
                    f"{tool.name}: {parameter} is vouched for", parameter, the_mandate.request, RECORDED, SAID
                )
            )
        elif parameter in QUOTED_ONLY.get(tool.name, ()):
            found.append(
                _one_of(f"{tool.name}: the user has quoted the {parameter}", parameter, the_mandate.quotes)
            )
        elif parameter in TITLES.get(tool.name, ()) and the_mandate.quotes and not the_mandate.delegates:
            found.append(
                _one_of(f"{tool.name}: {parameter} is as the user quoted it", parameter, the_mandate.quotes)
            )
        elif parameter in BODIES and has_effect(tool.name):
            found.append(
                _links(
                    f"{tool.name}: links in the {parameter} are vouched for", parameter, the_mandate.request
                )
            )
    return tuple(found)


def learned(
    the_mandate: Mandate, tool: str, args: Mapping[str, Any], result: Any
) -> tuple[list[str], list[str]]:
    """
    What a result vouches for.

    Returns:
        The names that it records, and what colleagues say in it.
    """
    names = list(_names(result, RECORDS[tool])) if tool in RECORDS else []
    said = list(_names(result, (COLLEAGUES[tool],))) if tool in COLLEAGUES else []
    if tool == "read_file" and _asks_to_pay(the_mandate, str(args.get("file_path"))):
        said.append(str(result))
    elif tool == "get_webpage":
        names += MAIL_ADDRESS.findall(str(result))
    return names, said


def names(text: str, value: str) -> bool:
    """Whether `text` has `value` in it as a whole name: not as a part of a longer word, path or host."""
    # A full stop is a part of the name if a small letter or a digit follows, and ends the sentence if not.
    whole = rf"(?<![\w./@-])(?i:{re.escape(value)})(?![\w/@-])(?!\.[a-z0-9])"
    return bool(value.strip()) and re.search(whole, text) is not None


def _asks_for(tool: str, own_words: str) -> bool:
    return tool in ASKS and re.search(ASKS[tool], own_words, re.IGNORECASE | re.DOTALL) is not None


def _asks_to_pay(the_mandate: Mandate, file: str) -> bool:
    return re.search(rf"\bpay\b[^.?!]*'{re.escape(file)}'", the_mandate.request, re.IGNORECASE) is not None


def _condition(description: str, parameter: str, request: str, *sources: str) -> Condition:
    def holds(state: Any, args: Mapping[str, Any]) -> bool:
        recorded = state.get(RECORDED, ()) if RECORDED in sources else ()
        texts = [request, *(state.get(SAID, ()) if SAID in sources else ())]
        return all(
            isinstance(value, str) and _vouched(value, recorded, texts)
            for value in _values(args.get(parameter))
        )

    return Condition(description=description, holds=holds)


def _links(description: str, parameter: str, request: str) -> Condition:
    def holds(state: Any, args: Mapping[str, Any]) -> bool:
        texts = [request, *state.get(SAID, ())]
        return all(
            _vouched(link.rstrip(".,:;!?)"), (), texts)
            for text in _values(args.get(parameter))
            for link in LINK.findall(str(text))
        )

    return Condition(description=description, holds=holds)


def _one_of(description: str, parameter: str, quotes: Collection[str]) -> Condition:
    patterns = [_as_pattern(quote) for quote in quotes]

    def holds(state: Any, args: Mapping[str, Any]) -> bool:
        return all(
            any(re.fullmatch(pattern, str(value), re.IGNORECASE) for pattern in patterns)
            for value in _values(args.get(parameter))
        )

    return Condition(description=description, holds=holds)


def _as_pattern(quote: str) -> str:
    fixed = re.split(r"\{\w+\}", quote)
    return ".+".join(re.escape(part) for part in fixed)


def _vouched(value: str, recorded: Collection[str], texts: Iterable[str]) -> bool:
    bare = re.sub(r"^https?://", "", value, flags=re.IGNORECASE)
    if bare.casefold() in {name.casefold() for name in recorded}:
        return True
    return any(names(text, bare) for text in texts)


def _values(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _names(result: Any, fields: tuple[str, ...]) -> Iterator[str]:
    """The strings in these fields of a record or of a list of them; the record itself if there are none."""
    for record in result if isinstance(result, list | tuple) else [result]:
        if not fields and isinstance(record, str):
            yield record
        if isinstance(record, Mapping):
            for field in fields:
                # A mapping as a value (`shared_with`) holds the names as its keys.
                yield from (name for name in _values(_keys(record.get(field))) if isinstance(name, str))


def _keys(value: Any) -> Any:
    return list(value) if isinstance(value, Mapping) else value
