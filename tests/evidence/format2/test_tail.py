"""Going on with a log at its end."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.evidence import EvidenceFile, verify_file
from openbox_agentrt.evidence.errors import DamagedLogError
from openbox_agentrt.evidence.format2 import tail
from tests.evidence.conftest import MakeViolation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "e.jsonl"


def add(path: Path, violation: Any, **options: Any) -> None:
    with EvidenceFile(path, check="end", seal_interval=0, session_id="s", **options) as log:
        log.record(violation)
        assert log.failures == 0


def test_a_log_that_is_continued_at_its_end_is_whole(path: Path, violation: MakeViolation) -> None:
    """Each opening is told, with its rules where they are others."""
    for rules in ("r1", "r1", "r2"):
        add(path, violation(), rules_hash=rules)

    report = verify_file(path, session_id="s")

    assert report.ok, report.reason
    kinds = [json.loads(line)["type"] for line in path.read_text().splitlines()]
    assert kinds == ["header", "violation", *("resumed", "violation"), *("resumed", "session", "violation")]


def test_as_much_is_read_of_a_long_log_as_of_a_short_one(
    path: Path, violation: MakeViolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is refused often pays for each refusal the same."""
    read: list[int] = []

    class Counting:
        def __init__(self, *given: Any) -> None:
            self.file = builtins.open(*given)  # noqa: SIM115 - closed below

        def __enter__(self) -> "Counting":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> Any:
                found = getattr(self.file, name)(*arguments)
                read.extend([len(found)] if isinstance(found, bytes) else [])
                return found

            return call

    monkeypatch.setattr(tail, "open", Counting, raising=False)
    for _ in range(120):
        add(path, violation())
    del read[:]
    add(path, violation())
    short = sum(read)
    for _ in range(300):
        add(path, violation())
    del read[:]
    add(path, violation())

    assert path.stat().st_size > 3 * short
    assert 0 < sum(read) == short


def test_a_long_last_line_is_found(path: Path, violation: MakeViolation) -> None:
    """Whatever a record weighs."""
    with EvidenceFile(path, session_id="s", record="all") as log:
        log.record_decision({"text": "x" * 300_000})
    add(path, violation(), record="all")

    assert verify_file(path).ok


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
def test_a_changed_line_is_left_to_whoever_verifies(
    path: Path, violation: MakeViolation, tmp_path: Path, signed: bool
) -> None:
    """Going on does not make it right, and a look at the whole refuses to."""
    from openbox_agentrt.evidence import ed25519_signer

    signer, public = ed25519_signer(tmp_path / "key")
    options: dict[str, Any] = {"signer": signer} if signed else {}
    for _ in range(4):
        add(path, violation(), **options)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"tool":"', b'"tool":"x')
    path.write_bytes(b"".join(lines))

    add(path, violation(), **options)

    report = verify_file(path, public_key=public) if signed else verify_file(path)
    assert not report.ok
    assert (report.problem, report.first_bad) == ("changed", 3)
    with pytest.raises(DamagedLogError, match="line 3"):
        EvidenceFile(path, **options)


def cut(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:-1])


def changed_end(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines[:-1], lines[-1].replace(b'"tool":"', b'"tool":"x')])


def of_another(data: bytes) -> bytes:
    first, rest = data.split(b"\n", 1)
    return first.replace(b'"log_id":"', b'"log_id":"00')[: len(first)] + b"\n" + rest


@pytest.mark.parametrize(
    "change", [cut, changed_end, of_another, lambda data: b""], ids=["cut", "changed", "another", "empty"]
)
def test_a_log_that_does_not_end_as_its_head_says_is_refused(
    path: Path, violation: MakeViolation, change: Any
) -> None:
    """To go on with it would be to vouch for it."""
    for _ in range(3):
        add(path, violation())
    path.write_bytes(change(path.read_bytes()))
    before = path.read_bytes()

    with pytest.raises(DamagedLogError):
        EvidenceFile(path, check="end")
    assert path.read_bytes() == before


def test_what_a_crash_left_is_told(path: Path, violation: MakeViolation) -> None:
    """A line that was torn, and lines after the head."""
    add(path, violation())
    head = Path(f"{path}.head").read_bytes()
    add(path, violation())
    Path(f"{path}.head").write_bytes(head.replace(b'"closed"', b'"open"'))
    with path.open("ab") as file:
        file.write(b'{"body"')

    add(path, violation())

    resumed = [json.loads(line)["body"] for line in path.read_text().splitlines() if '"resumed"}' in line]
    assert [(body["sealed"], body["found"], body["dropped_bytes"]) for body in resumed] == [
        (2, 2, 0),
        (2, 4, 7),
    ]
    assert verify_file(path).ok


def test_another_check_is_refused(path: Path) -> None:
    """Whatever is not known might be taken for none."""
    with pytest.raises(ValueError, match="check must be 'whole' or 'end', not 'none'"):
        EvidenceFile(path, check="none")  # type: ignore[arg-type]  # which is what is tested
