"""Merkle trees, against the vectors of RFC 6962's authors and against another implementation."""

from __future__ import annotations

import hashlib

import pymerkle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.evidence.checkpoints.merkle import (
    EMPTY_ROOT,
    MerkleRange,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

DATA = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [leaf_hash(b"line %d" % number) for number in range(1_001)]


@pytest.mark.parametrize("size", range(1, 9))
def test_the_published_roots(size: int) -> None:
    """Of the eight leaves that every implementation is tried with."""
    assert root_of(map(leaf_hash, DATA[:size])).hex() == ROOTS[size - 1]


def test_no_leaf() -> None:
    """The empty tree has the hash of nothing."""
    assert root_of([]) == EMPTY_ROOT == hashlib.sha256(b"").digest()
    assert MerkleRange().size == 0


def test_roots_and_proofs_agree_with_another_implementation() -> None:
    """For every size up to a thousand."""
    tree = pymerkle.InmemoryTree(algorithm="sha256")
    ours = MerkleRange()
    for number in range(1_000):
        tree.append_entry(b"line %d" % number)
        ours.append(LEAVES[number])
        assert tree.get_root() == ours.root()
    new = root_of(LEAVES[:1_000])
    for size in range(1, 1_000, 7):
        old = root_of(LEAVES[:size])
        pymerkle.verify_consistency(old, new, tree.prove_consistency(size, 1_000))
        assert verify_consistency(size, old, 1_000, new, consistency_proof(LEAVES[:1_000], size))
    for index in range(0, 1_000, 13):
        pymerkle.verify_inclusion(LEAVES[index], new, tree.prove_inclusion(index + 1, 1_000))
        assert verify_inclusion(LEAVES[index], index, 1_000, inclusion_proof(LEAVES[:1_000], index), new)


@given(st.data())
def test_a_proof_of_inclusion_is_of_one_leaf_at_one_place(data: st.DataObject) -> None:
    """And of no other leaf, place, size or root, nor with a hash more or less."""
    size = data.draw(st.integers(1, 200))
    index = data.draw(st.integers(0, size - 1))
    root, proof = root_of(LEAVES[:size]), inclusion_proof(LEAVES[:size], index)

    assert verify_inclusion(LEAVES[index], index, size, proof, root)
    assert not verify_inclusion(LEAVES[index + 1], index, size, proof, root)
    assert not verify_inclusion(LEAVES[index], index, size, proof, LEAVES[0] if size > 1 else LEAVES[1])
    assert not verify_inclusion(LEAVES[index], index, size, [*proof, root], root)
    assert not verify_inclusion(LEAVES[index], index, size, proof[:-1], root) or not proof
    other = data.draw(st.integers(0, size - 1).filter(lambda place: place != index)) if size > 1 else size
    assert not verify_inclusion(LEAVES[index], other, size, proof, root)


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_proof_of_consistency_is_of_one_history(one: int, two: int) -> None:
    """A tree that began otherwise, or is shorter, is not consistent with it."""
    old_size, size = sorted((one, two))
    old, new = root_of(LEAVES[:old_size]), root_of(LEAVES[:size])
    proof = consistency_proof(LEAVES[:size], old_size)

    assert verify_consistency(old_size, old, size, new, proof)
    assert not verify_consistency(old_size, old, size, new, [*proof, new])
    if old_size < size:
        assert not verify_consistency(size, new, old_size, old, proof)
    if old_size:
        forked = [LEAVES[1_000], *LEAVES[1:size]]
        assert not verify_consistency(old_size, root_of(forked[:old_size]), size, new, proof)
        assert not verify_consistency(
            old_size, old, size, root_of(forked), consistency_proof(forked, old_size)
        )


def test_what_is_not_there_is_not_proven() -> None:
    """An index beyond the tree is an error of the caller."""
    with pytest.raises(IndexError):
        inclusion_proof(LEAVES[:3], 3)
    with pytest.raises(IndexError):
        consistency_proof(LEAVES[:3], 4)
    assert not verify_inclusion(LEAVES[0], 5, 3, [], LEAVES[0])
