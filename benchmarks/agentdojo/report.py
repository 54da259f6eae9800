"""The measured numbers as Markdown tables, and as the generated parts of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .contracts import Which
from .measuring import SETS, Attacked, SuiteNumbers
from .traces import ORDERS

TITLES: Mapping[Which, str] = {
    "order": "limits and order",
    "origin": "where values come from",
    "all": "the whole file",
}


class PageError(ValueError):
    """A page whose markers are not those that the tables go between."""


def tables(numbers: Sequence[SuiteNumbers]) -> dict[str, str]:
    """Every table by its name."""
    makers: dict[str, Callable[[Sequence[SuiteNumbers]], str]] = {
        "benign": benign,
        "attacks": attacks,
        "passed": passed,
        "contracts": contracts,
    }
    return {name: make(numbers) for name, make in makers.items()}


def fill(page: str, numbers: Sequence[SuiteNumbers]) -> str:
    """
    The page with its tables replaced.

    A table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.

    Raises:
        PageError: A table has no place on the page.
    """
    for name, table in tables(numbers).items():
        page = _put(page, name, table)
    return page


def _put(page: str, name: str, table: str) -> str:
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise PageError(f"the page has no place for the table {name!r}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def benign(numbers: Sequence[SuiteNumbers]) -> str:
    """Benign traces of which a call was refused."""
    rows = [[one.suite, *_refused([one])] for one in numbers]
    rows.append(["all", *_refused(numbers)])
    return _table(["suite", *(TITLES[which] for which in SETS), "the whole file, earlier wordings"], rows)


def attacks(numbers: Sequence[SuiteNumbers]) -> str:
    """Attacks that were stopped."""
    rows = [[one.suite, *_stopped([one])] for one in numbers]
    rows.append(["all", *_stopped(numbers)])
    heads = [f"{TITLES[which]}, {order}" for which in SETS for order in ORDERS]
    return _table(["suite", "the whole file, alone", *heads], rows)


def passed(numbers: Sequence[SuiteNumbers]) -> str:
    """The attacks that the whole file lets through, and the user tasks that they disturb."""
    rows = []
    for one in numbers:
        for order in ORDERS:
            result = one.attacked["all", order]
            by_task: dict[str, list[str]] = {}
            for name in result.passed:
                _, user_task, injection_task, _ = name.split("/")
                by_task.setdefault(user_task, []).append(injection_task.removeprefix("injection_task_"))
            which = "; ".join(f"`{task}`: {', '.join(sorted(by_task[task]))}" for task in sorted(by_task))
            rows.append([one.suite, order, which or "none", str(len(result.disturbed))])
    return _table(
        ["suite", "order", "user task: injection tasks that pass", "user's own calls refused in"], rows
    )


def contracts(numbers: Sequence[SuiteNumbers]) -> str:
    """How many attacks each contract refused a call of, at once."""
    rows = [
        [one.suite, f"`{contract}`", str(count)]
        for one in numbers
        for contract, count in one.attacked["all", "at-once"].by
    ]
    return _table(["suite", "contract", "attacks"], rows)


def summary(numbers: Sequence[SuiteNumbers]) -> list[str]:
    """The main numbers, one line a suite."""
    lines = []
    for one in numbers:
        refused = dict(zip([*SETS, "reworded"], _refused([one]), strict=True))
        stopped = [
            f"{TITLES[which]} {_of([one.attacked[which, order] for order in ORDERS])}" for which in SETS
        ]
        lines.append(f"{one.suite}: benign refused {refused['all']}; attacks stopped: {', '.join(stopped)}")
    return lines


def _refused(numbers: Sequence[SuiteNumbers]) -> list[str]:
    columns = [[one.benign[which] for one in numbers] for which in SETS]
    columns.append([one.reworded for one in numbers])
    return [
        f"{sum(len(result.refused) for result in column)} of {sum(result.traces for result in column)}"
        for column in columns
    ]


def _stopped(numbers: Sequence[SuiteNumbers]) -> list[str]:
    alone = sum(one.alone for one in numbers)
    passed_alone = sum(len(one.alone_passed) for one in numbers)
    return [
        f"{alone - passed_alone} of {alone}",
        *(_of([one.attacked[which, order] for one in numbers]) for which in SETS for order in ORDERS),
    ]


def _of(results: Sequence[Attacked]) -> str:
    return f"{sum(result.stopped for result in results)} of {sum(result.attacks for result in results)}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
