"""Ed25519 keys."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openbox_agentrt.evidence import InvalidKeyError, KeyFileError, ed25519_signer
from openbox_agentrt.evidence.keys import Ed25519Signer, ed25519_verifier, key_id_of

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")


def test_without_a_file_each_key_is_new() -> None:
    """A key that is not kept is another one every time."""
    assert ed25519_signer()[1] != ed25519_signer()[1]


def test_with_a_file_the_key_stays(tmp_path: Path) -> None:
    """A kept key signs the same in the next process."""
    first, public = ed25519_signer(tmp_path / "new" / "folder" / "key")
    second, again = ed25519_signer(str(tmp_path / "new" / "folder" / "key"))

    assert public == again
    assert first(b"data") == second(b"data")


@posix
def test_a_new_key_file_is_private_and_complete(tmp_path: Path) -> None:
    """The key is readable by its owner only, and nothing else is left in the folder."""
    ed25519_signer(tmp_path / "key")

    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert (tmp_path / "key").stat().st_size == 32


def test_processes_that_make_the_key_at_once_share_one(tmp_path: Path) -> None:
    """Whoever is first makes the key; the others use it."""
    keys: list[str] = []
    threads = [
        threading.Thread(target=lambda: keys.append(ed25519_signer(tmp_path / "key")[1])) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(keys) == 16
    assert len(set(keys)) == 1


def test_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home folder, not a folder of that name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))

    ed25519_signer("~/key")

    assert (tmp_path / "key").is_file()


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o601])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """A key that may have leaked proves nothing, so it is not used."""
    path = tmp_path / "key"
    ed25519_signer(path)
    path.chmod(mode)

    with pytest.raises(KeyFileError, match=f"can be read by others .mode {mode:04o}") as caught:
        ed25519_signer(path)

    assert caught.value.path == str(path)
    assert "chmod 600" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "key file is empty", id="empty"),
        pytest.param(b"x" * 31, "not 32 bytes long", id="short"),
        pytest.param(b"x" * 33, "not 32 bytes long", id="long"),
    ],
)
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """What is no key is not taken for one."""
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(KeyFileError, match=message):
        ed25519_signer(path)


def test_a_file_that_cannot_be_used_is_an_error_of_ours(tmp_path: Path) -> None:
    """An operating system's error is translated, with the path in it."""
    (tmp_path / "file").write_text("x")

    with pytest.raises(KeyFileError, match=r"cannot use key file .*file/key'") as caught:
        ed25519_signer(tmp_path / "file" / "key")

    assert isinstance(caught.value.__cause__, OSError)


def test_no_home_folder_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` without a home folder is told as such."""

    monkeypatch.setattr(os.path, "expanduser", lambda path: path)

    with pytest.raises(KeyFileError, match="no home folder"):
        ed25519_signer("~/key")


def test_a_failed_creation_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without room leaves no half key."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(KeyFileError, match="No space left on device"):
        ed25519_signer(tmp_path / "key")

    assert list(tmp_path.iterdir()) == []


def test_a_signature_is_checked(key: Ed25519Signer) -> None:
    """The right signature is right, and every other one is wrong."""
    verify = ed25519_verifier(key.public_key_hex)

    assert verify(b"data", key(b"data"))
    assert not verify(b"other", key(b"data"))
    assert not verify(b"data", ed25519_signer()[0](b"data"))
    assert not verify(b"data", "not hexadecimal")
    assert not verify(b"data", "")
    assert key.verifier()(b"data", key(b"data"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "public key is empty", id="empty"),
        pytest.param("  \n", "public key is empty", id="blank"),
        pytest.param("abc", "not an Ed25519 public key: 'abc'", id="not hexadecimal"),
        pytest.param("00" * 31, "not an Ed25519 public key", id="short"),
    ],
)
def test_a_public_key_that_is_none_is_refused(text: str, message: str) -> None:
    """An empty key is an error: taken for "no key" it would verify nothing and look as if it had."""
    with pytest.raises(InvalidKeyError, match=message):
        ed25519_verifier(text)


def test_the_key_id_is_short_and_public(key: Ed25519Signer) -> None:
    """A key has a short name, and shows nothing else of itself."""
    assert key.key_id == key_id_of(key.public_key_hex)
    assert len(key.key_id) == 16
    assert repr(key) == f"<Ed25519Signer {key.key_id}>"


def test_the_library_for_signing_is_loaded_when_used() -> None:
    """Importing evidence loads no cryptography."""
    code = "import sys, openbox_agentrt.evidence.keys; sys.exit('cryptography' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
