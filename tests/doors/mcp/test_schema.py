"""Arguments against the schema that a tool was listed with."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from openbox_agentrt.doors.mcp.schema import OffSchemaError, read_by_schema
from openbox_agentrt.doors.mcp.schema_words import is_as_said, is_decided

ITEM = {"type": "object", "properties": {"price": {"type": "number"}}}
NOTE = {"properties": {"text": {"type": "string"}}, "required": ["text"]}
TRANSFER = {"properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
ANCHORED = {"One": {"$anchor": "one", "type": "integer"}, "Two": {"$dynamicAnchor": "two", "type": "integer"}}
BY_KIND = {
    "if": {"properties": {"kind": {"const": "card"}}, "required": ["kind"]},
    "then": {"properties": {"to": {"type": "integer"}, "cvc": {"default": "000"}}},
    "else": {"properties": {"to": {"type": "string"}}},
}
PATTERNED = {**BY_KIND, "if": {"properties": {"kind": {"pattern": "^card"}}}}
CLOSED = {"allOf": [{"properties": {"to": {}}}], "unevaluatedProperties": {"type": "integer"}}
NAMED = {"properties": {"kind": {"const": "a"}}}
AGED = {"properties": {"kind": {"const": "b"}, "age": {"type": "integer"}}}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("declared", "value", "problem"),
    [
        pytest.param({"type": "integer"}, "7", "is a text, and the tool declares a whole", id="integer"),
        pytest.param({"type": "integer"}, 7.5, "is a number, and", id="fraction"),
        pytest.param({"type": "number"}, True, "is true or false, and", id="boolean"),
        pytest.param({"type": "boolean"}, "true", "declares true or false", id="text for a boolean"),
        pytest.param({"type": "array"}, '["a"]', "declares a list", id="text for a list"),
        pytest.param({"type": "object"}, '{"a": 1}', "declares an object", id="text for an object"),
        pytest.param({"type": "string"}, 7, "declares a text", id="number for text"),
        pytest.param(
            {"type": ["integer", "null"]}, "7", "declares a whole number or null", id="one of several"
        ),
        pytest.param({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", "a whole", id="any of"),
        pytest.param({"oneOf": [{"type": "integer"}, {"type": "array"}]}, "7", "a whole", id="one of"),
        pytest.param({"allOf": [{}, {"type": "integer"}]}, "7", "declares a whole number", id="all of"),
        pytest.param({"anyOf": [NOTE, TRANSFER]}, {"amount": "7"}, "x.amount' is a text", id="the one meant"),
        pytest.param({"oneOf": [NAMED, AGED]}, {"kind": "b", "age": "7"}, "x.age' is a text", id="constant"),
        pytest.param({"enum": [1, 2]}, "1", "declares a whole number or a number", id="choices"),
        pytest.param({"const": 1}, "1", "declares a whole number or a number", id="constant"),
        pytest.param({"$ref": "#/$defs/Item"}, {"price": "7"}, "'x.price' is a text", id="reference"),
        pytest.param({"$ref": "#/$defs/It~0em~1s"}, "7", "declares a whole number", id="escaped reference"),
        pytest.param({"$ref": "#/$defs/It~0em%7E1s"}, "7", "declares a whole number", id="quoted reference"),
        pytest.param({"$ref": "#/$defs/Some/anyOf/1"}, "7", "a whole number", id="reference into a list"),
        pytest.param(
            {"type": "array", "items": ITEM}, [{"price": 1}, {"price": "1"}], "x.1.price", id="items"
        ),
        pytest.param({"prefixItems": [{}, {"type": "integer"}]}, ["a", "1"], "x.1", id="position"),
        pytest.param(
            {"additionalProperties": {"type": "integer"}}, {"a": "1"}, "'x.a' is a text", id="any name"
        ),
        pytest.param(
            {"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": "1"}, "'x.n_a' is a", id="pattern"
        ),
        pytest.param(BY_KIND, {"kind": "card", "to": "7"}, "x.to' is a text", id="then"),
        pytest.param(BY_KIND, {"kind": "cash", "to": 7}, "x.to' is a whole number", id="else"),
        pytest.param(PATTERNED, {"kind": "card", "to": [7]}, "x.to' is a list", id="neither then nor else"),
        pytest.param(
            {"dependentSchemas": {"to": TRANSFER}}, {"to": "a", "amount": "7"}, "amount", id="if so"
        ),
        pytest.param(
            {"dependencies": {"to": TRANSFER}}, {"to": "a", "amount": "7"}, "amount", id="if so, once"
        ),
        pytest.param(CLOSED, {"to": "a", "other": "7"}, "x.other' is a text", id="a name nobody declares"),
        pytest.param({"items": [{}, {"type": "integer"}]}, ["a", "7"], "x.1", id="position, once"),
        pytest.param(
            {"items": [{}], "additionalItems": TRANSFER}, ["a", "7", {"amount": "7"}], "x.2", id="rest"
        ),
        pytest.param({"unevaluatedItems": {"type": "integer"}}, ["7"], "x.0", id="an item nobody declares"),
        pytest.param({"$ref": "#one"}, "7", "declares a whole number", id="anchor"),
        pytest.param({"$dynamicRef": "#two"}, "7", "declares a whole number", id="dynamic anchor"),
        pytest.param({"$ref": "https://example.com/item"}, "7", "not in the list of tools", id="elsewhere"),
        pytest.param({"$ref": "#/nowhere"}, 7, "not in the list of tools: '#/nowhere'", id="nowhere"),
        pytest.param({"anyOf": [{"$ref": "#three"}, {"type": "integer"}]}, "7", "not in the list", id="or 7"),
    ],
)
def test_another_type_is_refused(declared: Any, value: Any, problem: str) -> None:
    """At any depth, with the argument's name and no value of it."""
    defs = {
        **ANCHORED,
        "Item": ITEM,
        "It~em/s": {"type": "integer"},
        "Some": {"anyOf": [{}, {"type": "integer"}]},
    }
    declared_with = {**schema(x=declared), "$defs": defs}

    with pytest.raises(OffSchemaError) as caught:
        read_by_schema({"x": value}, declared_with)

    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        pytest.param({"type": "integer"}, 7, id="integer"),
        pytest.param({"type": "integer"}, 7.0, id="a whole number in another spelling"),
        pytest.param({"type": "number"}, 7, id="a whole number is a number"),
        pytest.param({"type": "string", "maxLength": 1}, "long", id="what the server checks itself"),
        pytest.param({"type": "integer"}, None, id="null"),
        pytest.param({}, "7", id="nothing declared"),
        pytest.param(True, "7", id="anything"),
        pytest.param({"type": "any"}, "7", id="any type"),
        pytest.param({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "7", id="a text among others"),
        pytest.param({"anyOf": [TRANSFER, {"type": "null"}]}, {}, id="a name that is missing"),
        pytest.param({"$ref": "https://example.com/item"}, None, id="null, declared elsewhere"),
        pytest.param({"$ref": "#/$defs/anything"}, "7", id="a schema that is true"),
        pytest.param({"type": "object"}, {"any": "name"}, id="names that are not declared"),
        pytest.param(
            {"patternProperties": {"^x-": {"type": "string"}, "(?<=a)": {"type": "integer"}}}
            | {"additionalProperties": {"type": "integer"}},
            {"x-a": "1", "b": 1},
            id="names by a pattern, and others",
        ),
        pytest.param({"type": 5, "properties": [], "items": 3, "enum": "x"}, "7", id="no schema at all"),
        pytest.param(BY_KIND, {"kind": "cash", "to": "7"}, id="as the branch that holds says"),
        pytest.param(PATTERNED, {"kind": "card", "to": "7"}, id="as one says of which nobody knows"),
        pytest.param({"if": {}, "else": {"type": "integer"}}, "7", id="a branch that does not hold"),
        pytest.param({"dependentRequired": {"a": ["b"]}}, {"a": "7"}, id="names that belong together"),
        pytest.param({"dependencies": {"a": ["b"]}}, {"a": "7"}, id="names that belong together, once"),
        pytest.param(CLOSED, {"to": "7"}, id="a name that another part declares"),
        pytest.param({"not": {"type": "string"}, "contains": {"type": "integer"}}, "7", id="what it is not"),
    ],
)
def test_what_fits_is_passed_on(declared: Any, value: Any) -> None:
    """Unchanged."""
    listed = {**schema(x=declared), "$defs": {"anything": True, **ANCHORED}}
    assert read_by_schema({"x": value}, listed) == {"x": value}


