"""Judged arguments are told by what the model asks for, without what was redacted of it afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._run.told_input import told_again, told_by

EARLIER, LATER = "4111-1111-1111-1111", "078-05-1120"

texts = st.lists(st.sampled_from([EARLIER, LATER, "to", "ä🙂", "\n"])).map(" ".join)
values = st.recursive(
    texts | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def without(value: Any, secret: str) -> Any:
    """Redact a text wherever it stands."""
    return json.loads(json.dumps(value).replace(secret, "[gone]"))


@given(values)
def test_it_comes_back_and_tells_neither_secret(asked: Any) -> None:
    """However the two are mixed, in one text too."""
    judged = without(asked, EARLIER)

    told = json.dumps(told_by(asked, judged, without(judged, LATER)))

    assert told_again(json.loads(told), asked) == judged
    assert LATER not in told
    assert EARLIER not in told


def test_what_was_put_in_the_place_of_a_whole_is_told_where_it_stays() -> None:
    """It stands nowhere in what the model asks for."""
    whole, asked = {"kind": "card"}, {"pay": [1, 2]}
    assert told_again(told_by(asked, {"pay": whole}, {"pay": whole}), asked) == {"pay": whole}

    with pytest.raises(ValueError, match="cannot be told"):
        told_by(asked, {"pay": {"of": LATER}}, {"pay": {"of": "[gone]"}})
