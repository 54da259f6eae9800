"""The lock of a file."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from openbox_agentrt._files.lock import FileLock, FileLockedError, lock_descriptor

HOLD = """
import sys
from pathlib import Path
from openbox_agentrt._files.lock import FileLock
lock = FileLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_one_holder_within_a_process(tmp_path: Path) -> None:
    """The second is told who holds it, and gets it once it is released."""
    path = tmp_path / "x.lock"
    first = FileLock(path)

    with pytest.raises(FileLockedError) as caught:
        FileLock(path)
    first.release()
    FileLock(path).release()

    assert caught.value.holder == int(path.read_text())


def test_one_holder_across_processes(tmp_path: Path) -> None:
    """And a process that is killed leaves no lock behind."""
    path = tmp_path / "x.lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(FileLockedError) as caught:
            FileLock(path)
        other.kill()
        other.wait()

    assert caught.value.holder == other.pid
    FileLock(path).release()


def test_waiting_for_it(tmp_path: Path) -> None:
    """As long as was said, and no longer."""
    path = tmp_path / "x.lock"
    held = FileLock(path)
    waits: list[float] = []
    with path.open("rb") as file, pytest.raises(FileLockedError):
        lock_descriptor(file.fileno(), wait_seconds=0.1, sleep=waits.append)

    def give_up(seconds: float) -> None:
        held.release()

    with path.open("rb") as file:
        lock_descriptor(file.fileno(), wait_seconds=0.1, sleep=give_up)

    assert 0.1 <= sum(waits) < 0.13


def test_the_error_survives_pickling() -> None:
    """With what it carries."""
    copy = pickle.loads(pickle.dumps(FileLockedError(7)))

    assert (copy.holder, str(copy)) == (7, str(FileLockedError(7)))