def test_defaults_are_filled_in() -> None:
    """What was sent goes before."""
    declared = schema(a={"default": 1}, b={"default": [2]}, c={"type": "integer"})

    assert read_by_schema({"b": 3}, declared) == {"a": 1, "b": 3}


REQUEST = {
    "type": "object",
    "properties": {"cmd": {"type": "string"}, "force": {"type": "boolean", "default": True}},
    "required": ["cmd"],
}
CAT = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"default": 9}}}
DOG = {"type": "object", "properties": {"kind": {"const": "dog"}, "trick": {"default": "sit"}}}


@pytest.mark.parametrize(
    ("declared", "sent", "read"),
    [
        pytest.param(REQUEST, {"cmd": "ls"}, {"cmd": "ls", "force": True}, id="inside"),
        pytest.param(REQUEST, {"cmd": "ls", "force": False}, {"cmd": "ls", "force": False}, id="sent"),
        pytest.param({"$ref": "#/$defs/R"}, {"cmd": "ls"}, {"cmd": "ls", "force": True}, id="reference"),
        pytest.param({"allOf": [REQUEST]}, {"cmd": "ls"}, {"cmd": "ls", "force": True}, id="all of"),
        pytest.param(
            {"anyOf": [{"$ref": "#/$defs/R"}, {"type": "null"}]},
            {"cmd": "ls"},
            {"cmd": "ls", "force": True},
            id="optional",
        ),
        pytest.param({"anyOf": [REQUEST, {"type": "null"}]}, None, None, id="null"),
        pytest.param({"items": REQUEST}, [{"cmd": "a"}], [{"cmd": "a", "force": True}], id="item"),
        pytest.param(
            {"additionalProperties": REQUEST},
            {"x": {"cmd": "a"}},
            {"x": {"cmd": "a", "force": True}},
            id="any name",
        ),
        pytest.param(
            {"oneOf": [CAT, DOG]}, {"kind": "dog"}, {"kind": "dog", "trick": "sit"}, id="the second"
        ),
        pytest.param({"anyOf": [REQUEST, CAT]}, {}, {"lives": 9}, id="what it has not is required"),
        pytest.param(BY_KIND, {"kind": "card"}, {"kind": "card", "cvc": "000"}, id="the branch that holds"),
        pytest.param(BY_KIND, {"kind": "cash"}, {"kind": "cash"}, id="the other branch"),
        pytest.param(PATTERNED, {"kind": "card"}, {"kind": "card"}, id="a branch of which nobody knows"),
        pytest.param({"dependentSchemas": {"a": CAT}}, {"a": 1}, {"a": 1, "lives": 9}, id="if so"),
        pytest.param(
            schema(a={**CAT, "default": {}}, b={**CAT, "default": {"lives": 1}}, c={**CAT, "default": 5}),
            {},
            {"a": {"lives": 9}, "b": {"lives": 1}, "c": 5},
            id="inside a default",
        ),
    ],
)
def test_defaults_are_filled_in_at_any_depth(declared: Any, sent: Any, read: Any) -> None:
    """A server that makes objects of what it is sent gives their fields the defaults that it listed."""
    listed = {**schema(x=declared), "$defs": {"R": REQUEST}}

    assert read_by_schema({"x": sent}, listed) == {"x": read}


