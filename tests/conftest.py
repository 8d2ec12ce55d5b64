"""One tiny finished run of each model, shared by all tests that read run directories."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser_fixtures import axe, browser, tab
from matplotlib.figure import Figure
from warm import start_warm_server

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU, one program after the other; before Triton is loaded
os.environ.setdefault("TWOCLOCKS_CACHE", "0")  # also in subprocesses: tests neither read nor fill the user's cache

from small_runs import SMALL_MODEL, TINY

from twoclocks.core.packed_images import make_packed, write_packed
from twoclocks.core.packed_text import LETTERS, Vocabulary, make_packed_text, write_packed_text
from twoclocks.runs import Run, load_settings, run
from twoclocks.sweeps.local import LocalPool

assert axe and browser and tab  # fixtures of tests/browser; a second conftest.py of that name would hide this one


@pytest.fixture(scope="session")
def tiny_dit(tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = load_settings("demo", {**TINY, "model": SMALL_MODEL, "objective": {"sampler_steps": 6}})
    return run(settings, tmp_path_factory.mktemp("runs") / "dit")


@pytest.fixture(scope="session")
def tiny_gpt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(load_settings("demo-gpt", {**TINY, "model": SMALL_MODEL}), tmp_path_factory.mktemp("runs") / "gpt")


@pytest.fixture(scope="session")
def tiny_averaged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``tiny_gpt`` with averaged weights."""
    settings = load_settings(
        "demo-gpt", {**TINY, "model": SMALL_MODEL, "training": {**TINY["training"], "average": 0.9}}
    )
    return run(settings, tmp_path_factory.mktemp("runs") / "averaged")


@pytest.fixture(scope="session")
def tiny_unet(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A network with rates of its own at every layer."""
    shared = {section: values for section, values in TINY.items() if section != "rule"}
    change = {"data": {"n": 64}, "model": {"width": 16}, "objective": {"sampler_levels": 4}}
    settings = load_settings("p2-rhm-small", {**shared, **change})
    return run(settings, tmp_path_factory.mktemp("runs") / "unet")


@pytest.fixture(scope="session")
def tiny_images(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A U-Net with dropout and predicted variances, trained by two threads."""
    model = {"name": "unet2d", "width": 8, "multipliers": [1, 2], "blocks": 1, "attention": [2], "heads": 2}
    objective = {"name": "ddpm", "noise_levels": 100, "sampler": "ancestral", "sampler_levels": 4}
    change = {"model": {**model, "dropout": 0.2, "variance": True}, "objective": {**objective, "variance": "learned"}}
    settings = load_settings("demo", {**TINY, **change, "training": {**TINY["training"], "threads": 2}})
    return run(settings, tmp_path_factory.mktemp("runs") / "images")


@pytest.fixture(scope="session")
def files_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the user that presets and the documentation name: random images, a random text."""
    folder = tmp_path_factory.mktemp("files of the user")
    origin: dict[str, Any] = {"source": "random", "options": {}, "skipped": [], "duplicates": []}
    for number, name in enumerate(("cifar10", "celeba")):
        pixels = np.random.default_rng(number).integers(0, 256, (3000, 3, 32, 32), dtype=np.uint8)
        write_packed(make_packed(pixels, tuple(map(str, range(3000))), origin), folder / f"{name}.safetensors")
    for name, length in (("novel", 40_000), ("text8", 600_000)):
        letters = np.random.default_rng(length).integers(0, 27, length, dtype=np.uint8)
        text = make_packed_text(letters, np.arange(0, length + 1, 2000), Vocabulary("letters", LETTERS, 27), origin)
        write_packed_text(text, folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="session")
def twin_digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Two small U-Nets on disjoint sets of real digits, from the same initial weights."""
    model = {"width": 8, "blocks": 1, "heads": 2, "attention": [4]}
    training = {"steps": 60, "batch": 8, "threads": 1}
    evaluation = {"evaluations": 5, "first": 5, "samples": 128, "loss_rows": 64}
    change = {
        "data.n": 16,
        "model": model,
        "training": training,
        "evaluation": evaluation,
        "objective.sampler_levels": 6,
    }
    folder = tmp_path_factory.mktemp("twin digits")
    made = [run(load_settings("images-small", {**change, "data.part": part}), folder / str(part)) for part in (0, 1)]
    return made[0], made[1]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run commands in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def unspoken() -> Iterator[None]:
    """The command line makes the package speak on stderr; every test begins with the package silent."""
    log = logging.getLogger("twoclocks")
    before = log.level, log.handlers, log.propagate
    yield
    log.handlers, log.propagate = before[1:]
    log.setLevel(before[0])


@pytest.fixture
def empty_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages with empty figures, which take most of a page's time: for tests of what else a command does."""

    def save(self: Figure, stream: Any, *, format: str, **options: Any) -> None:
        stream.write("<svg></svg>" if format == "svg" else b"\x89PNG\r\n\x1a\n")

    monkeypatch.setattr(Figure, "savefig", save)


@pytest.fixture(autouse=True)
def warm_fork_servers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork servers of sweeps are forked from a process that has imported torch, which takes seconds."""
    if request.node.get_closest_marker("fresh") is None:
        monkeypatch.setattr(LocalPool, "start_server", start_warm_server)
