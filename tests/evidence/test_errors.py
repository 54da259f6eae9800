"""Errors of evidence."""

import pickle

import pytest

from openbox_agentrt.evidence import errors


@pytest.mark.parametrize("kind", [errors.EvidenceError, *errors.EvidenceError.__subclasses__()])
def test_an_error_survives_pickling(kind: type[errors.EvidenceError]) -> None:
    """Errors cross process boundaries with all they carry."""
    error = kind("log cannot be read", path="/a/b", remedy="look")

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == "log cannot be read: '/a/b'"
    assert (copy.reason, copy.path, copy.remedy) == ("log cannot be read", "/a/b", "look")


def test_an_error_without_a_file() -> None:
    """Not every error is about a file."""
    assert str(errors.InvalidKeyError("public key is empty")) == "public key is empty"
