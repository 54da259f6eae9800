"""
Merkle trees over the lines of a log, as RFC 6962 (section 2.1) has them.

A tree of a log says with 32 bytes what all its lines are; a proof of a few hashes says that one line is among
them, or that one log is how another began, without the lines. Everything here is a pure function of hashes.
"""

import hashlib
from collections.abc import Iterable, Sequence

EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """Hash a line, without its end."""
    return hashlib.sha256(b"\0" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


class MerkleRange:
    """
    Grow a tree leaf by leaf, keeping no more of it than its root needs.

    Attributes:
        size: How many leaves it has.
    """

    __slots__ = ("_peaks", "size")

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.size = 0
        self._peaks: list[bytes] = []
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> None:
        """Add the hash of one more leaf."""
        full = self.size
        while full & 1:
            leaf = _node(self._peaks.pop(), leaf)
            full >>= 1
        self._peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Give the root of the tree as it stands."""
        if not self._peaks:
            return EMPTY_ROOT
        *others, root = self._peaks
        for peak in reversed(others):
            root = _node(peak, root)
        return root


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Give the root of the tree over the hashes of leaves."""
    return MerkleRange(leaves).root()


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """
    Prove that a leaf is in the tree over `leaves`.

    Raises:
        IndexError: There is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise IndexError(f"no leaf {index} in a tree of {len(leaves)}")
    proof: list[bytes] = []
    first, end = 0, len(leaves)
    while end - first > 1:
        middle = first + _split(end - first)
        if index < middle:
            proof.append(root_of(leaves[middle:end]))
            end = middle
        else:
            proof.append(root_of(leaves[first:middle]))
            first = middle
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Check that a leaf is number `index` of a tree of `size` leaves with that root."""
    if not 0 <= index < size:
        return False
    place, last, left = index, size - 1, list(proof)
    while last:
        if not left:
            return False
        if place & 1 or place == last:
            leaf = _node(left.pop(0), leaf)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            leaf = _node(leaf, left.pop(0))
        place, last = place >> 1, last >> 1
    return not left and leaf == root


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """
    Prove that the tree over the first `old_size` leaves is how the tree over all of them began.

    Raises:
        IndexError: There are fewer leaves.
    """
    if not 0 <= old_size <= len(leaves):
        raise IndexError(f"no {old_size} leaves in a tree of {len(leaves)}")
    if old_size in (0, len(leaves)):
        return []
    proof: list[bytes] = []
    first, end, whole = 0, len(leaves), True
    while old_size != end - first:
        middle = _split(end - first)
        if old_size <= middle:
            proof.append(root_of(leaves[first + middle : end]))
            end = first + middle
        else:
            proof.append(root_of(leaves[first : first + middle]))
            first, old_size, whole = first + middle, old_size - middle, False
    if not whole:
        proof.append(root_of(leaves[first:end]))
    return proof[::-1]


def verify_consistency(
    old_size: int, old_root: bytes, new_size: int, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Check that a tree began as an older one: what was in it then is there now, in the same order."""
    if not 0 <= old_size <= new_size:
        return False
    if old_size == new_size:
        return not proof and old_root == new_root
    if old_size == 0:
        return not proof and old_root == EMPTY_ROOT
    left = list(proof)
    place, last = old_size - 1, new_size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    if place:
        if not left:
            return False
        old = new = left.pop(0)
    else:
        old = new = old_root
    while last:
        if place & 1 or place == last:
            if not left:
                return False
            before = left.pop(0)
            old, new = _node(before, old), _node(before, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        elif place < last:
            if not left:
                return False
            new = _node(new, left.pop(0))
        place, last = place >> 1, last >> 1
    return not left and old == old_root and new == new_root


def _split(size: int) -> int:
    """Give the largest power of two that is smaller than a size."""
    return 1 << ((size - 1).bit_length() - 1)
