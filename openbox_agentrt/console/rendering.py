"""Write pages: templates, and the words that they use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from . import values, words
from .steps import ICONS, WORDS

TABS = (
    ("/", "Overview", "home"),
    ("/approvals", "Approvals", "approval"),
    ("/runs", "Runs", "runs"),
    ("/contracts", "Contracts", "rules"),
    ("/shadow", "Shadow", "shadow"),
    ("/evidence", "Evidence", "link"),
)

_FILTERS: Mapping[str, Callable[..., Any]] = {
    "age": words.age,
    "clock": words.clock,
    "count": words.count,
    "exact": words.exact,
    "hour": lambda moment: words.clock(moment)[:5],
    "iso": words.iso,
    "lasting": words.lasting,
    "left": words.left,
    "pieces": values.pieces,
    "sentence": words.sentence,
    "short_hash": words.short_hash,
}


class WritesPages(Protocol):
    """Write a page with everything that all pages have."""

    def page(self, request: Request, name: str, tab: str, *, status: int = 200, **more: Any) -> Response: ...


def write_page(name: str, **values: Any) -> str:
    """
    Write a page as HTML, from the templates of the package.

    Everything in it is escaped; names and reasons are short, and nothing in them can hide or move.
    """
    return _templates().get_template(f"{name}.html").render(values)


@cache
def _templates() -> Environment:
    # Once for a process: compiling the templates costs more than a hundred pages.
    templates = Environment(
        loader=PackageLoader("openbox_agentrt.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(_FILTERS)
    templates.globals.update(TABS=TABS, ICONS=ICONS, WORDS=WORDS)
    return templates


def _shown(value: Any) -> Any:
    # What is Markup was written by a template, or taken apart by `values.pieces`.
    return values.visible(value) if type(value) is str else value
