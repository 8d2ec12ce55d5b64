"""Pages, pictures and JSON files beside runs: whole or not written, never through links, and a full disk has a name."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from faults import Fault, faulty

import twoclocks as tc
from twoclocks.bench import suite
from twoclocks.cli import main
from twoclocks.core.errors import UserError
from twoclocks.monitor.page import write_page
from twoclocks.monitor.state import MonitorState
from twoclocks.report.page import write_report
from twoclocks.runs import Run
from twoclocks.store.files import PARTIAL, DiskError, write_json

pytestmark = pytest.mark.usefixtures("empty_figures")
Writer = Callable[[Path], None]
OLD = b"the old file"


@pytest.fixture(scope="module")
def monitor() -> tc.Monitor:
    found = tc.Monitor([[0, 1, 1], [1, 0, 1]])
    found.observe(1, [[0, 1, 1]])
    return found


@pytest.fixture
def writers(tiny_gpt: Run, monitor: tc.Monitor) -> dict[str, Writer]:
    """By the name of the file: a function that writes it, perhaps with others, into a folder."""
    state = MonitorState.from_json(monitor.state())
    growth = {"device": "cpu", "quantity": "nearest", "against": "n", "n": 1, "length": 1, "samples": 1, "seconds": 1.0}
    return {
        "page.html": lambda folder: write_report([tiny_gpt], folder / "page.html") and None,
        "page.png": lambda folder: write_report([tiny_gpt], folder / "page.html") and None,
        "monitor.html": lambda folder: monitor.report(folder / "monitor.html"),
        "state.html": lambda folder: write_page(state, folder / "state.html"),
        "copies.png": lambda folder: monitor.gallery(folder / "copies.png") and None,
        "state.json": lambda folder: monitor.save(folder / "state.json"),
        "bench.json": lambda folder: suite.write({"growth": {"rows": [growth]}}, folder) and None,
        "growth.png": lambda folder: suite.write({"growth": {"rows": [growth]}}, folder) and None,
        "result.json": lambda folder: write_json(folder / "result.json", {"a": 1}),
    }


def left_over(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(PARTIAL)]


def test_links_are_replaced_or_refused_and_never_written_through(writers: dict[str, Writer], tmp_path: Path) -> None:
    for name, write in writers.items():
        for kind in ("symbolic", "dangling", "hard"):
            folder, victim = tmp_path / f"{name}-{kind}", tmp_path / f"{name}-{kind}-victim"
            folder.mkdir()
            if kind != "dangling":
                victim.write_bytes(OLD)
            written = folder / name
            written.hardlink_to(victim) if kind == "hard" else written.symlink_to(victim)
            if name.startswith("page.") and kind != "hard":
                with pytest.raises(UserError, match="not a regular file"):
                    write(folder)
            else:
                write(folder)
                assert written.is_file() and not written.is_symlink() and written.read_bytes() != OLD, (name, kind)
            assert victim.exists() == (kind != "dangling") and (kind == "dangling" or victim.read_bytes() == OLD)
            assert not left_over(folder)


def test_a_link_under_the_name_of_the_temporary_file_is_refused(
    writers: dict[str, Writer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda size=0: "0" * 8)
    for name, write in writers.items():
        folder, victim = tmp_path / name, tmp_path / f"{name}-victim"
        folder.mkdir()
        victim.write_bytes(OLD)
        (folder / f".{name}.00000000{PARTIAL}").symlink_to(victim)
        with pytest.raises(DiskError, match=name):
            write(folder)
        assert victim.read_bytes() == OLD and not (folder / name).exists()


def test_a_kill_at_any_call_leaves_the_old_or_the_new_file(writers: dict[str, Writer], tmp_path: Path) -> None:
    for name in ("page.html", "monitor.html", "state.json", "growth.png"):  # with the files beside them
        write = writers[name]
        whole = tmp_path / f"{name}-whole"
        whole.mkdir()
        with faulty() as counted:
            write(whole)
        new = {path.name: path.read_bytes() for path in whole.iterdir()}
        seen = set()
        for at in range(1, counted.calls + 1):
            for kind in ("kill", "torn") if counted.names[at - 1] == "write" else ("kill",):
                folder = tmp_path / f"{name}-{at}-{kind}"
                folder.mkdir()
                for file in new:
                    (folder / file).write_bytes(OLD)
                if (process := os.fork()) == 0:
                    with faulty(Fault(at, kind)):
                        write(folder)
                    os._exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -9
                found = {file: (folder / file).read_bytes() for file in new}
                assert all(found[file] in (OLD, new[file]) for file in new), (name, at, kind)
                seen.add(tuple(found[file] == OLD for file in sorted(new)))
        assert len(seen) == 1 + len(new)  # none, then one more after each rename


def test_disk_errors_name_the_file_and_leave_the_old_one(writers: dict[str, Writer], tmp_path: Path) -> None:
    for name, write in writers.items():
        (tmp_path / name).write_bytes(OLD)
        for kind in ("ENOSPC", "EROFS"):
            with faulty(Fault(1, kind)), pytest.raises(DiskError, match=r"\.(html|png|json): ") as caught:
                write(tmp_path)
            assert caught.value.fault and (tmp_path / name).read_bytes() == OLD and not left_over(tmp_path)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with 8 KiB left; else no call is allowed to write more than that."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_gives_exit_code_5_and_the_name(
    full_disk: Path, tiny_gpt: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, name in ((["report"], "page.html"), (["dissect", "--views", "raster"], "other.html")):
        assert main([command[0], str(tiny_gpt.path), "--out", str(full_disk / name), *command[1:]]) == 5
        assert f"{full_disk / name}: No space left on device" in capsys.readouterr().err
    large = tc.Monitor(np.eye(3))
    for step in range(200):
        large.observe(step, np.eye(3))
    with pytest.raises(DiskError, match=r"state\.json") as caught:
        large.save(full_disk / "state.json")
    assert caught.value.error.errno == errno.ENOSPC
    assert list(full_disk.iterdir()) == []


def test_only_regular_files_are_taken_for_pages(
    tiny_gpt: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A FIFO would never end, and a link may lead anywhere."""
    page = write_report([tiny_gpt], tmp_path / "real.html")
    os.mkfifo(tmp_path / "fifo.html")
    (tmp_path / "link.html").symlink_to(page)
    (tmp_path / "zero.html").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "new.png")
    for name in ("fifo.html", "link.html", "zero.html", "new.html"):
        assert main(["report", str(tiny_gpt.path), "--out", str(tmp_path / name)]) == 2
        assert "is not a regular file" in capsys.readouterr().err, name
    assert main(["report", str(tiny_gpt.path), "--out", str(page)]) == 0
    with pytest.raises(UserError, match="regular file"):
        write_report([tiny_gpt], tmp_path / "fifo.html")
