"""The files of the hook processes: private, locked, append-only, and never reached through a link."""

import json
import os
import pickle
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.doors.claude_code.folder import HookFault, StateFolder
from openbox_agentrt.doors.claude_code.log import file_stem, open_log


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


def log_file(state_dir: Path, session_id: str = "s1") -> Path:
    return state_dir / f"{file_stem(session_id)}.jsonl"


def write(state_dir: Path, *entries: dict[str, Any], session_id: str = "s1") -> None:
    with open_log(state_dir, session_id) as log:
        for entry in entries:
            log.append(entry)


def read(state_dir: Path, session_id: str = "s1") -> list[dict[str, Any]]:
    with open_log(state_dir, session_id) as log:
        return log.read()[1:]


def test_entries_come_back_in_the_order_they_were_written(state_dir: Path) -> None:
    """Whatever JSON an entry holds, the next process reads the same."""
    entries: list[dict[str, Any]] = [
        {"event": "pre", "args": {"text": "zwölf\n\r\u2028", "n": 1.5}},
        {"event": "post"},
    ]

    for entry in entries:
        write(state_dir, entry)

    assert read(state_dir) == entries


def test_reading_starts_where_a_snapshot_ended(state_dir: Path) -> None:
    """The size of that time gives what was written since."""
    with open_log(state_dir, "s1") as log:
        log.append({"n": 1})
        offset = log.end
        log.append({"n": 2})

    with open_log(state_dir, "s1") as log:
        assert log.read(offset) == [{"n": 2}]
        assert log.read(log.end) == []


@pytest.mark.parametrize("shift", [-1, 1, 10**9, -(10**9)])
def test_an_offset_that_is_no_line_start_is_a_fault(state_dir: Path, shift: int) -> None:
    """A snapshot that does not fit the log is noticed."""
    with open_log(state_dir, "s1") as log:
        log.append({"n": 1})
        offset = log.end
        log.append({"n": 2})

        with pytest.raises(HookFault, match=r"does not hold what its snapshot|ends in the middle"):
            log.read(offset + shift)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-5], id="torn last line"),
        pytest.param(lambda data: data.replace(b'"n":2}\n', b""), id="two lines in one"),
        pytest.param(lambda data: data + b"\n", id="blank last line"),
        pytest.param(lambda data: data + b"5\n", id="a line that is no object"),
        pytest.param(lambda data: b"\xff\xfe" * 50, id="not text"),
        pytest.param(lambda data: b"[]\n", id="json but no log"),
        pytest.param(lambda data: b"\n" + data, id="blank first line"),
    ],
)
def test_a_damaged_file_is_a_fault(state_dir: Path, damage: Any) -> None:
    """Nothing is guessed from a file that is not as it was written."""
    write(state_dir, {"n": 1}, {"n": 2}, {"n": 3})
    path = log_file(state_dir)
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(HookFault, match="state file"):
        read(state_dir)


def test_a_file_of_another_session_is_a_fault(state_dir: Path) -> None:
    """A log copied to another session's name does not become that session's history."""
    write(state_dir, {"n": 1}, session_id="donor")
    log_file(state_dir, "s1").write_bytes(log_file(state_dir, "donor").read_bytes())
    log_file(state_dir, "s1").chmod(0o600)

    with pytest.raises(HookFault, match="named after"):
        read(state_dir, "s1")


@pytest.mark.parametrize(
    "session_id", ["../../etc/passwd", "/etc/passwd", "a/b", "..", "", "x" * 5000, "nul\0byte", "\ud800"]
)
def test_no_session_id_leaves_the_folder(state_dir: Path, tmp_path: Path, session_id: str) -> None:
    """Whatever a session is called, its file is a plain name in the state folder."""
    if len(session_id) > 1000:
        assert len(file_stem(session_id)) == 40
        return
    write(state_dir, {"n": 1}, session_id=session_id)

    assert [path.name for path in state_dir.iterdir()] == [f"{file_stem(session_id)}.jsonl"]
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_ids_that_look_alike_have_files_of_their_own() -> None:
    """What sanitising would make equal stays apart."""
    ids = ["a/b", "ab", "a b", "AB", "a\u0301", "á", "../ab"]

    assert len({file_stem(i) for i in ids}) == len(ids)


def test_files_and_folder_are_private(state_dir: Path) -> None:
    """Folder 0700, files 0600, whatever the umask."""
    old = os.umask(0)
    try:
        with open_log(state_dir, "s1") as log:
            log.write_snapshot({"n": 1})
    finally:
        os.umask(old)

    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in state_dir.iterdir()} == {0o600}
    assert len(list(state_dir.iterdir())) == 2


