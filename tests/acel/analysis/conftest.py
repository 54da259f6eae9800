"""Rules in a few words, for what is said about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.acel.analysis import Analysis, analyse
from openbox_agentrt.acel.rulesfile import parse_rules


@pytest.fixture
def analysed() -> Callable[..., Analysis]:
    """Analyse contracts, given as data."""

    def run(*contracts: dict[str, Any], state: dict[str, Any] | None = None, **options: Any) -> Analysis:
        return analyse(parse_rules({"contracts": list(contracts), "state": state or {}}), **options)

    return run
