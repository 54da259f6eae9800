"""``docs/performance.md``: the numbers, with what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .tables import Chart, Table

PAGE = "performance.md"
PLOTS = "benchmarks"


def write_page(
    folder: Path, tables: Sequence[Table], machine: Mapping[str, Any], *, beside: str = ""
) -> None:
    """
    Put the tables into the page, between their marks, and draw their plots.

    Args:
        folder: Where the page is; it is written from nothing if it is not there.
        beside: What tells these tables from those of the page, such as a version of Python. Their marks end
            with it, and what the page has no marks for is left out.
    """
    page = folder / PAGE
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    said = f"{machine['processors']} processors, {machine['python']}, {machine['system']}."
    if beside:
        blocks = {f"{table.name} {beside}": f"{table.to_markdown()}\n\n{table.notes}" for table in tables}
        for name, block in ({f"machine {beside}": said} | blocks).items():
            text = _filled(text, name, block) if f"<!-- {name} -->" in text else text
        page.write_text(text, encoding="utf-8")
        return
    text = _filled(text, "machine", said)
    for table in tables:
        block = table.to_markdown()
        if table.notes:
            block += f"\n\n{table.notes}"
        if table.chart is not None:
            (folder / PLOTS).mkdir(parents=True, exist_ok=True)
            _draw(folder / PLOTS / f"{table.name}.svg", table.title, table.chart)
            block += f"\n\n![{table.title}]({PLOTS}/{table.name}.svg)"
        text = _filled(text, table.name, block, title=table.title)
    page.write_text(text, encoding="utf-8")


def _filled(text: str, name: str, block: str, *, title: str = "") -> str:
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    new = f"{begin}\n{block}\n{end}"
    if begin in text:
        return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: new, text, flags=re.DOTALL)
    heading = f"## {title}\n\n" if title else ""
    return f"{text}{heading}{new}\n\n"


def _draw(path: Path, title: str, chart: Chart) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    # The same numbers give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "openbox"
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, points in chart.lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel=chart.x, ylabel=chart.y, title=title)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
