"""The memory of a run is estimated before anything is built, and the estimate is no larger than what is needed."""

from __future__ import annotations

import math
import resource
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from twoclocks.core import memory
from twoclocks.core.errors import SettingError
from twoclocks.core.memory import memory_limit
from twoclocks.models.base import MODELS, parameter_count
from twoclocks.runs import load_settings, run
from twoclocks.runs.memory import check_memory, memory_needs

TOO_LARGE: dict[str, tuple[str, dict[str, Any], str]] = {  # preset, change, field of the error
    "depth": ("demo", {"model.depth": 1e9}, "model.depth"),
    "width": ("demo", {"model.width": 1e18}, "model.width"),
    "length": ("demo", {"rule.length": 1e12}, "rule.length"),
    "heads": ("demo", {"model.heads": 10**30}, "model.heads"),
    "width that can be named": ("demo", {"model.width": 400_000}, "model"),
    "a GPT": ("demo-gpt", {"model.width": 2**20, "model.depth": 2}, "model"),
    "batch": ("demo", {"training.batch": 10**6, "model.width": 4096}, "training.batch"),
    "samples": ("demo", {"evaluation.samples": 10**9}, "evaluation.samples"),
    "loss rows": (
        "demo",
        {"evaluation.loss_rows": 10**7, "rule": {"length": 65536, "group": 2}},
        "evaluation.loss_rows",
    ),
    "rows": ("demo", {"rule": {"length": 4096, "group": 2}, "data.n": 10**9}, "data.n"),
    "part": ("demo", {"rule": {"length": 4096, "group": 2}, "data.part": 10**12}, "data.n"),
    "grammar": (
        "demo-gpt",
        {"rule": {"name": "rhm", "depth": 2, "branching": 2, "vocabulary": 10**6, "synonyms": 10**6}},
        "rule",
    ),
    "channels": (
        "demo",
        {"rule": {"name": "free", "length": 4, "alphabet": 10**6}, "encoding": "one_hot"},
        "encoding.name",
    ),
    "frequencies": ("demo", {"model.frequencies": 10**12}, "model.frequencies"),
    "levels": ("p2-rhm-small", {"model.depth": 10**9}, "model.depth"),
    "filter": ("p2-rhm-small", {"model.branching": 10**9}, "model.branching"),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_cannot_fit_is_refused_before_it_is_built(case: str, tmp_path: Path) -> None:
    preset, change, field = TOO_LARGE[case]
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(SettingError) as caught:
        run(load_settings(preset, change), tmp_path / "run")
    assert caught.value.field == field and str(caught.value).isprintable(), caught.value
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes on Linux
    assert time.process_time() - begin < 10 and not (tmp_path / "run").exists()


CASES: list[tuple[str, dict[str, Any], tuple[int, ...], int]] = [
    ("dit", {"width": 64, "depth": 3, "heads": 2}, (1, 6, 6), 2),
    ("gpt", {"width": 64, "depth": 3, "heads": 2}, (36,), 2),
    ("gpt_full", {"width": 64, "depth": 3, "heads": 2}, (36,), 2),
    ("dit", {"width": 64, "depth": 3, "heads": 2, "registers": 30, "dropout": 0.1}, (1, 6, 6), 2),
    ("gpt", {"width": 64, "depth": 3, "heads": 2, "registers": 30, "dropout": 0.1}, (36,), 2),
    ("mlp", {"width": 512}, (64, 1, 1), 4),
    ("unet1d", {"width": 64}, (64,), 16),
    ("unet2d", {"width": 32, "multipliers": [1, 2], "attention": [4], "blocks": 2}, (3, 8, 8), 256),
]


@pytest.mark.parametrize(("name", "change", "shape", "symbols"), CASES)
def test_activations_are_those_that_a_backward_pass_keeps(
    name: str, change: dict[str, Any], shape: tuple[int, ...], symbols: int
) -> None:
    settings = MODELS.create(name, **change)
    network = settings.build(shape, symbols)
    own = {value.untyped_storage().data_ptr() for value in network.state_dict().values()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    rows = 4
    tokens = torch.randint(0, symbols, (rows, *shape))
    inputs = {
        "denoise images": (torch.randn(rows, *shape), torch.randn(rows)),
        "predict the next token": (tokens,),
        "restore tokens": (tokens, torch.rand(rows)),
    }[settings.task]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(*inputs)
    real = sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / 4 / rows
    assert 0.3 * real <= settings.activations(shape, symbols) <= real


def test_weights_count_with_gradients_and_moments() -> None:
    settings = load_settings("demo")
    assert settings.encoding is not None
    network = settings.model.build(settings.encoding.shape(settings.rule), settings.rule.symbols)
    by_field = {need.field: need.size for need in memory_needs(settings)}
    assert by_field["model"] == pytest.approx(16 * parameter_count(network), rel=0.01)
    sgd = {need.field: need.size for need in memory_needs(load_settings("demo", {"training.optimizer": "sgd"}))}
    assert sgd["model"] * 2 == by_field["model"]


def test_every_preset_fits_into_a_machine_for_it(files_of_the_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from twoclocks.runs.presets import preset_names

    monkeypatch.chdir(files_of_the_user)
    monkeypatch.setattr("twoclocks.runs.memory.memory_limit", lambda: 32 * 10**9)
    for name in preset_names():
        check_memory(load_settings(name, {"training.device": "cpu"}))


def test_the_limit_is_the_smallest_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory_limit()
    assert whole is not None and whole > 10**8
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    assert memory_limit() == min(memory._machine(), default=math.inf)
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert memory_limit() == min(memory._machine(), default=math.inf)
    (tmp_path / "memory.max").write_text("123456789\n", encoding="ascii")
    assert memory_limit() == 123456789
    with pytest.raises(SettingError, match=r"0\.1 GB"):
        monkeypatch.setattr(memory, "CGROUPS", tmp_path)
        (tmp_path / "memory.max").write_text("100000000\n", encoding="ascii")
        check_memory(load_settings("p1-dit-b", {"training.device": "cpu"}))


def test_an_address_space_limit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (10**8, resource.RLIM_INFINITY))
    assert memory_limit() == 10**8
