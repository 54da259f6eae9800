"""Checkpoints that a writer makes by itself, and who keeps them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import must_precede
from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.errors import GovernanceError, OptionError
from openbox_agentrt.evidence import Ed25519Signer, EvidenceFile, ed25519_signer
from openbox_agentrt.evidence.checkpoints.anchors import Anchors, GrowingTree
from openbox_agentrt.evidence.checkpoints.checkpoint import (
    check_checkpoint,
    checkpoint_path,
    leaves_of,
    parse_checkpoint,
)
from openbox_agentrt.evidence.checkpoints.merkle import root_of
from openbox_agentrt.evidence.failures import Failures

MakeViolation = Callable[..., Violation]


def test_a_log_that_is_closed_has_its_checkpoint_in_the_folder(
    tmp_path: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """Over all of its parts, signed; a log that is set back together with its head is found by it."""
    path, vault = tmp_path / "e.jsonl", tmp_path / "vault"
    before, checkpoint = b"", None
    for steps in (1, 9):
        with EvidenceFile(path, signer=key, max_bytes=2_000, anchors=vault) as log:
            before = before or path.read_bytes()
            for step in range(steps):
                log.record(violation(step))
        assert log.failures == 0
        (kept,) = vault.iterdir()
        checkpoint = parse_checkpoint(kept.read_bytes())
        assert checkpoint.size == log.head.count == len(list(leaves_of(path)))
        assert check_checkpoint(path, checkpoint, public_key=key.public_key_hex) == []
        assert kept.name == f"{log.log_id}.checkpoint"
        assert checkpoint_path(path).read_bytes() == kept.read_bytes()
    assert len(list(tmp_path.glob("e.0*.jsonl"))) > 1
    for part in tmp_path.glob("e.*"):
        part.unlink()
    path.write_bytes(before)
    assert checkpoint is not None
    assert check_checkpoint(path, checkpoint, public_key=key.public_key_hex) != []


def test_checkpoints_come_while_the_log_is_written(
    tmp_path: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """On a thread that no call waits for: here the keeper does not come back until the call has."""
    texts: list[str] = []
    asked, go_on = threading.Event(), threading.Event()

    def keep(text: str) -> None:
        asked.set()
        assert go_on.wait(30)
        texts.append(text)

    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, signer=key, anchors=keep, anchor_interval=0.001, seal_interval=0) as log:
        log.record(violation(1))
        assert asked.wait(30)
        log.record(violation(2))
        log.seal()
        assert texts == []
        go_on.set()
    sizes = [parse_checkpoint(text.encode()).size for text in texts]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == log.head.count
    for text in texts:
        assert check_checkpoint(path, parse_checkpoint(text.encode()), public_key=key.public_key_hex) == []


def test_who_keeps_nothing_is_counted_and_keeps_nobody_else_from_it(
    tmp_path: Path, key: Ed25519Signer, violation: MakeViolation, caplog: pytest.LogCaptureFixture
) -> None:
    """A witness that is away, a function that fails: said once, tried again, and the others have it."""
    asked: list[str] = []

    def fails(text: str) -> None:
        asked.append(text)
        raise LookupError("secret text")

    path, vault, failures = tmp_path / "e.jsonl", tmp_path / "vault", Failures()
    anchors = Anchors(path, key, [fails, "http://127.0.0.1:9", vault], failures)
    noisy = caplog.at_level(logging.ERROR, "openbox_agentrt.evidence")
    with noisy, EvidenceFile(path, signer=key) as log:
        log.record(violation())
        log.seal()
        anchors.keep(log.head)
        anchors.keep(log.head)
    anchors.close()
    assert (failures.count, len(asked)) == (4, 2)
    assert len(list((tmp_path / "vault").iterdir())) == 1
    assert len(caplog.messages) == 2
    assert "secret text" not in caplog.text


def test_a_part_that_was_moved_away_is_counted(
    tmp_path: Path, key: Ed25519Signer, violation: MakeViolation
) -> None:
    """Its lines cannot be hashed any more; the log goes on."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, signer=key, max_bytes=1) as log:
        for step in range(3):
            log.record(violation(step))
    (tmp_path / "e.000001.jsonl").unlink()
    with EvidenceFile(path, signer=key, anchors=tmp_path / "vault") as log:
        assert log.record(violation()) is not None
    assert log.failures == 1
    assert log.last_failure == "checkpoint: UnreadableLogError"


def test_a_growing_tree_follows_parts(tmp_path: Path, key: Ed25519Signer, violation: MakeViolation) -> None:
    """Whenever it looks, its root is that of the lines so far, whatever was put away meanwhile."""
    path = tmp_path / "e.jsonl"
    tree = GrowingTree(path)
    with EvidenceFile(path, signer=key, max_bytes=1_500, seal_interval=0) as log:
        for step in range(20):
            log.record(violation(step))
            if step % 3 == 0:
                leaves = list(leaves_of(path))
                assert tree.root_at(log.head.count) == root_of(leaves[: log.head.count])
    tree.close()


def test_what_is_no_anchor(tmp_path: Path, key: Ed25519Signer) -> None:
    """Said when the log is opened, and nothing stays locked."""
    with pytest.raises(ValueError, match="give a signer"):
        EvidenceFile(tmp_path / "e.jsonl", anchors=tmp_path)
    wrong: Any = [7]
    with pytest.raises(TypeError, match="not 'int'"):
        EvidenceFile(tmp_path / "e.jsonl", signer=key, anchors=wrong)
    with EvidenceFile(tmp_path / "e.jsonl", signer=key):
        pass


async def test_a_governance_keeps_checkpoints(make_stage: Any, tmp_path: Path) -> None:
    """Given as an option, with the signer of the evidence."""
    with pytest.raises(OptionError, match="'signer'"):
        await make_stage(evidence=tmp_path / "e.jsonl", anchors=tmp_path / "vault")
    stage = await make_stage(
        contracts=[must_precede("ask", "pay")],
        evidence=tmp_path / "e.jsonl",
        signer=tmp_path / "e.key",
        anchors=[str(tmp_path / "vault")],
    )
    async with stage.governance.run_scope():
        with pytest.raises(GovernanceError):
            async with stage.governance.activity("pay", {}):
                pass
    await stage.governance.aclose()
    (kept,) = (tmp_path / "vault").iterdir()
    _, public_key = ed25519_signer(tmp_path / "e.key")
    checkpoint = parse_checkpoint(kept.read_bytes())
    assert check_checkpoint(tmp_path / "e.jsonl", checkpoint, public_key=public_key) == []
