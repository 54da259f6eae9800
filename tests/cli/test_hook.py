"""The command line of the hooks: read by hand where it is right, and by argparse where it is not."""

import pytest

from openbox_agentrt.cli.hook import _parser, _read


@pytest.mark.parametrize(
    "argv",
    [
        ["pre", "--rules", "r.yaml"],
        ["pre", "--rules=r.yaml", "--state-dir=d", "--evidence-dir", "e", "--key=k"],
        ["post"],
        ["post", "--state-dir", "a dir"],
        ["end", "--rules", "a=b.yaml", "--on-rules-change", "replay"],
        ["pre", "--rules", "r", "--record", "steps", "--redact-field", "pin", "--redact-field=card"],
    ],
    ids=" ".join,
)
def test_both_ways_read_the_same(argv: list[str]) -> None:
    """A command line that is right means to the one what it means to the other."""
    expected = {name: value for name, value in vars(_parser().parse_args(argv)).items() if value is not None}

    assert {"on_rules_change": "deny", **(_read(argv) or {})} == expected


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["pre"],
        ["end", "--state-dir", "d"],
        ["before", "--rules", "r.yaml"],
        ["pre", "--rules"],
        ["pre", "--rules", ""],
        ["pre", "--rules="],
        ["pre", "--rules", "--key", "k"],
        ["pre", "--rules", "r.yaml", "--shadow", "x"],
        ["pre", "--rules", "r.yaml", "extra"],
        ["pre", "--rules", "r.yaml", "--on-rules-change", "ignore"],
        ["pre", "--rules", "r.yaml", "--record", "all"],
        ["--help"],
        ["pre", "--help"],
    ],
    ids=" ".join,
)
def test_what_is_not_right_is_left_to_argparse(argv: list[str]) -> None:
    """It says what is wrong, and ends with code 2."""
    assert _read(argv) is None


@pytest.mark.parametrize("argv", [[], ["pre"], ["pre", "--rules", "r", "--on-rules-change", "x"], ["before"]])
def test_a_wrong_command_line_ends_with_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Which denies a call, where it was a hook that was set up wrongly."""
    with pytest.raises(SystemExit) as caught:
        _parser().parse_args(argv)

    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "openbox-agentrt hook" in said
    assert said.count("\n") == 1
