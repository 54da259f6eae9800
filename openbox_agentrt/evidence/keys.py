"""
Ed25519 keys: where they live, who may read them, signing and checking.

A key file holds the 32 raw bytes of the private key. It is created complete and readable by its owner only,
and one that others can read is refused: a key that leaked proves nothing.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .._files.whole_write import write_private
from .._plain.digest import sha256
from .canonical import sha256_hex
from .errors import InvalidKeyError, KeyFileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Signer: TypeAlias = Callable[[bytes], str]
"""Takes the bytes to sign and gives the signature in hexadecimal."""

Verifier: TypeAlias = Callable[[bytes, str], bool]
"""Whether a signature, in hexadecimal, is right for these bytes."""

_MARKER_KEY = b"openbox-agentrt evidence, key of redaction markers\n"
_KEY_BYTES = 32
_LEAST_REDACTION_KEY = 16
_MOST_KEY_FILE = 4096
_DIGITS = frozenset("0123456789abcdefABCDEF")
_SHOWN = "public key:"
_HOW_TO_GIVE = "give its 64 hexadecimal digits or a file that holds them, see openbox-agentrt keys show"


def key_id_of(public_key_hex: str) -> str:
    """The short name of a public key, by which a log says what it was signed with."""
    return sha256_hex(bytes.fromhex(public_key_hex))[:16]


class Ed25519Signer:
    """
    Signs with one private key.

    Attributes:
        public_key_hex: The public key, to be kept where those who verify can trust it.
        key_id: Its short name.
    """

    __slots__ = ("_key", "key_id", "public_key_hex")

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key
        self.public_key_hex = key.public_key().public_bytes_raw().hex()
        self.key_id = key_id_of(self.public_key_hex)

    def __call__(self, data: bytes) -> str:
        return self._key.sign(data).hex()

    def verifier(self) -> Verifier:
        """The check of what this signs."""
        return ed25519_verifier(self.public_key_hex)

    def __repr__(self) -> str:
        return f"<Ed25519Signer {self.key_id}>"


def ed25519_signer(key_path: str | os.PathLike[str] | None = None) -> tuple[Ed25519Signer, str]:
    """
    A signer and its public key.

    Args:
        key_path: File of the private key, created with its folder if it does not exist; ``~`` is the home
            folder. Without one the key is new and dies with the process, so that nothing signed with it can
            be verified by anyone who was not told the public key.

    Returns:
        The signer and the public key in hexadecimal.

    Raises:
        KeyFileError: If the file holds no key, cannot be read or written, or others can read it.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if key_path is None:
        signer = Ed25519Signer(Ed25519PrivateKey.generate())
    else:
        data = _key_in(key_path, lambda: Ed25519PrivateKey.generate().private_bytes_raw())
        signer = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(data))
    return signer, signer.public_key_hex


