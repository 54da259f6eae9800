"""
Anchors: checkpoints of a log that is being written, given to somebody who keeps them elsewhere.

They are made at an interval, on a thread of its own that reads the new lines again: nothing of it stands in
the way of a call, or of sealing.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TypeAlias

from ..._files.whole_write import write_private
from ..errors import UnreadableLogError
from ..failures import Failures
from ..format2.heads import Head
from ..format2.lines import MAX_LINE
from ..format2.parts import header_of, part_path
from ..keys import Ed25519Signer
from .checkpoint import Checkpoint, checkpoint_path, leaves_of, origin_of, signed_checkpoint
from .merkle import MerkleRange, leaf_hash
from .witness_client import ask_witness

AnchorSpec: TypeAlias = str | os.PathLike[str] | Callable[[str], object]
"""A folder, the URL of a witness, or a function that is given the text of a checkpoint."""


class Anchors:
    """
    Make checkpoints of a log, put each beside it, and give it to all who keep it.

    Args:
        log: The log.
        signer: Its signer.
        given: Who keeps checkpoints. Text that begins with ``http`` is the URL of a witness.
        failures: Counts what fails; the next interval tries again.

    Raises:
        TypeError: One is neither a folder, a URL nor a function.
    """

    def __init__(
        self,
        log: Path,
        signer: Ed25519Signer,
        given: AnchorSpec | Iterable[AnchorSpec],
        failures: Failures,
    ) -> None:
        several = [given] if isinstance(given, str | os.PathLike) or callable(given) else list(given)
        self._anchors = [self._anchor_of(each) for each in several]
        self._log = log
        self._signer = signer
        self._failures = failures
        self._tree = GrowingTree(log)
        self._done = 0

    def keep(self, head: Head) -> None:
        """Make a checkpoint of what a head vouches for, unless it is kept already. Never raises."""
        if head.count == self._done:
            return
        try:
            root = self._tree.root_at(head.count)
            made = signed_checkpoint(origin_of(head.log_id), head.count, root, self._signer)
            self._put_beside(made)
        except Exception as error:  # noqa: BLE001
            # Fail open: the log is sealed all the same. It starts anew, should a file have been moved away.
            self._failures.add("checkpoint", error)
            self._tree.close()
            self._tree = GrowingTree(self._log)
            return
        if self._give(made):
            self._done = head.count

    def close(self) -> None:
        """Let go of the file that is read."""
        self._tree.close()

    def _give(self, made: Checkpoint) -> bool:
        all_have_it = True
        for anchor in self._anchors:
            try:
                made = anchor(made)
            except Exception as error:  # noqa: BLE001
                # Fail open: somebody who does not answer keeps neither calls nor the others from going on.
                self._failures.add("anchor", error)
                all_have_it = False
        return all_have_it

    def _put_beside(self, made: Checkpoint) -> None:
        write_private(checkpoint_path(self._log), made.note.write().encode())

    def _anchor_of(self, given: AnchorSpec) -> Callable[[Checkpoint], Checkpoint]:
        if isinstance(given, str) and given.startswith(("http://", "https://")):
            return lambda made: self._ask(given, made)
        if isinstance(given, str | os.PathLike):
            folder = Path(given).expanduser()
            return lambda made: _put_into(folder, made)
        if callable(given):
            return lambda made: _tell(given, made)
        raise TypeError(f"an anchor is a folder, a URL or a function, not {type(given).__name__!r}")

    def _ask(self, url: str, made: Checkpoint) -> Checkpoint:
        signed = ask_witness(url, made, list(leaves_of(self._log))[: made.size])
        self._put_beside(signed)
        return signed


def _put_into(folder: Path, made: Checkpoint) -> Checkpoint:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{made.origin.rpartition('/')[2]}.checkpoint"
    write_private(folder / name, made.note.write().encode(), sync=True)
    return made


def _tell(keep: Callable[[str], object], made: Checkpoint) -> Checkpoint:
    keep(made.note.write())
    return made


class GrowingTree:
    """Follow the lines of a log that is being written, each once."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._part = 0
        self._file: IO[bytes] | None = None
        self._tree = MerkleRange()

    def root_at(self, count: int) -> bytes:
        """
        Read on up to `count` lines, which are in the log, and give the root over them.

        Raises:
            UnreadableLogError: A part is missing.
            OSError: A file cannot be read.
        """
        for line in self._lines(count - self._tree.size):
            self._tree.append(leaf_hash(line.removesuffix(b"\n")))
        return self._tree.root()

    def close(self) -> None:
        """Close the file that is read."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lines(self, wanted: int) -> Iterator[bytes]:
        while wanted > 0:
            file = self._next_part() if self._file is None else self._file
            line = file.readline(MAX_LINE)
            if not line:
                self._next_part()
            elif line.endswith(b"\n"):
                wanted -= 1
                yield line
            else:
                raise UnreadableLogError("a line that was written has no end", path=str(self._log))

    def _next_part(self) -> IO[bytes]:
        """Open the part after the one that was read: put away by now, or the log itself."""
        number = self._part + 1
        # It may be put away between one look and the next.
        for path in (part_path(self._log, number), self._log, part_path(self._log, number)):
            if path.is_file() and (header_of(path) or {}).get("part") == number:
                self.close()
                self._file, self._part = path.open("rb"), number
                return self._file
        raise UnreadableLogError(f"part {number} of the log is missing", path=str(self._log))
