"""Files that are none (folder, pipe, socket, link), other documents with right checksums: named, never waited for."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from twoclocks.cli import main
from twoclocks.core.errors import UserError
from twoclocks.core.exit_codes import EXIT_DAMAGED
from twoclocks.runs import Run, load_run, run
from twoclocks.store import files, verify_tree
from twoclocks.store.checksums import encode_document, encode_line
from twoclocks.store.files import DiskError
from twoclocks.store.lock import WriterLock

NAMES = ["manifest.json", "status.json", "metrics.jsonl", "timings.jsonl", "lock"]
NAMES += ["checkpoints/step-000000060.json", "checkpoints/step-000000060.safetensors"]
NAMES += ["samples/step-000000020.safetensors"]


def bind(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(before)


def link_elsewhere(path: Path) -> None:
    (path.parent / "elsewhere").write_text("secret")
    path.symlink_to("elsewhere")


KINDS: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": bind,
    "link": link_elsewhere,
}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_a_regular_file_is_read_or_waited_for(kind: str, tmp_path: Path, tiny_gpt: Run) -> None:
    """All commands that read, on one run per file; the intact run between them is still read."""
    shutil.copytree(tiny_gpt.path, tmp_path / "intact")
    for number, name in enumerate(NAMES):
        path = tmp_path / f"{number}" / name
        shutil.copytree(tiny_gpt.path, tmp_path / f"{number}")
        path.unlink(missing_ok=True)
        KINDS[kind](path)
    found = {one.path.name: one for one in verify_tree(tmp_path)}
    assert found["intact"].intact and len(found) == len(NAMES) + 1
    for number, name in enumerate(NAMES):
        damage = found[f"{number}"].damage
        # A folder is no lock; the next writer says so. All else is damage.
        assert damage or (name, kind) == ("lock", "folder"), (name, damage)
        assert (tmp_path / f"{number}" / name).name in " ".join(damage) or not damage
    assert main(["clocks", str(tmp_path)]) == 0
    assert main(["verify", str(tmp_path)]) == EXIT_DAMAGED
    for number, name in enumerate(NAMES):
        if name in ("manifest.json", "metrics.jsonl"):  # without the others a run can continue
            with pytest.raises(UserError):
                run(tiny_gpt.settings, tmp_path / f"{number}")
        else:
            with contextlib.suppress(UserError):
                run(tiny_gpt.settings, tmp_path / f"{number}")
    for secret in tmp_path.rglob("elsewhere"):
        assert secret.read_text() == "secret"


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl"])
def test_a_file_with_a_second_name_is_not_written(name: str, tmp_path: Path, tiny_gpt: Run) -> None:
    """Appending to it would change the other name's content too."""
    victim = tmp_path / "victim"
    victim.write_text("{}\n")
    (tmp_path / "run").mkdir()
    os.link(victim, tmp_path / "run" / name)
    with pytest.raises(DiskError, match="has a second name"):
        if name == "lock":
            WriterLock(tmp_path / "run").__enter__()
        else:
            files.append(tmp_path / "run" / name, b"x\n", 3)
    assert victim.read_text() == "{}\n"


def test_reading_a_run_that_was_copied_with_hard_links_is_fine(tmp_path: Path, tiny_gpt: Run) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "copy", copy_function=os.link)
    try:
        assert load_run(tmp_path / "copy").clocks() == tiny_gpt.clocks()
        assert verify_tree(tmp_path / "copy")[0].intact
    finally:
        shutil.rmtree(tmp_path / "copy")