def ed25519_verifier(public_key_hex: str) -> Verifier:
    """
    Checks signatures of one public key.

    Raises:
        InvalidKeyError: If the text is empty or is no Ed25519 public key in hexadecimal.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not public_key_hex.strip():
        # Taken for "no key", an empty one would verify nothing and look as if it had.
        raise InvalidKeyError("public key is empty")
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key_hex))
    except ValueError as error:
        raise InvalidKeyError(
            f"not an Ed25519 public key: {public_key_hex[:80]!r}",
            remedy=_HOW_TO_GIVE,
        ) from error

    def verify(data: bytes, signature_hex: str) -> bool:
        try:
            signature = bytes.fromhex(signature_hex)
            key.verify(signature, data)
        except (ValueError, InvalidSignature):
            return False
        # A signature has one spelling, so that no changed byte of a head goes unnoticed.
        return signature.hex() == signature_hex

    return verify


def public_key_path(log: str | os.PathLike[str]) -> str:
    """Give the file beside a log that holds the public key of its signer."""
    return f"{os.fspath(log)}.pub"


def read_public_key(given: str) -> str:
    """
    Give a public key in hexadecimal.

    Args:
        given: Its 64 digits, a file that holds them or what ``keys show`` prints, or the private key's file.

    Raises:
        InvalidKeyError: If it is none of these.
        KeyFileError: If the file cannot be read, holds something else, or is a private key that others can
            read.
    """
    if not given.strip() or _is_key(given.strip()):
        return given.strip()
    # Loaded here: a hook has no time for what it does not use.
    from pathlib import Path

    path = Path(given).expanduser()
    try:
        if not path.is_file():
            raise InvalidKeyError(
                f"not an Ed25519 public key: {given[:80]!r}, and there is no such file",
                remedy=_HOW_TO_GIVE,
            )
        with path.open("rb") as file:
            data = file.read(_MOST_KEY_FILE)
    except OSError as error:
        raise KeyFileError(f"cannot read key file ({error.strerror})", path=str(path)) from error
    if len(data) == _KEY_BYTES:
        return ed25519_signer(path)[1]
    text = data.decode("ascii", "replace").strip()
    if text.startswith(_SHOWN):
        text = text.splitlines()[0].removeprefix(_SHOWN).strip()
    if not _is_key(text):
        raise KeyFileError("key file holds no Ed25519 key", path=str(path))
    return text


def read_redaction_key(given: str | os.PathLike[str] | bytes) -> bytes:
    """
    Give the key of redaction markers.

    Args:
        given: Its bytes, at least 16; or a file with 32 bytes, created with its folder if it does not exist,
            readable by its owner only.

    Raises:
        ValueError: If the bytes are too few.
        KeyFileError: If the file holds no key, cannot be read or written, or others can read it.
    """
    if isinstance(given, bytes):
        if len(given) < _LEAST_REDACTION_KEY:
            raise ValueError(f"a redaction key has at least {_LEAST_REDACTION_KEY} bytes, not {len(given)}")
        return given
    return _key_in(given, lambda: os.urandom(_KEY_BYTES))


def _is_key(text: str) -> bool:
    return len(text) == 2 * _KEY_BYTES and _DIGITS.issuperset(text)


def _key_in(given: str | os.PathLike[str], make: Callable[[], bytes]) -> bytes:
    """Read a key file, which is made if it does not exist."""
    path = os.path.expanduser(os.fspath(given))
    if path.startswith("~"):
        raise KeyFileError("cannot use key file (no home folder)", path=path)
    try:
        if not os.path.exists(path):
            _create(path, make())
        return _read(path)
    except OSError as error:
        raise KeyFileError(f"cannot use key file ({error.strerror})", path=path) from error


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Of the opened file, not of the path: that could be another one by now.
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if sys.platform != "win32" and mode & 0o077:
            raise KeyFileError(
                f"key file can be read by others (mode {mode:04o})",
                path=path,
                remedy=f"make a new key, or if it was never exposed: chmod 600 {path}",
            )
        data = os.read(descriptor, _KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) != _KEY_BYTES:
        size = "empty" if not data else f"not {_KEY_BYTES} bytes long"
        raise KeyFileError(f"key file is {size}", path=path)
    return data


def _create(path: str, data: bytes) -> None:
    """Put a complete key file in place, unless somebody else was faster."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with contextlib.suppress(FileExistsError):
        write_private(path, data, sync=True, replace=False)


def marker_key_of(given: str | os.PathLike[str] | bytes | None, signer: Signer | None) -> bytes | None:
    """
    Give the key that markers in a log are made with; None if there is none to be had.

    Args:
        given: The key, or the file that holds it.
        signer: The signer of the log.
    """
    if given is not None:
        return read_redaction_key(given)
    if not isinstance(signer, Ed25519Signer):
        return None
    # Ed25519 gives one signature for one text, which only the holder of the key can make.
    key: bytes = sha256(bytes.fromhex(signer(_MARKER_KEY))).digest()
    return key
