"""Ids: of rows, and of answers of a local Core."""

from __future__ import annotations

import os
import random
import uuid

import pytest

from openbox_agentrt._ids import new_id


def test_an_id_is_a_uuid() -> None:
    """Of version 4, each of them new."""
    ids = [new_id() for _ in range(1000)]

    assert len(set(ids)) == 1000
    for row_id in ids:
        parsed = uuid.UUID(row_id)
        assert (str(parsed), parsed.version, parsed.variant) == (row_id, 4, uuid.RFC_4122)


def test_a_program_that_seeds_its_random_numbers_gets_new_ids() -> None:
    """Two runs of an experiment with one seed are two workflows."""
    random.seed(1)
    first = new_id()
    random.seed(1)

    assert new_id() != first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_has_ids_of_its_own() -> None:
    """A server that forks its workers must not give all of them the same ids."""
    new_id()
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 36).decode() != new_id()
    os.close(read)
    os.close(write)
