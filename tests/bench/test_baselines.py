"""The baselines and the bound are what their names say, and the factors between the loops multiply to the whole."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from twoclocks import cli
from twoclocks.bench import compiled, conditions, factors, products, reference, steps, suite
from twoclocks.bench.workloads import WORKLOADS, Row, Workload
from twoclocks.core.errors import SettingError
from twoclocks.kernels import cpu_functions
from twoclocks.runs import load_settings

TINY = {"model": {"width": 16, "depth": 1, "heads": 1}, "evaluation.samples": 256}
GPT = Workload("GPT", "demo-gpt", {**TINY, "training.threads": 2})


@pytest.fixture(autouse=True)
def own_settings() -> Iterator[None]:
    """Threads and precision are settings of the process; other tests have their own."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


def fixed_rates(rates: Mapping[str, float]) -> Any:
    """In place of measuring: the given speeds, 1 for all other loops; what was to be measured must work."""

    def side_by_side(works: Mapping[str, Any], device: str, seconds: float) -> dict[str, float]:
        for work in works.values():
            work()
        return {name: rates.get(name, 1.0) for name in works}

    return side_by_side


def test_a_row_compares_with_the_best_loop_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda loss, **more: loss)
    both = "all cores inside each product", "batch divided among 2 threads"
    rates = {"ours": 60.0, "plain": 20.0, "plain, 1 thread": 30.0, "compiled": 45.0}
    rates |= {"our step, 1 thread": 40.0, "our step, 1 thread, fused": 50.0, "our step, 1 thread, recorded": 55.0}
    for first, second in ((90.0, 120.0), (120.0, 90.0)):
        ways = {both[0]: first, both[1]: second}
        monkeypatch.setattr(steps, "side_by_side", fixed_rates({**rates, **ways}))
        row = steps.step_row(GPT, "cpu", 1.0, compiled=True)
        found = row["steps_per_second"]
        assert list(found) == ["ours", "plain", "plain, 1 thread", "compiled", "products alone"]
        assert (row["best_plain"], row["over_best_plain"]) == ("plain, 1 thread", 2.0)
        assert (row["best_compiled"], row["over_best_compiled"]) == ("compiled", 60 / 45)
        assert row["compiled"]["compiled"]["seconds_to_first_step"] > 0
        assert found["products alone"] == 120 and row["of_products"] == 0.5
        assert ways.items() <= row["products_alone"].items()
        assert [stage.get("factor") for stage in row["factors"]] == [None, 1.5, 40 / 30, 50 / 40, 55 / 50, 60 / 55]
        assert math.prod(stage["factor"] for stage in row["factors"][1:]) == pytest.approx(60 / 20)
    monkeypatch.setattr(torch, "compile", None)
    row = steps.step_row(GPT, "cpu", 1.0)  # nothing is compiled that was not asked for
    assert row["compiled"] == {} and "over_best_compiled" not in row and "compiled" not in row["steps_per_second"]


@pytest.mark.parametrize("device", factors.STAGES)
def test_stages_switch_one_thing_at_a_time_from_the_textbook_to_ours(device: str) -> None:
    stages = factors.STAGES[device]
    settings = [dict(stage.training) for stage in stages if stage.training is not None]
    for workload in WORKLOADS[device]:
        ours = load_settings(workload.preset, workload.change).training
        names = {key for one in settings for key in one}
        chain = [{**vars(ours), **one} for one in [*settings, {}]]
        for before, after in itertools.pairwise(chain):
            assert sum(before[key] != after[key] for key in names) == 1
    assert stages[0].loop == "plain" and stages[-1].loop == "ours" and stages[0].training is None
    textbook = {"precision": "float32", "capture": False, "kernels": "plain"}
    assert device == "cpu" or settings[0] == textbook
    assert all(stage.change for stage in stages[1:])


def test_loops_between_have_the_settings_of_their_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Asked:
        def experiment(self, device: str, **training: Any) -> Any:
            asked.append({"device": device, **training})
            return training

    monkeypatch.setattr(factors, "our_step", lambda experiment: experiment)
    loops: Mapping[str, Any] = factors.stage_loops(Asked(), "cuda")  # type: ignore[arg-type]
    assert list(loops) == [stage.loop for stage in factors.STAGES["cuda"][1:-1]]
    assert all(one["device"] == "cuda" for one in asked) and len(asked) == 4
    assert loops["our step, TF32"] == {"precision": "tf32", "kernels": "plain", "capture": False}


