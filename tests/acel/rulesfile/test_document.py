"""Reading rules files strictly: JSON, YAML, and where each value stands."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from openbox_agentrt.acel.rulesfile import ConfigError, document, parse_document, read_document
from openbox_agentrt.acel.rulesfile.document import json_lines


def refused(text: str, format: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, format=format, name="f")
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param(
            "a: 1\nb:\n  c: 1\n  c: 2\n", 4, "name 'c' appears twice in one mapping", id="duplicate"
        ),
        pytest.param("a: [1\nb: 2\n", 2, "invalid YAML", id="not yaml"),
        pytest.param("a: 1\n--- {}\n", 2, "invalid YAML", id="second document"),
        pytest.param("a: \x07\n", None, "invalid YAML", id="control character"),
        pytest.param(
            "on: 1\n", 1, "'on' reads as a boolean, which is written true or false", id="yaml 1.1 boolean"
        ),
        pytest.param("a: off\n", 1, "quote it if it is text", id="yaml 1.1 boolean as a value"),
        pytest.param("5: 1\n", 1, "a name must be text, got 5; quote it", id="number as a name"),
        pytest.param("[a]: 1\n", 1, "a name must be text, got ['a']; quote it", id="list as a name"),
        pytest.param(
            "a: 1:30\n", 1, "'1:30' reads as a number, which is written in decimals", id="sexagesimal"
        ),
        pytest.param("a: 010\n", 1, "'010' reads as a number", id="octal"),
        pytest.param("a: 0x10\n", 1, "'0x10' reads as a number", id="hexadecimal"),
        pytest.param("a: 1_000\n", 1, "'1_000' reads as a number", id="underscore"),
        pytest.param("a: .nan\n", 1, "'.nan' reads as a number", id="nan"),
        pytest.param("a: " + "9" * 400 + "\n", 1, "reads as a number", id="very long number"),
        pytest.param("a: 2026-01-01\n", 1, "reads as a date, which is not allowed", id="date"),
        pytest.param("a: !!binary aGk=\n", 1, "reads as binary data, which is not allowed", id="binary"),
        pytest.param("a: !!set {b}\n", 1, "tag 'tag:yaml.org,2002:set' is not allowed", id="set"),
        pytest.param("a: !!python/name:os.system\n", 1, "reads as", id="python name"),
        pytest.param("a: !!python/object/apply:os.system [ls]\n", 1, "is not allowed", id="python call"),
        pytest.param("a: !mine {}\n", 1, "tag '!mine' is not allowed", id="own tag"),
        pytest.param("a: *b\n", 1, "invalid YAML: found undefined alias", id="undefined alias"),
        pytest.param("a: &a [*a]\n", 1, "aliases unfold to too much", id="alias of itself"),
        pytest.param("a: {<<: 5}\n", 1, "what is merged with '<<' must be a mapping", id="merging a number"),
        pytest.param("a: " + "[" * 40 + "]" * 40 + "\n", 1, "nested too deeply", id="deep"),
        pytest.param("a: " + "[" * 500_000, 1, "nest", id="very deep"),
        pytest.param("a: " + "{b: " * 40 + "}" * 40 + "\n", 1, "nested too deeply", id="deep mappings"),
        pytest.param("5", 1, "top level must be a mapping, got int", id="number"),
    ],
)
def test_yaml_that_is_refused(text: str, line: int | None, message: str) -> None:
    """What YAML would guess, and what could hurt, is refused, with its line."""
    error = refused(text, "yaml")

    assert message in str(error)
    assert error.line == line


def test_an_alias_bomb_is_refused() -> None:
    """A small text does not unfold into a large one."""
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for previous, name in zip("abcdefg", "bcdefgh", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{previous}'] * 10)}]\n"

    assert "aliases unfold to too much" in str(refused(bomb, "yaml"))


def test_aliases_within_reason_are_allowed() -> None:
    """Naming a value and using it again is fine."""
    read = parse_document(
        "a: &a {b: 1}\nc: *a\nd: {<<: *a, e: 2}\nf: {<<: [*a, {b: 2, g: 3}]}\n", format="yaml"
    )

    assert read.data == {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}, "f": {"b": 1, "g": 3}}


def test_yaml_scalars() -> None:
    """What is written plainly is what is meant."""
    read = parse_document(
        "t: text\nq: '5'\ni: -12\nf: 1.5\ng: 1.5e+3\nn: ~\nm:\nb: true\nc: False\ne: ''\n", format="yaml"
    )

    assert read.data == {
        "t": "text",
        "q": "5",
        "i": -12,
        "f": 1.5,
        "g": 1500.0,
        "n": None,
        "m": None,
        "b": True,
        "c": False,
        "e": "",
    }


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param('{"a": 1,\n "a": 2}', 2, "name 'a' appears twice in one object", id="duplicate"),
        pytest.param('{"a": 1,\n b}', 2, "invalid JSON", id="not json"),
        pytest.param('{"a": NaN}', 1, "invalid JSON: NaN is not a JSON number", id="nan"),
        pytest.param('{"a": ' + "[" * 200_000, None, "invalid JSON: it is nested too deeply", id="deep"),
        pytest.param(
            '{"a": ' + "9" * 5000 + "}", None, "invalid JSON: a number is too long", id="very long number"
        ),
        pytest.param("[1]", 1, "top level must be a mapping, got list", id="list"),
        pytest.param("", 1, "invalid JSON", id="nothing"),
    ],
)
def test_json_that_is_refused(text: str, line: int | None, message: str) -> None:
    """The same for JSON, with the line where the parser knows it."""
    error = refused(text, "json")

    assert message in str(error)
    assert error.line == line


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_lines(format: Any) -> None:
    """Each value has a line, in JSON as in YAML."""
    read = parse_document('{\n"a": [\n1,\n{"b": 2}],\n"c": 3}', format=format)

    assert read.line_of(("a", 1, "b")) == 4
    assert read.line_of(("a", 0)) == 3
    assert read.line_of(("c",)) == 5
    assert read.line_of(("a", 1, "missing", "too")) == 4
    assert read.line_of(()) == 1


@pytest.mark.parametrize("text", [f'{{"{"k" * 1100}": 1}}', "null"], ids=["json that is no yaml", "null"])
def test_lines_are_not_worth_an_error(text: str) -> None:
    """JSON that YAML does not understand has no lines, and is no less understood."""
    assert json_lines(text).keys() <= {()}


@pytest.mark.parametrize(
    "text", ['{"a":\t"\\/",\n"b": 1}', '{"a": "\\ud83d\\ude00",\n"b": 1}'], ids=["a slash", "two halves"]
)
def test_lines_are_found_where_one_of_two_parsers_understands(text: str) -> None:
    """A tab and an escaped slash only the fast one reads, halves of a character only the slow one."""
    assert json_lines(text) == {(): 1, ("a",): 1, ("b",): 2}


def test_lines_of_nothing() -> None:
    """Rules that were made in Python have no lines."""
    assert document.Document(data={}).line_of(("contracts", 0)) is None


def test_empty_yaml_is_an_empty_mapping() -> None:
    """A file of comments says nothing."""
    assert parse_document("# nothing\n", format="yaml").data == {}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("missing.yaml", None, "no such rules file", id="missing"),
        pytest.param("missing", None, "no such rules file", id="missing and without a suffix"),
        pytest.param(
            "rules.txt",
            b"{}",
            "unrecognized rules file extension '.txt', expected one of .json, .yaml, .yml",
            id="suffix",
        ),
        pytest.param("rules.yaml", b"a: 1\nb: \xff\n", "rules.yaml:2: not UTF-8", id="not utf-8"),
        pytest.param("rules.json", b" " * 5_000_000, "larger than 4 MiB", id="too large"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    """What is wrong with a file is told with its name."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        read_document(path)

    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """What cannot be opened is told as such."""
    (tmp_path / "rules.yaml").mkdir()

    with pytest.raises(ConfigError, match=r"rules.yaml: cannot read"):
        read_document(tmp_path / "rules.yaml")


def test_a_name_that_is_none() -> None:
    """No name that the system refuses gets through as another error."""
    with pytest.raises(ConfigError, match="no such rules file"):
        read_document("a\0b.yaml")


def test_it_works_without_the_c_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML was built without libyaml, the same is read and the same refused."""
    monkeypatch.delattr(yaml, "CSafeLoader")

    assert parse_document("a: [1, b]\n", format="yaml").data == {"a": [1, "b"]}
    assert "nested too deeply" in str(refused("a: " + "[" * 100, "yaml"))
    assert "invalid YAML" in str(refused("a: \x07\n", "yaml"))
