"""Every kind of damage has its line; what a crash leaves is told from it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from twoclocks.core.errors import UserError
from twoclocks.runs import Run, load_run, run
from twoclocks.store import verify_tree
from twoclocks.store.checksums import decode_document, encode_document
from twoclocks.store.files import write_atomic

LAST = "checkpoints/step-000000060"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 2
    path.write_bytes(data)


def shorten(path: Path, lines: int = 1) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


def replace_by_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def reseal(path: Path, **change: object) -> None:
    """A document that is whole, but says something else."""
    path.write_bytes(encode_document({**decode_document(path.read_bytes()), **change}))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "manifest flipped": (lambda run: flip(run / "manifest.json"), "manifest.json: is damaged"),
    "manifest gone": (lambda run: (run / "manifest.json").unlink(), "manifest.json: is missing"),
    "status flipped": (lambda run: flip(run / "status.json"), "status.json: is damaged"),
    "status gone": (lambda run: (run / "status.json").unlink(), "status.json: is missing"),
    "row flipped": (lambda run: flip(run / "metrics.jsonl"), "metrics.jsonl: line 3 is damaged"),
    "row gone": (lambda run: shorten(run / "metrics.jsonl"), "metrics.jsonl: has 4 intact rows, the run ended with 5"),
    "rows gone": (lambda run: (run / "metrics.jsonl").unlink(), f"lacks rows that the checkpoint of step {60} counts"),
    "timing flipped": (lambda run: flip(run / "timings.jsonl"), "timings.jsonl: line 3 is damaged"),
    "timing gone": (lambda run: shorten(run / "timings.jsonl"), "timings.jsonl: has 4 intact rows"),
    "timings gone": (lambda run: (run / "timings.jsonl").unlink(), "timings.jsonl: lacks step 0"),
    "tensors flipped": (lambda run: flip(run / f"{LAST}.safetensors"), f"{LAST}.safetensors: is damaged"),
    "tensors gone": (lambda run: (run / f"{LAST}.safetensors").unlink(), f"{LAST}.safetensors: is missing"),
    "description flipped": (lambda run: flip(run / f"{LAST}.json"), f"{LAST}.json: is damaged"),
    "description gone": (lambda run: (run / f"{LAST}.json").unlink(), "checkpoints: are of steps [0], the run ended"),
    "description of another step": (lambda run: reseal(run / f"{LAST}.json", step=59), "is damaged"),
    "sample flipped": (
        lambda run: flip(run / "samples/step-000000020.safetensors"),
        "step-000000020.safetensors: is da",
    ),
    "sample gone": (
        lambda run: (run / "samples/step-000000020.safetensors").unlink(),
        "000020.safetensors: is missing",
    ),
    "folder gone": (lambda run: shutil.rmtree(run / "samples"), "samples: is missing"),
    "link": (lambda run: replace_by_link(run / "timings.jsonl"), "timings.jsonl: is a symbolic link"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_has_its_line(kind: str, tmp_path: Path, tiny_gpt: Run) -> None:
    make, line = DAMAGE[kind]
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    assert verify_tree(tmp_path)[0].intact
    make(tmp_path / "run")
    (found,) = verify_tree(tmp_path)
    assert any(line in problem for problem in found.damage), found.damage


def test_leftovers_are_harmless_and_cleared_by_the_next_start(tmp_path: Path, tiny_gpt: Run) -> None:
    path = tmp_path / "run"
    shutil.copytree(tiny_gpt.path, path)
    (path / "status.json").write_bytes(encode_document({"status": "running"}))
    (path / "checkpoints" / ".step-000000060.json.ab.partial").write_text("half")
    (path / "checkpoints" / "step-000000061.safetensors").write_text("never committed")
    (path / "lock").write_text("{}")
    (path / "metrics.jsonl").write_bytes((path / "metrics.jsonl").read_bytes() + b'{"step"')
    (path / "notes.txt").write_text("mine")
    (found,) = verify_tree(tmp_path)
    assert found.intact and found.status == "unfinished" and len(found.harmless) == 5, found
    done = run(tiny_gpt.settings, path)
    assert done.clocks() == tiny_gpt.clocks() and (path / "notes.txt").exists()
    assert not list(path.rglob("*.partial"))


def test_rows_of_another_run_do_not_pass(tmp_path: Path, tiny_gpt: Run, tiny_dit: Run) -> None:
    """The first link comes from the settings: not even whole files of another run fit."""
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    shutil.copy(tiny_dit.path / "metrics.jsonl", tmp_path / "run" / "metrics.jsonl")
    shutil.copy(tiny_dit.path / "status.json", tmp_path / "run" / "status.json")
    assert "line 1 is damaged" in verify_tree(tmp_path)[0].damage[0]
    with pytest.raises(UserError, match="line 1 is damaged"):
        load_run(tmp_path / "run").clocks()


def test_a_folder_that_lost_its_manifest_or_was_never_ours_is_not_taken(tmp_path: Path, tiny_gpt: Run) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    with pytest.raises(UserError, match="not an empty folder"):
        run(tiny_gpt.settings, tmp_path / "run")
    assert before == {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}


@pytest.mark.parametrize("lines", [1, 4])
def test_a_finished_run_that_lost_rows_is_not_finished(
    tmp_path: Path, tiny_gpt: Run, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    shorten(tmp_path / "run" / "metrics.jsonl", lines)
    with pytest.raises(UserError, match=f"has {5 - lines} rows, the run ended with 5; run again"):
        load_run(tmp_path / "run").clocks()
    assert run(tiny_gpt.settings, tmp_path / "run").clocks() == tiny_gpt.clocks()
    assert "computed again" in caplog.text and verify_tree(tmp_path)[0].intact


def test_older_formats_are_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 1, "settings": {}}')
    with pytest.raises(UserError, match="has format 1, this version reads 2"):
        load_run(tmp_path)


def test_links_above_a_run_are_fine(tmp_path: Path, tiny_gpt: Run) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "big")
    write_atomic(tmp_path / "runs" / "file", b"x")
    assert run(tiny_gpt.settings, tmp_path / "runs" / "a").clocks() == tiny_gpt.clocks()
