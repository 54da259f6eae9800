"""
The arguments that contracts have judged, told by those that the model asks for.

Where one value was redacted before the call and another one by it, the judged arguments hold the second as it
was said. A checkpoint has that where the model asks for the call, and is to have it nowhere else: of what was
judged, only what stands in no text of the model is written out, and the rest is told by its place there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .._plain.same import same_text

_LONGEST: Final = 20_000
_TOKENS: Final = re.compile(r"\d+|[^\W\d]+|\W")
_AS_ASKED: Final = {"as": "asked"}

Told = Mapping[str, Any]
"""`as` asked for; `is` a value; `of` a mapping, or `items` of a list, told themselves; `text` in pieces."""


def told_by(asked: Any, judged: Any, used: Any) -> Told:
    """
    Tell `judged` to whoever has `asked`.

    Args:
        asked: What the model asks for.
        judged: What became of it before it was judged.
        used: What became of that, by which is known what may be written out.

    Raises:
        ValueError: It cannot be told without what was redacted.
    """
    if same_text(asked) == same_text(judged):
        return _AS_ASKED
    if isinstance(asked, str) and isinstance(judged, str) and len(asked) <= _LONGEST:
        return {"text": list(_pieces(asked, judged))}
    if isinstance(asked, Mapping) and isinstance(judged, Mapping) and asked.keys() == judged.keys():
        items = used if isinstance(used, Mapping) else {}
        return {"of": {key: told_by(asked[key], item, items.get(key)) for key, item in judged.items()}}
    if isinstance(asked, list) and isinstance(judged, list) and len(asked) == len(judged):
        used = used if isinstance(used, list) and len(used) == len(judged) else [None] * len(judged)
        return {"items": [told_by(*each) for each in zip(asked, judged, used, strict=True)]}
    if same_text(judged) != same_text(used):
        raise ValueError("what was redacted before a call cannot be told without what is redacted in it")
    return {"is": judged}


def told_again(told: Told, asked: Any) -> Any:
    """Give what `told_by` was told of, by the same `asked`."""
    if "text" in told:
        return "".join(
            piece if isinstance(piece, str) else asked[piece[0] : piece[1]] for piece in told["text"]
        )
    if "of" in told:
        return {key: told_again(item, asked[key]) for key, item in told["of"].items()}
    if "items" in told:
        return [told_again(item, each) for item, each in zip(told["items"], asked, strict=True)]
    return told.get("is", asked)


def _pieces(asked: str, judged: str) -> Iterator[str | list[int]]:
    """Give `judged` in pieces: where they stand in `asked`, or the text of one that does not."""
    begin = end = 0
    for token in _TOKENS.findall(judged):
        if asked.startswith(token, end):
            end += len(token)
            continue
        if begin < end:
            yield [begin, end]
        begin = asked.find(token)
        end = begin + len(token)
        if begin < 0:
            yield token
            begin = end = 0
    if begin < end:
        yield [begin, end]