OTHERS = {
    "empty": {},
    "a status": {"status": "finished", "updated": "", "rows": 5},
    "numbers for text": {"format": 3, "created": 1, "origin": 2, "settings": 3, "metrics": 4, "status": 5},
    "no columns": {"format": 3, "created": "", "origin": "0" * 64, "settings": {}, "metrics": []},
    "a list for a section": {
        **{"format": 3, "created": "", "origin": "0" * 64, "metrics": []},
        "settings": {"name": "x", "rule": [], "data": [], "model": 5},
    },
    "columns that are numbers": {"format": 3, "created": "", "origin": "0" * 64, "settings": {}, "metrics": [5]},
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", ["manifest.json", "status.json", "metrics.jsonl", "timings.jsonl"])
def test_another_document_with_a_right_checksum_is_named(
    name: str, other: str, tmp_path: Path, tiny_gpt: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs" / "other"
    shutil.copytree(tiny_gpt.path, path)
    origin = json.loads((path / "manifest.json").read_bytes())["origin"]
    content = encode_document(OTHERS[other]) if name.endswith(".json") else encode_line(OTHERS[other], origin)[0]
    (path / name).write_bytes(content)
    assert not verify_tree(tmp_path)[0].intact
    for command in ("clocks", "verify", "fit", "forecast", "report"):
        code = main([command, str(tmp_path / "runs")])
        said = capsys.readouterr().err
        assert code in (0, 2, EXIT_DAMAGED) and "Traceback" not in said


def test_a_document_that_is_too_large_is_refused(tmp_path: Path, tiny_gpt: Run) -> None:
    """A sparse file of a terabyte must not be read into memory."""
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    for name in ("manifest.json", "status.json", "checkpoints/step-000000060.json"):
        os.truncate(tmp_path / "run" / name, 1 << 40)
    damage = " ".join(verify_tree(tmp_path)[0].damage)
    assert damage.count("is too large") >= 2


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become a user who may not read a folder")
def test_a_folder_that_may_not_be_read_does_not_hide_the_others(tmp_path: Path, tiny_gpt: Run) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "b")
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0)
    for parent in [tmp_path, *tmp_path.parents][:-2]:
        parent.chmod(0o755)
    child = os.fork()
    if child == 0:
        try:
            os.seteuid(65534)
            found = {one.path.name: one.intact for one in verify_tree(tmp_path)}
            os._exit(0 if found == {"a": False, "b": True} else 1)
        finally:  # an error must not lead a second process through the rest of the tests
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def forge(path: Path, **changes: object) -> None:
    """Change fields of a document and give it a right checksum."""
    value = json.loads(path.read_bytes())
    value.pop("sha256")
    path.write_bytes(encode_document({**value, **changes}))


def test_a_manifest_that_was_changed_after_the_run_is_noticed(tmp_path: Path, tiny_gpt: Run) -> None:
    """Its settings decide how clocks are read, and its origin which rows belong to it."""
    shutil.copytree(tiny_gpt.path, tmp_path / "derived")
    forge(tmp_path / "derived" / "manifest.json", derived={**tiny_gpt.derived, "copy_chance": 0.5})
    with pytest.raises(UserError, match="is another one than that with which the run ended"):
        load_run(tmp_path / "derived").clocks()
    shutil.copytree(tiny_gpt.path, tmp_path / "origin")
    forge(tmp_path / "origin" / "manifest.json", origin="1" * 64)
    with pytest.raises(UserError, match="its field 'origin' is not that of its settings"):
        load_run(tmp_path / "origin")
    assert not any(found.intact for found in verify_tree(tmp_path))


@pytest.mark.parametrize("value", [[1], {"a": 1}, "text"])
def test_a_row_holds_numbers_alone(value: object, tmp_path: Path, tiny_gpt: Run) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    origin = json.loads((tmp_path / "run" / "manifest.json").read_bytes())["origin"]
    for row in ({"step": 0, "loss": value}, {"step": 10**30, "loss": 1.0}, {"step": -1, "loss": 1.0}):
        (tmp_path / "run" / "metrics.jsonl").write_bytes(encode_line(row, origin)[0])
        with pytest.raises(UserError, match="line 1 is damaged"):
            load_run(tmp_path / "run").rows()


def test_checkpoints_that_a_crash_left_behind_are_removed(tmp_path: Path, tiny_gpt: Run) -> None:
    """Tensors without a description, and a checkpoint that was to be pruned, are gone when the run is finished."""
    path = tmp_path / "run"
    shutil.copytree(tiny_gpt.path, path)
    last = path / "checkpoints" / "step-000000060.safetensors"
    for name in ("step-000000007.safetensors", "step-000000070.safetensors"):
        shutil.copy(last, last.with_name(name))
    (path / "status.json").write_bytes(encode_document({"status": "running"}))
    run(tiny_gpt.settings, path)
    assert sorted(file.name for file in last.parent.iterdir()) == sorted(
        file.name for file in (tiny_gpt.path / "checkpoints").iterdir()
    )
    assert verify_tree(path)[0].intact and not verify_tree(path)[0].harmless