def test_a_folder_that_others_may_read_is_closed_to_them(state_dir: Path) -> None:
    """A folder made by hand or by acel-core is made private."""
    state_dir.mkdir(mode=0o755)
    state_dir.chmod(0o755)

    write(state_dir, {"n": 1})

    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700


def test_a_folder_that_others_may_write_is_a_fault(state_dir: Path) -> None:
    """What others could write, they may have written."""
    state_dir.mkdir()
    state_dir.chmod(0o777)

    with pytest.raises(HookFault, match="can be written by other users"):
        write(state_dir, {"n": 1})


def test_a_folder_that_is_a_link_is_a_fault(state_dir: Path, tmp_path: Path) -> None:
    """A project cannot send the state elsewhere."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    state_dir.symlink_to(target)

    with pytest.raises(HookFault, match="is a link"):
        write(state_dir, {"n": 1})
    assert list(target.iterdir()) == []


def test_no_part_of_a_relative_folder_may_be_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`.claude` of a project that someone else wrote may be a link as well."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".claude").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(HookFault, match=r"'\.claude' is a link"):
        write(Path(".claude/acel_state"), {"n": 1})
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_relative_folder_is_taken_from_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another working directory does not begin another history."""
    (tmp_path / "project" / "sub").mkdir(parents=True)
    for place in ("", "sub"):
        monkeypatch.chdir(tmp_path / "project" / place)
        with open_log(".claude/state", "s1", project_dir=str(tmp_path / "project")) as log:
            log.append({"n": len(log.read())})

    with open_log(tmp_path / "project" / ".claude" / "state", "s1") as log:
        assert [entry["n"] for entry in log.read()[1:]] == [1, 2]


@pytest.mark.parametrize("path", ["relative", "absolute"])
def test_no_part_of_a_folder_in_the_project_may_be_a_link(tmp_path: Path, path: str) -> None:
    """Also if the folder is named in full. The project itself may be reached through one."""
    (tmp_path / "real").mkdir()
    project = tmp_path / "project"
    project.symlink_to(tmp_path / "real")
    (tmp_path / "elsewhere").mkdir()
    (project / ".claude").symlink_to(tmp_path / "elsewhere")
    inside = ".claude/state" if path == "relative" else str(project / ".claude" / "state")

    with pytest.raises(HookFault, match="is a link"):
        StateFolder.open(inside, project_dir=str(project))
    StateFolder.open("state", project_dir=f"{project}/").close()


@pytest.mark.parametrize("ending", ["jsonl", "snap"])
def test_a_file_that_is_a_link_is_a_fault(state_dir: Path, tmp_path: Path, ending: str) -> None:
    """Neither the log nor the snapshot is read from or written to somewhere else."""
    write(state_dir, {"n": 1}, session_id="other")
    target = tmp_path / "target"
    target.write_text("{}")
    (state_dir / f"{file_stem('s1')}.{ending}").symlink_to(target)

    with pytest.raises(HookFault, match="cannot be opened"), open_log(state_dir, "s1") as log:
        log.read_snapshot()
    assert target.read_text() == "{}"


def test_a_file_with_a_second_name_is_a_fault(state_dir: Path, tmp_path: Path) -> None:
    """A hard link is a way in as well."""
    write(state_dir, {"n": 1})
    os.link(log_file(state_dir), tmp_path / "second")

    with pytest.raises(HookFault, match="plain file with one name"):
        read(state_dir)


def test_a_pipe_in_place_of_the_file_is_a_fault(state_dir: Path) -> None:
    """Opening something that is no file neither hangs nor passes."""
    state_dir.mkdir(mode=0o700)
    os.mkfifo(log_file(state_dir), 0o600)

    with pytest.raises(HookFault, match="plain file"):
        read(state_dir)


@pytest.mark.parametrize("place", ["/proc/nowhere/state", "/dev/null"])
def test_a_folder_that_cannot_be_made_is_a_fault(place: str) -> None:
    """The reason is in the message."""
    with pytest.raises(HookFault, match="cannot be used"):
        StateFolder.open(place)


def test_an_entry_that_is_no_json_leaves_the_file_as_it_was(state_dir: Path) -> None:
    """What cannot be stored is refused before anything is written."""
    write(state_dir, {"n": 1})
    before = log_file(state_dir).read_bytes()

    for bad in (float("nan"), object()):
        with pytest.raises(HookFault, match="cannot be stored"):
            write(state_dir, {"n": bad})

    assert log_file(state_dir).read_bytes() == before


