"""SHA-256 and its HMAC, from where they are at hand."""

import hashlib
import hmac
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain import digest


@pytest.mark.parametrize("has_library", [True, False], ids=["with hmac", "without"])
@given(key=st.binary(max_size=200), data=st.binary(max_size=300))
def test_an_hmac_is_that_of_the_standard_library(has_library: bool, key: bytes, data: bytes) -> None:
    """Also where that is not loaded, for the sake of a process that has no time for it."""
    with pytest.MonkeyPatch.context() as patch:
        if not has_library:
            patch.delitem(sys.modules, "hashlib")
        assert digest.hmac_sha256(key, data) == hmac.new(key, data, "sha256").hexdigest()


@pytest.mark.parametrize("is_loaded", [True, False], ids=["with hashlib", "without"])
@given(data=st.binary(max_size=300))
def test_a_digest_is_that_of_the_standard_library(is_loaded: bool, data: bytes) -> None:
    """OpenSSL's once it is loaded, and before that the same digest by another function."""
    with pytest.MonkeyPatch.context() as patch:
        if not is_loaded:
            patch.delitem(sys.modules, "hashlib")
        begun = digest.sha256(data)

    assert begun.hexdigest() == hashlib.sha256(data).hexdigest()
    assert (type(begun) is type(hashlib.sha256())) is is_loaded