@pytest.mark.parametrize("declared", [None, 5, [], {}, {"properties": None}])
def test_without_a_schema_everything_fits(declared: Any) -> None:
    """There is nothing to hold arguments to."""
    assert read_by_schema({"x": "7"}, declared) == {"x": "7"}


def test_a_schema_that_refers_to_itself_ends() -> None:
    """A value is finite; a schema that only refers to itself is refused."""
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}}}
    assert read_by_schema({"left": {"left": {}}}, tree) == {"left": {"left": {}}}

    with pytest.raises(OffSchemaError, match="refers to itself"):
        read_by_schema({}, {"$ref": "#"})


@pytest.mark.parametrize(
    "declared", [{"type": "anything"}, {"const": {"a": 1}}, {"anyOf": [{"required": [{}]}, {"required": 5}]}]
)
def test_a_schema_that_is_none_raises_nothing_else(declared: Any) -> None:
    """A server may list anything; a null passes, and what is no name is required of nobody."""
    assert read_by_schema({"x": None}, schema(x=declared)) == {"x": None}
    assert read_by_schema({"x": {}}, schema(x={"anyOf": [declared, {}]})) == {"x": {}}


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_an_alternative_that_refers_to_itself_is_none(word: str) -> None:
    """The others count, for what fits and for what does not."""
    loop = {"$ref": "#/properties/x"}
    listed = schema(x={word: [loop, {"type": "string"}, loop]})

    assert read_by_schema({"x": "a"}, listed) == {"x": "a"}
    with pytest.raises(OffSchemaError):
        read_by_schema({"x": 5}, listed)


