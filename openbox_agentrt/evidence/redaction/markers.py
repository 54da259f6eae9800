"""Put a marker in the place of a value that is not to be seen."""

from ..._plain.digest import hmac_sha256
from ..canonical import canonical, legacy_canonical, sha256_hex

MARKED = "***REDACTED("
"""How every marker begins."""


def redaction_marker(value: object, key: bytes | None = None) -> str:
    """
    Give the text that stands in for a secret.

    Args:
        value: The secret.
        key: Key of the HMAC. Without one the marker is a plain hash, and a value that can be guessed can
            be found out by anyone who holds the marker.
    """
    data = legacy_canonical({"v": value})
    if key is None:
        return f"{MARKED}sha256:{sha256_hex(data)[:16]})***"
    return f"{MARKED}hmac-sha256:{hmac_sha256(key, data)[:16]})***"


def keyed_digest(value: object, key: bytes) -> str:
    """
    Give a digest by which two values can be compared: an HMAC-SHA256 of the value as format 2 encodes it.

    Args:
        value: The value.
        key: Key of the HMAC. Whoever holds it can check what a digest is of; nobody else can guess it.
    """
    return f"hmac-sha256:{hmac_sha256(key, canonical(value))}"
