"""What the local Core says in the log about a failure: enough to act on, and nothing of an event."""

import sqlite3
from contextlib import closing

import pytest

from openbox_agentrt.local_core.failures import place_of


def test_a_full_disk_has_its_name() -> None:
    """Whoever is on call reads what to do, and not what was to be written."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("create table events (payload text)")
        db.execute("pragma max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError) as caught:
            db.execute("insert into events values (?)", ("secret" * 5_000,))

    assert place_of(caught.value).startswith("OperationalError (SQLITE_FULL) in test_failures.py, line ")


def test_the_message_of_an_error_is_not_said() -> None:
    """It may quote what a policy tripped over."""
    told: dict[str, str] = {}
    with pytest.raises(KeyError) as caught:
        told["secret"]

    assert place_of(caught.value).startswith("KeyError in test_failures.py, line ")
