"""What the tests of evidence share."""

from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.evidence import Ed25519Signer, ed25519_signer

MakeViolation = Callable[..., Violation]


@pytest.fixture
def violation() -> MakeViolation:
    """Makes a violation: `violation(3)`, `violation(3, args={...})`."""

    def make(step: int = 1, **fields: Any) -> Violation:
        return Violation("temporal", "must_precede(backup, delete)", "delete", step, **fields)

    return make


@pytest.fixture(scope="session")
def key() -> Ed25519Signer:
    """A signing key."""
    signer, _ = ed25519_signer()
    return signer
