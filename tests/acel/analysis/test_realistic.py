"""Rules as a bank, a support desk and others write them, of about ten contracts each, are decided whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from openbox_agentrt.acel.analysis import analyse
from openbox_agentrt.acel.rulesfile import read_rules

FOLDER = Path(__file__).parent / "realistic"
# In these, a condition over what a call has told is never asked of what was not looked up.
FINDINGS = {
    "claims": ["contract-implied-by: policy-first, active-policy"],
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_rules_as_they_are_written_are_decided_whole(name: str) -> None:
    read = read_rules(FOLDER / f"{name}.yaml")
    found = analyse(read, seconds=100)

    assert (found.undecided, found.not_analysed, found.decided) == ((), (), len(read.contracts))
    said = [f"{f.kind}: {', '.join(of.name for of in f.contracts)}" for f in found.findings]
    assert said == FINDINGS.get(name, [])
