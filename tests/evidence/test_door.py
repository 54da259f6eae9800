"""What `openbox_agentrt.evidence` offers."""

import subprocess
import sys

import pytest

from openbox_agentrt import evidence


def test_every_name_is_there() -> None:
    """What is listed exists, is sorted, and is all there is."""
    assert dir(evidence) == sorted(evidence.__all__)
    assert set(evidence._HOME) == set(evidence.__all__)
    for name in evidence.__all__:
        assert getattr(evidence, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A typing mistake is told as one."""
    with pytest.raises(AttributeError, match="has no attribute 'EvidenceFlie'"):
        evidence.EvidenceFlie  # noqa: B018 - the access is the test


def test_importing_loads_nothing_heavy() -> None:
    """Neither signing nor fast JSON is loaded before it is used."""
    code = (
        "import sys, openbox_agentrt.evidence.format1.bundles, openbox_agentrt.evidence.format2.file;"
        "print({'msgspec', 'cryptography', 're2', 'logging', 'acel'} & set(sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
