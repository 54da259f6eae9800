"""Rules files under the names of acel-core."""

import json
from pathlib import Path

import acel.config as peer
import pytest

from openbox_agentrt.acel import config

RULES = {
    "state": {"authenticated": False},
    "groups": {
        "refunds": [
            {"template": "must_precede", "args": ["verify", "refund"]},
            {"template": "at_most_total", "args": ["refund", "amount"], "kwargs": {"limit": 500}},
        ]
    },
    "contracts": [
        {"template": "never_after", "args": ["send", "read"]},
        {"group": "refunds"},
        {"group": "refunds"},
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(RULES, indent=1))
    return path


def test_a_file_means_what_it_means_to_acel_core(path: Path) -> None:
    """Contracts, groups and state are the same in both."""
    ours, theirs = config.load_rules(path), peer.load_rules(path)

    assert ours == theirs == RULES
    assert config.state_from_rules(ours) == peer.state_from_rules(theirs)
    assert [c.spec for c in config.contracts_from_rules(ours)] == [
        c.spec for c in peer.contracts_from_rules(theirs)
    ]
    assert {
        name: [c.spec for c in group] for name, group in config.contracts_by_group_from_rules(ours).items()
    } == {name: [c.spec for c in group] for name, group in peer.contracts_by_group_from_rules(theirs).items()}


def test_contracts_are_new_each_time(path: Path) -> None:
    """Two references to a group are two sets of contracts."""
    contracts = config.contracts_from_rules(config.load_rules(path))

    assert len(contracts) == 5
    assert len({id(contract) for contract in contracts}) == 5


def test_rules_from_a_file_know_their_lines(tmp_path: Path) -> None:
    """The mapping is plain, and an error in it still names file and line."""
    path = tmp_path / "rules.yaml"
    path.write_text("contracts:\n  - {template: init, args: [a]}\n  - {template: nope}\n")

    with pytest.raises(config.ConfigError, match=r"rules.yaml:3: contracts\[1\].template: unknown template"):
        config.contracts_from_rules(config.load_rules(path))


def test_rules_made_in_python_have_no_lines() -> None:
    """A mapping from elsewhere will do."""
    with pytest.raises(config.ConfigError, match=r"^contracts\[0\]: init needs 'a'"):
        config.contracts_from_rules({"contracts": [{"template": "init"}]})


def test_a_mapping_without_contracts_has_none() -> None:
    """As with acel-core, only reading a file strictly insists on contracts."""
    assert config.contracts_from_rules({}) == []
    assert config.contracts_by_group_from_rules({}) == {}
    assert config.state_from_rules({}) == {}


def test_loading_contracts_is_strict(path: Path, tmp_path: Path) -> None:
    """A file that guards nothing is not taken for one that does."""
    assert len(config.load_contracts(path)) == 5
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")

    with pytest.raises(config.ConfigError, match="there are no contracts"):
        config.load_contracts(tmp_path / "empty.yaml")