def test_our_step_has_its_own_precision_whatever_was_measured_before() -> None:
    step = conditions.our_step(GPT.experiment("cpu"))
    conditions.with_precision(lambda: None, "medium")()
    step()
    assert torch.get_float32_matmul_precision() == "highest"


def test_threads_are_reset_after_an_error() -> None:
    def fails() -> None:
        assert torch.get_num_threads() == 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        conditions.with_threads(fails, 2)()
    assert torch.get_num_threads() == 1


def test_threads_divide_the_rows_of_every_product() -> None:
    layers = [products.random_factors(shape, "cpu", torch.float32) for shape in ((10, 4, 6), (7, 5, 3))]
    parts = products.divided(layers, 3)
    assert len(parts) == 3
    for (x, weight, slope), *shares in zip(layers, *parts, strict=True):
        assert torch.equal(torch.cat([own[0] for own in shares]), x)
        assert torch.equal(torch.cat([own[2] for own in shares]), slope)
        assert all(own[1] is weight for own in shares)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_products_of_both_ways_are_all_products(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted call by call: both ways multiply as much, in as many threads as our step has."""
    done: list[tuple[int, int]] = []
    multiply = torch.mm

    def mm(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        done.append((2 * left.shape[0] * left.shape[1] * right.shape[1], torch.get_num_threads()))
        return multiply(left, right, out=out)

    def product(x: torch.Tensor, weight: torch.Tensor, *more: object) -> torch.Tensor:
        done.append((2 * x.shape[0] * x.shape[1] * weight.shape[0], torch.get_num_threads()))
        return x @ weight.t()

    cpu_functions.has_onednn()  # its answer is kept, and must be that of the real product
    monkeypatch.setattr(torch, "mm", mm)
    for module in (products, cpu_functions):  # where it is called: the gradient of a weight is made of it too
        monkeypatch.setattr(module, "onednn_product", product)
    experiment = Workload("GPT", "demo-gpt", {**TINY, "training.threads": threads}).experiment("cpu")
    ways, operations = products.products_alone(experiment, experiment.pool)
    assert len(ways) == (4 if cpu_functions.has_onednn() else 2)
    for way, work in ways.items():
        done.clear()
        work()
        assert sum(count for count, _ in done) == operations
        assert {inside for _, inside in done} == {conditions.CORES if way.startswith("all") else 1}
    assert (f"batch divided among {threads} threads" if threads > 1 else "1 thread") in ways


@pytest.mark.slow
def test_the_compiled_loop_trains_as_the_textbook_loop() -> None:
    """The loss of a sequence has no random numbers, so both loops take the same steps from the same seed."""

    def weights(step_of: Any) -> torch.Tensor:
        torch.manual_seed(0)
        step, network = step_of()
        for _ in range(3):
            step()
        return torch.cat([p.detach().flatten() for p in network.parameters()])

    before = torch.cat([p.detach().flatten() for p in GPT.textbook("cpu").network.parameters()])
    made: list[Any] = []

    class Kept(Workload):
        def textbook(self, device: str) -> Any:
            made.append(super().textbook(device))
            return made[-1]

    def plain() -> Any:
        experiment = GPT.textbook("cpu")
        return reference.plain_step(experiment), experiment.network

    def under_torch_compile() -> Any:
        step = compiled.compiled_loop(Kept(GPT.label, GPT.preset, GPT.change), "cpu", "default")
        return step, made[0].network

    one, other = weights(plain), weights(under_torch_compile)
    torch.compiler.reset()
    assert torch.allclose(one, other, atol=1e-5) and not torch.allclose(one, before, atol=1e-4)


@pytest.mark.slow
def test_without_a_compiler_the_others_are_measured_and_the_row_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "cxx", ("no-such-compiler",))
    row = steps.step_row(GPT, "cpu", 0.01, compiled=True)
    assert "No working C++ compiler" in row["compiled"]["compiled"]["failed"]
    assert "compiled" not in row["steps_per_second"] and "over_best_compiled" not in row
    assert row["steps_per_second"]["ours"] > 0 and torch.get_num_threads() == 1


def test_a_reason_is_one_short_line() -> None:
    assert compiled.reason(RuntimeError("\nno compiler\nmore")) == "RuntimeError: no compiler"
    assert compiled.reason(KeyError()) == "KeyError: no reason given"
    assert len(compiled.reason(ValueError("x" * 1000))) == compiled.MOST_CHARACTERS


@pytest.mark.parametrize(
    ("device", "wanted", "expected", "option"),
    [
        ("cpu", None, False, ""),
        ("cpu", True, True, " --compiled"),
        ("cuda", None, True, ""),
        ("cuda", False, False, " --no-compiled"),
    ],
)
def test_compiled_loops_are_measured_on_a_gpu_or_when_asked_for(
    device: str, wanted: bool | None, expected: bool, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def step_row(workload: Workload, device: str, seconds: float, compiled: bool) -> Row:
        asked.append(compiled)
        return {}

    monkeypatch.setattr(suite, "check", lambda device, *given: WORKLOADS[device])
    monkeypatch.setattr(suite, "machine", lambda device: {})
    monkeypatch.setattr(steps, "ceiling", lambda device: {})
    monkeypatch.setattr(steps, "step_row", step_row)
    record = suite.measure(device, ["steps"], 1.0, compiled=wanted)
    assert set(asked) == {expected}
    assert record["command"] == f"twoclocks bench --device {device} --parts steps --seconds 1{option}"


def test_chosen_networks_are_measured_and_the_record_is_kept_after_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was measured before the machine went away is in bench.json."""
    measured: list[tuple[str, str]] = []

    def step_row(workload: Workload, *given: object) -> Row:
        measured.append(("steps", workload.label))
        if workload.label == "GPT, demo":
            stored = json.loads((tmp_path / "bench.json").read_text())
            assert [row["work"] for row in stored["steps"]] == ["DiT, demo"]
            raise KeyboardInterrupt
        return {"work": workload.label}

    def evaluation_row(workload: Workload, device: str) -> Row:
        measured.append(("evaluations", workload.label))
        return {"work": workload.label}

    monkeypatch.setattr(steps, "ceiling", lambda device: {})
    monkeypatch.setattr(steps, "step_row", step_row)
    monkeypatch.setattr(steps, "evaluation_row", evaluation_row)
    saved: list[int] = []
    chosen = {"labels": ["DiT, demo", "DiT, demo"], "save": lambda record: saved.append(len(record["steps"]))}
    record = suite.measure("cpu", ["steps", "evaluations"], 1.0, **chosen)
    assert measured == [("steps", "DiT, demo"), ("evaluations", "DiT, demo")] and saved == [1, 1]
    assert record["command"].endswith("--work 'DiT, demo' 'DiT, demo'")
    with pytest.raises(SettingError, match="--work: 'DiT' is not allowed; use some of DiT, demo; GPT, demo"):
        suite.measure("cpu", ["steps"], 1.0, labels=["DiT"])
    cli.main(["bench", "--parts", "steps", "--work", "DiT, demo", "GPT, demo", "--out", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.json"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("preset", ["p1-dit-mini", "p1-gpt-mini", "p2-md4-text"])
def test_all_loops_run_on_a_gpu(preset: str) -> None:
    from torch._dynamo.utils import counters

    counters.clear()
    row = steps.step_row(Workload("small", preset, {"model.depth": 2}), "cuda", 0.3, compiled=True)
    assert {name: note.get("failed") for name, note in row["compiled"].items()} == dict.fromkeys(compiled.MODES["cuda"])
    assert counters["inductor"]["cudagraph_skips"] == 0
    rates = row["steps_per_second"]
    assert set(compiled.MODES["cuda"]) < set(rates) and min(rates.values()) > 0
    assert [stage["loop"] for stage in row["factors"]] == [stage.loop for stage in factors.STAGES["cuda"]]
    assert math.prod(stage["factor"] for stage in row["factors"][1:]) == pytest.approx(rates["ours"] / rates["plain"])
    assert list(row["products_alone"]) == ["one after another"]