def test_a_full_disk_leaves_no_torn_line(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line is cut off again, so that the next process can go on."""
    write(state_dir, {"n": 1})
    real_write = os.write

    def half(fd: int, data: bytes) -> int:
        return real_write(fd, data[: len(data) // 2])

    with open_log(state_dir, "s1") as log:
        monkeypatch.setattr(os, "write", half)
        with pytest.raises(HookFault, match="cannot be written"):
            log.append({"n": 2})
        monkeypatch.undo()
        log.append({"n": 3})

    assert read(state_dir) == [{"n": 1}, {"n": 3}]


def test_the_lock_lets_one_process_in_at_a_time(state_dir: Path) -> None:
    """Read, judge and append are one step: no two writers see the same history."""

    def append_next() -> None:
        with open_log(state_dir, "s1") as log:
            last = len(log.read())
            time.sleep(0.001)
            log.append({"n": last})

    threads = [threading.Thread(target=append_next) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [entry["n"] for entry in read(state_dir)] == list(range(1, 21))


def test_a_lock_that_stays_taken_is_a_fault(state_dir: Path) -> None:
    """A process that hangs does not make the others hang: they deny in time."""
    slept: list[float] = []
    with (
        open_log(state_dir, "s1"),
        pytest.raises(HookFault, match="stayed locked for 2 s"),
        open_log(state_dir, "s1", wait_seconds=2, sleep=slept.append),
    ):
        pass

    assert 2 <= sum(slept) < 2.1


def test_a_file_that_is_removed_meanwhile_is_a_fault(state_dir: Path) -> None:
    """A process that waited for the lock does not write into a file that is gone."""

    def remove(_: float) -> None:
        log_file(state_dir).unlink(missing_ok=True)
        holder.__exit__(None, None, None)

    holder = open_log(state_dir, "s1")
    holder.__enter__()

    with (
        pytest.raises(HookFault, match="removed by another program"),
        open_log(state_dir, "s1", sleep=remove),
    ):
        pass


def test_a_snapshot_is_replaced_whole(state_dir: Path) -> None:
    """The newest one is read, also after a process died while it wrote one."""
    with open_log(state_dir, "s1") as log:
        assert log.read_snapshot() is None
        log.write_snapshot({"n": 1})
        (state_dir / f"{log.stem}.snap.new").write_text("half")
        log.write_snapshot({"n": 2})

        assert log.read_snapshot() == {"n": 2}


@pytest.mark.parametrize("content", ["", "{", "[1]", "\udcff"])
def test_a_snapshot_that_cannot_be_read_is_a_fault(state_dir: Path, content: str) -> None:
    """And the remedy is in the error."""
    with open_log(state_dir, "s1") as log:
        path = state_dir / f"{log.stem}.snap"
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        path.chmod(0o600)

        with pytest.raises(HookFault, match="is corrupt") as caught:
            log.read_snapshot()

    assert caught.value.remedy == "remove it: it is built again from the log"


def test_a_snapshot_that_cannot_be_stored_is_a_fault(state_dir: Path) -> None:
    """The one before it stays."""
    with open_log(state_dir, "s1") as log:
        log.write_snapshot({"n": 1})
        with pytest.raises(HookFault, match="cannot be written"):
            log.write_snapshot({"n": object()})

        assert log.read_snapshot() == {"n": 1}


def test_a_log_of_a_later_version_is_a_fault(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older program does not guess what a newer one wrote."""
    monkeypatch.setattr("openbox_agentrt.doors.claude_code.log._VERSION", 3)
    write(state_dir, {"n": 1})
    monkeypatch.undo()

    with pytest.raises(HookFault, match="unknown version 3"):
        read(state_dir)


def test_an_entry_is_one_line_of_json(state_dir: Path) -> None:
    """The file can be read with any JSON Lines tool."""
    write(state_dir, {"event": "pre", "args": {"a": [1, "\n"]}})

    rows = [json.loads(line) for line in log_file(state_dir).read_text().splitlines()]

    assert [row["event"] for row in rows] == ["session", "pre"]


def test_a_fault_survives_pickling() -> None:
    """With its remedy."""
    copied = pickle.loads(pickle.dumps(HookFault("locked", remedy="wait")))

    assert (str(copied), copied.remedy) == ("locked", "wait")


def test_another_users_folder_is_a_fault(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns it can change what is in it."""
    write(state_dir, {"n": 1})
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(HookFault, match="belongs to another user"):
        read(state_dir)
