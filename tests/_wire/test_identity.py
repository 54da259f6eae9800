"""Who a run is, as it is told to Core and kept in the store of a fleet."""

from __future__ import annotations

import inspect
import json

import msgspec

from openbox_agentrt._wire.identity import RunIdentity


def test_an_identity_is_written_as_what_it_is_made_of() -> None:
    """And not beside it what every event has of it, which whoever reads it makes again."""
    identity = RunIdentity.mint(session_id="s", agent_name="a")
    payload = identity.payload({}, None, 1_000)

    written = msgspec.json.encode(identity)
    again = msgspec.json.decode(written, type=RunIdentity)

    assert json.loads(written).keys() == inspect.signature(RunIdentity).parameters.keys()
    assert again == identity
    assert again.payload({}, None, 1_000) == payload