def _condition(word: str, depth: int, last: dict[str, Any]) -> dict[str, Any]:
    value = last
    for _ in range(depth):
        value = {word: value, "other": {"is": "a"}}
    return value


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_alternatives_within_alternatives_are_looked_at_once(word: str) -> None:
    """Each of three leads to all three at every level, and a value thirty levels deep is read at once."""
    one = {"$ref": "#/$defs/one"}
    kinds = [{"type": "object", "properties": {name: one, "other": one}} for name in ("and", "or")]
    leaf = {"type": "object", "properties": {"is": {"type": "string"}, "exact": {"default": True}}}
    defs = {"one": {word: [*({**kind, "required": ["other"]} for kind in kinds), leaf]}}
    listed = {"properties": {"x": one}, "$defs": defs}

    read = read_by_schema({"x": _condition("and", 30, {"is": "b"})}, listed)

    assert str(read).count("'exact': True") == 31


def test_the_same_parts_again_and_again_are_looked_at_once() -> None:
    """Each of forty schemas has the next one twice; the last has a default, and a word on one name."""
    defs: dict[str, Any] = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
    defs["s40"] = {"properties": {"a": {"default": 1}, "b": {"type": "integer"}}}
    listed = {"$ref": "#/$defs/s0", "unevaluatedProperties": {"type": "string"}, "$defs": defs}

    assert read_by_schema({"b": 2, "c": "x"}, listed) == {"a": 1, "b": 2, "c": "x"}
    with pytest.raises(OffSchemaError, match="'c' is a whole number, and the tool declares a text"):
        read_by_schema({"c": 3}, listed)


def test_defaults_within_defaults_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can say what the tool receives."""
    monkeypatch.setattr("openbox_agentrt.doors.mcp.schema.MAX_DEFAULTS", 1_000)
    node = {"type": "object", "properties": {key: {"$ref": "#/$defs/node", "default": {}} for key in "lr"}}

    with pytest.raises(OffSchemaError, match="has defaults within defaults without end"):
        read_by_schema({}, {"$ref": "#/$defs/node", "$defs": {"node": node}})


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({**BY_KIND, "if": {"required": ["kind"]}}, id="the branch of a condition"),
        pytest.param({"if": {"properties": {"to": {"type": "boolean"}}}}, id="a condition that is not met"),
        pytest.param({"dependentSchemas": {"kind": {"properties": {"to": {}}}}}, id="with another name"),
    ],
)
def test_a_part_that_does_not_hold_declares_nothing(parts: dict[str, Any]) -> None:
    """What a schema says of all other names is said of this one too."""
    listed = {**parts, "else": {}, "unevaluatedProperties": {"type": "integer"}}

    assert read_by_schema({"to": 7}, listed) == {"to": 7}
    with pytest.raises(OffSchemaError, match="'to' is a text, and the tool declares a whole number"):
        read_by_schema({"to": "7"}, listed)


CONDITIONS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"]),
            "const": st.sampled_from([1, 1.0, 0, "1", True, None]),
            "required": st.lists(st.sampled_from("ab"), max_size=1),
        },
    )
    | st.booleans(),
    lambda inner: st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("ab"), inner)}),
    max_leaves=4,
)
VALUES = st.recursive(
    st.sampled_from([1, 1.0, 0, 0.5, "1", True, False, None]),
    lambda inner: st.dictionaries(st.sampled_from("ab"), inner) | st.lists(inner, max_size=2),
    max_leaves=4,
)


@given(CONDITIONS, VALUES)
def test_a_condition_that_is_decided_is_decided_as_the_standard_says(condition: Any, value: Any) -> None:
    """And the branch that holds is the only one that a value is held to."""
    assert is_decided(condition)
    holds = Draft202012Validator(condition).is_valid(value)
    assert is_as_said(value, condition) is holds

    listed = schema(
        x={
            "if": condition,
            ("then" if holds else "else"): {"default": 1},
            "else" if holds else "then": {"$ref": "#/nowhere"},
        }
    )
    assert read_by_schema({"x": value}, listed) == {"x": value}
