"""Keys that are one to a contract with `fold`, and several to one without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.acel.analysis import Analysis

Analysed = Callable[..., Analysis]


def c(template: str, *args: Any, **more: Any) -> dict[str, Any]:
    """A contract as data."""
    return {"template": template, "args": list(args), **more}


@pytest.mark.parametrize(
    ("fold", "one", "two"), [("case", "ann", "ANN"), ("number", "1.5", "1.50")], ids=["case", "number"]
)
def test_the_limit_that_tells_fewer_keys_apart_decides(
    analysed: Analysed, fold: str, one: str, two: str
) -> None:
    """The plain limit is implied by the one with `fold`, whichever comes first, and not the reverse."""
    plain = c("at_most_n_times", "invite", 1, key="who", id="plain")
    folded = c("at_most_n_times", "invite", 1, key="who", fold=fold, id="folded")
    precedes = [
        c("must_precede", "ask", "invite", key="who", fold=fold),
        c("never_after", "invite", "ask", key="who"),
    ]

    for contracts in ([plain, folded], [folded, plain]):
        (found,) = analysed(*contracts).findings
        assert (found.kind, found.contracts[0].name) == ("contract-implied-by", "plain")
    # Asked in one spelling, invited in another.
    assert not analysed(*precedes).findings


def test_a_count_of_values_in_whatever_case_is_not_called_idle(analysed: Analysed) -> None:
    plain = c("max_distinct", "send", "to", 1, id="plain")
    found = analysed(plain, c("max_distinct", "send", "to", 1, fold="case", id="folded"))

    assert "plain" not in {finding.contracts[0].name for finding in found.findings}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([c("at_most_n_times", "send", 5, key="to", id="five")], id="more values than are spelt"),
        pytest.param([c("came_from", "send", "to", ["prompt"])], id="values that are looked for"),
        pytest.param([c("never", {"tool": "send", "matches": "x", "field": "to"})], id="a pattern"),
    ],
)
def test_where_not_every_spelling_is_tried_nothing_is_said(
    analysed: Analysed, more: list[dict[str, Any]]
) -> None:
    """The one that only another spelling could let decide is open."""
    limits = [
        c("at_most_n_times", "send", 2, key="to", id="plain"),
        c("at_most_n_times", "send", 2, key="to", fold="case", id="folded"),
    ]
    found = analysed(*limits, *more)

    assert "folded" not in {finding.contracts[0].name for finding in found.findings}
