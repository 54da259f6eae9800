"""Files that only their owner can read, replaced in one step."""

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt._files.whole_write import write_private


def test_a_file_is_replaced(tmp_path: Path) -> None:
    """The new content is there, for its owner only, and nothing else is left."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    write_private(path, b"new", sync=True)

    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole or not at all."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def refuse(*names: Any, **folders: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)

    with pytest.raises(PermissionError):
        write_private(path, b"new")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_there_can_be_kept(tmp_path: Path) -> None:
    """Two processes that make the same file agree on one."""
    path = tmp_path / "file"
    write_private(path, b"first", replace=False)

    with pytest.raises(FileExistsError):
        write_private(path, b"second", replace=False)

    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
