"""
Names of tools that a person would take for each other, or that are not what they look like.

They are reported, for `validate` and for reviews; a session that must not meet them is told to refuse tools
that it does not know.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Literal

from ..._values import dataclass
from .names import normal_name

Problem = Literal["empty", "control", "invisible", "not-nfc", "mixed-scripts", "case", "look-alike"]

# The letters of other scripts that most fonts draw like a Latin letter, and the digits that look like one.
_LOOK_ALIKES = str.maketrans(
    {
        **dict(zip("аеорсухіјѕԛԝһӏԁьАВЕКМНОРСТУХІЈЅԌ", "aeopcyxijsqwhldbABEKMHOPCTYXIJSG", strict=True)),
        **dict(zip("ανορτυχικρεΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "avoptuxikpeABEZHIKMNOPTYX", strict=True)),
        **dict(zip("ıɩɡɑʏ0O1lI|", "iigayoollll", strict=True)),
    }
)
_UNSEEN = frozenset({"Cf", "Mn", "Me", "Cc"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NameReport:
    """
    A name that may not be what it looks like.

    Attributes:
        name: The name.
        problem: What is odd about it.
        other: The name that it may be taken for, for "case" and "look-alike".
    """

    name: str
    problem: Problem
    other: str | None = None

    def describe(self) -> str:
        """The report in one line. The name is escaped, since what is odd about it may not be visible."""
        what = {
            "empty": "is empty",
            "control": "contains a control character or a line break",
            "invisible": "contains a character that is not shown",
            "not-nfc": "is not in Unicode normal form C",
            "mixed-scripts": "mixes letters of several scripts",
            "case": "differs only in case from",
            "look-alike": "looks like",
        }[self.problem]
        return f"name {self.name!a} {what}" + ("" if self.other is None else f" {self.other!a}")


def suspicious_names(names: Iterable[str]) -> list[NameReport]:
    """Report what is odd about each of `names`, on its own and beside the others, in their order."""
    reports: list[NameReport] = []
    by_case: dict[str, str] = {}
    by_shape: dict[str, str] = {}
    for name in dict.fromkeys(names):
        reports += [NameReport(name=name, problem=problem) for problem in _own_problems(name)]
        same = normal_name(name)
        folded, shape = same.casefold(), _shape(same)
        cased, shaped = by_case.setdefault(folded, same), by_shape.setdefault(shape, same)
        if cased != same:
            reports.append(NameReport(name=name, problem="case", other=cased))
        elif shaped != same and shaped.casefold() != folded:
            reports.append(NameReport(name=name, problem="look-alike", other=shaped))
    return reports


def _own_problems(name: str) -> Iterable[Problem]:
    if not name:
        yield "empty"
    categories = {unicodedata.category(character) for character in name}
    if categories & {"Cc", "Cs", "Cn", "Zl", "Zp"}:
        yield "control"
    if categories & {"Cf", "Me"}:
        yield "invisible"
    if normal_name(name) != name:
        yield "not-nfc"
    if len(_scripts(name)) > 1:
        yield "mixed-scripts"


def _scripts(name: str) -> set[str]:
    return {
        unicodedata.name(character, "UNKNOWN").split()[0]
        for character in name
        if character.isalpha()
        and not unicodedata.name(character, "").startswith(("CJK", "HIRAGANA", "KATAKANA"))
    }


def _shape(name: str) -> str:
    shown = "".join(c for c in unicodedata.normalize("NFKD", name) if unicodedata.category(c) not in _UNSEEN)
    return shown.translate(_LOOK_ALIKES).casefold().replace("rn", "m")
