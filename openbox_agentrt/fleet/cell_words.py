"""The cells of a shared store in words: what they count, for whom, and until when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from .amounts import from_units
from .periods import SECOND, end_of_period, zone
from .survey import CellStand

_COUNTED: Final[Mapping[str, str]] = {
    "tally": "calls of {of}",
    "stamps": "calls of {of}",
    "marks": "successes of {of}",
    "sum": "{field} of {of}",
    "distinct": "values of {field} in {of}",
    "tokens": "unused successes of {of}",
}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"))


def cell_line(cell: CellStand) -> str:
    """Describe a cell in one line: what it counts, spent, outstanding, free, and when it begins anew."""
    numbers = cell_numbers(cell)
    said = [f"{name} {numbers[name]}" for name in ("spent", "outstanding") if numbers[name] is not None]
    if numbers["limit"] is not None:
        said.append(f"{numbers['free']} free of {numbers['limit']}")
    resets = resets_at(cell)
    if resets is not None:
        said.append(f"resets {resets:%Y-%m-%d %H:%M %Z}")
    if cell.unread:
        said.append("refuses: an amount is missing that nobody measured")
    if cell.ahead > 1:
        said.append(f"{cell.ahead:.0f} s ahead of the clock")
    return f"{cell_words(cell)}: {', '.join(said)}  (cell {cell.id})"


def cell_words(cell: CellStand) -> str:
    """Say what a cell counts, and of whom."""
    form = None if cell.about is None else _form(cell.about.name)
    if form is None:
        return counted_words(cell) + (f", key {cell.key!r}" if cell.key else "")
    return counted_words(cell) + _whose(form.get("key"), cell.key)


def counted_words(cell: CellStand) -> str:
    """Say what a cell counts, whoever it is of."""
    about = cell.about
    if about is None:
        return "something that no worker has described"
    form = _form(about.name)
    if form is None:
        return about.name  # by a program, not by a contract
    words = _COUNTED[about.kind].format(of=_calls(form["of"]), field=form.get("field") or "amount")
    if about.per is not None:
        words += f" per {about.per}" + ("" if about.tz == "UTC" else f" in {about.tz}")
    elif about.within is not None:
        words += f" within {_lasting(about.within // SECOND)}"
    return words


def cell_numbers(cell: CellStand) -> dict[str, str | None]:
    """Give what is spent, outstanding, allowed and free, in the units of the rules."""
    scale = 0 if cell.about is None else cell.about.scale

    def shown(units: int | None) -> str | None:
        return None if units is None else format(from_units(units, scale), "f")

    return {
        "spent": shown(cell.spent),
        "outstanding": shown(cell.outstanding),
        "limit": shown(None if cell.about is None else cell.about.limit),
        "free": shown(cell.free),
    }


def resets_at(cell: CellStand) -> datetime | None:
    """Tell when the period of a cell is over; None for one that has no period."""
    about = cell.about
    if about is None or about.per is None or cell.period is None:
        return None
    end = end_of_period(about.per, about.tz, cell.period)
    return datetime.fromtimestamp(end / SECOND, zone(about.tz))


def _form(name: str) -> dict[str, Any] | None:
    try:
        form = json.loads(name)
    except ValueError:
        return None
    return form if isinstance(form, dict) and isinstance(form.get("of"), list) else None


def _calls(of: list[Any]) -> str:
    return " and ".join(map(_selector, of)) or "any tool"


def _selector(form: Any) -> str:
    word, *rest = form if isinstance(form, list) and form else (form,)
    match word:
        case "tool":
            return str(rest[0])
        case "any_of":
            return " or ".join(map(_selector, rest))
        case "matching" | "not_matching":
            tool, pattern, field = rest[:3]
            told = "matching" if word == "matching" else "not matching"
            return f"{tool} with {field or 'its text'} {told} {pattern!r}"
    return " ".join(str(part) for part in rest if isinstance(part, str)) or str(word)


def _whose(form: Any, key: str) -> str:
    if not key:
        return ""
    if isinstance(form, str):
        return f", {form.removeprefix('$subject.')} {key!r}"
    named = ", ".join(map(str, form)) if isinstance(form, list) and form else "key"
    return f", {named} {key!r}"


def _lasting(seconds: int) -> str:
    unit = next(((size, name) for size, name in _UNITS if seconds >= size and not seconds % size), (1, "s"))
    return f"{seconds // unit[0]} {unit[1]}"
