"""A check that everything that was begun was ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..local_core import LocalCore


def assert_no_orphans(core: LocalCore, *, refused: bool = False) -> None:
    """
    Fail unless every activity that `core` saw was started and completed exactly once, and every run
    ended exactly once.

    Args:
        core: The local Core that the agent under test talked to.
        refused: Whether requests that the core answered with an error are accepted, too. They are a
            mistake of the sender, so they fail the check unless the test made them on purpose.

    Raises:
        AssertionError: Names everything that does not add up, one per line.
    """
    problems = [str(orphan) for orphan in core.orphans()]
    problems += [str(workflow) for workflow in core.open_workflows()]
    if not refused:
        problems += [f"{r.path} was refused: {r.status} {r.message}" for r in core.refused()]
    if problems:
        raise AssertionError("\n".join(["events do not add up:", *problems]))
