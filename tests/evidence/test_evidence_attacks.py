"""A little of each attack that `python -m benchmarks evidence-attacks` makes in minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.evidence_attacks import ATTACKS, Attacked, Ground
from openbox_agentrt.evidence import verify_file
from openbox_agentrt.evidence.format2.heads import read_head, write_head


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_is_missed(tmp_path: Path, attack: Callable[[Ground], Iterator[Attacked]]) -> None:
    """And each is made at least once."""
    for attacked in attack(Ground.make(tmp_path, quick=True)):
        assert attacked.tries > 0
        assert attacked.missed == [], attacked.name


def test_a_signature_has_one_spelling(tmp_path: Path) -> None:
    """The same bytes in capital letters are another head than was written."""
    ground = Ground.make(tmp_path, quick=True)
    head = read_head(ground.log)
    assert head is not None
    assert head.signature is not None
    write_head(ground.log, replace(head, signature=head.signature.upper()), durable=False)
    report = verify_file(ground.log, ground.signer.public_key_hex)
    assert (report.ok, report.problem) == (False, "wrong_signer")
