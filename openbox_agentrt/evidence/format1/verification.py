"""
Checking format 1, as a pure function.

The checks are the published ones, in their order, and three more: a bundle's index is its place, no hash
leaves a field out, and an empty public key is an error.
"""

from collections.abc import Sequence
from typing import Any

from ..canonical import GENESIS_HASH, legacy_canonical, sha256_hex
from ..course import Course
from ..findings import NO_KEY, BadEntry, moved_or_missing
from ..keys import Verifier, ed25519_verifier
from ..report import Problem, Report

_NO_HEAD = "format 1 does not show whether entries were cut from the end"
_BUNDLE = {
    "index": int,
    "timestamp": str,
    "violation": dict,
    "prev_hash": str,
    "trace_hash": str,
    "bundle_hash": str,
}


def verify_bundles(
    bundles: Sequence[Any], *, public_key_hex: str | None = None, partial: bool = False
) -> Report:
    """
    Check a log of format 1.

    An intact chain shows that nothing inside it was changed, dropped or reordered. It does not show that the
    chain is complete: bundles cut from the end, or all of them, leave no trace.

    Args:
        bundles: What the JSON document holds.
        public_key_hex: Public key that every bundle has to be signed with. Without one nothing is
            authenticated.
        partial: The bundles start in the middle of the log.

    Raises:
        InvalidKeyError: If the public key is none.
    """
    verifier = None if public_key_hex is None else ed25519_verifier(public_key_hex)
    notes: tuple[str, ...] = (_NO_HEAD,) if verifier is not None else (NO_KEY, _NO_HEAD)
    start, prev = _start_of(bundles) if partial else (0, GENESIS_HASH)
    if start:
        notes += (f"the {start} bundles before these were not looked at",)
    course = Course()
    count, found = len(bundles), None
    passed, problem = count, None
    for index, bundle in enumerate(bundles, start):
        try:
            prev = _check_bundle(index, bundle, prev, verifier)
            course.pass_entry(index, bundle["timestamp"], None)
            course.lost += bundle["violation"].keys() == {"$error"}
        except BadEntry as bad:
            later = (other.get("index") for other in bundles[index - start :] if isinstance(other, dict))
            found, passed, problem = bad, index - start, moved_or_missing(bad.problem, index, later)
            break
    return Report(
        ok=found is None,
        authenticated=found is None and verifier is not None and count > 0,
        format=1,
        count=count,
        records=count,
        signed=passed if verifier is not None else 0,
        first_bad=None if found is None else found.at,
        problem=problem,
        reason=None if found is None else found.reason,
        notes=(*course.notes(), *notes),
        starts_at=start,
        first_time=course.first,
        last_time=course.last,
        lost=course.lost,
        backwards=course.backwards,
    )


def _start_of(bundles: Sequence[Any]) -> tuple[int, str]:
    """Give the index and the link of the first bundle, or those of a whole log where it has none."""
    match bundles[0] if bundles else None:
        case {"index": int() as index, "prev_hash": str() as prev} if index > 0:
            return index, prev
    return 0, GENESIS_HASH


def _check_bundle(index: int, bundle: Any, prev: str, verifier: Verifier | None) -> str:
    """Raises `BadEntry`, or gives the bundle's hash."""
    if not isinstance(bundle, dict):
        raise BadEntry("malformed", f"bundle {index} is not an object", at=index)
    for name, kind in _BUNDLE.items():
        if not isinstance(bundle.get(name), kind) or bundle[name] is True:
            raise BadEntry("malformed", f"missing or malformed field: {name!r} of bundle {index}", at=index)
    unknown = sorted(set(map(str, bundle)) - set(_BUNDLE) - {"signature"})
    if unknown:
        # It could say anything.
        raise BadEntry("changed", f"no hash covers a field of bundle {index}: {unknown[0]!r}", at=index)
    try:
        payload = {name: bundle[name] for name in ("index", "timestamp", "violation")}
        trace_hash = sha256_hex(legacy_canonical(payload))
    except (TypeError, ValueError, RecursionError):
        raise BadEntry("malformed", f"bundle {index} holds what JSON cannot", at=index) from None
    if trace_hash != bundle["trace_hash"]:
        raise BadEntry("changed", f"bundle {index} is not what its hash was taken of", at=index)
    if bundle["index"] != index:
        problem: Problem = "missing" if bundle["index"] > index else "reordered"
        raise BadEntry(problem, f"bundle {index} says that it is number {bundle['index']}", at=index)
    if bundle["prev_hash"] != prev:
        raise BadEntry("unlinked", f"bundle {index} does not follow from the one before it", at=index)
    bundle_hash = sha256_hex((prev + trace_hash).encode())
    if bundle_hash != bundle["bundle_hash"]:
        raise BadEntry(
            "changed", f"bundle {index} does not have the hash of its place in the chain", at=index
        )
    if verifier is not None:
        signature = bundle.get("signature")
        if not signature:
            raise BadEntry("unsigned", f"bundle {index} is not signed", at=index)
        if not isinstance(signature, str) or not verifier(bundle_hash.encode(), signature):
            raise BadEntry("wrong_signer", f"bundle {index} is not signed with this key", at=index)
    return bundle_hash
