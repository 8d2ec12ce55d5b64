"""Runs that are trained together: each is the run that it would be alone, and none can harm another."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
import torch
from small_runs import SMALL_MODEL, TINY

from twoclocks.core.config import build, merge, nested, setting, to_mapping
from twoclocks.core.errors import UserError
from twoclocks.models import MODELS, ModelSettings, Network
from twoclocks.runs import Run, load_run, load_settings, run
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.joint_samples import share_samples
from twoclocks.runs.rows import StoredRun, write_rows
from twoclocks.runs.session import Session
from twoclocks.runs.settings import RunSettings
from twoclocks.runs.together import Ending, Form, Member, joint_step, run_together
from twoclocks.store import verify_tree
from twoclocks.store.lock import LockedError, WriterLock
from twoclocks.training.errors import DivergedError
from twoclocks.training.joint import Batched, Stack
from twoclocks.training.step import PlainStep

FORMS: tuple[Form, ...] = get_args(Form)
POINTS: dict[str, dict[str, Any]] = {
    "first": {},
    "initial weights": {"training.seed": 1},
    "data": {"data.seed": 1},
    "rate": {"training.learning_rate": 3e-3, "training.weight_decay": 0.1, "training.optimizer": "adamw"},
}
PRESETS: dict[str, dict[str, Any]] = {
    "demo": {**TINY, "model": SMALL_MODEL, "objective": {"sampler_steps": 6}, "training.average": 0.9},
    "demo-gpt": {**TINY, "model": SMALL_MODEL},
}


def members(preset: str, folder: Path, change: Mapping[str, Any] | None = None) -> dict[str, Member]:
    base = load_settings(preset, {**PRESETS[preset], **(change or {})})
    return {name: Member(settings_of(base, point), folder / name) for name, point in POINTS.items()}


def settings_of(base: RunSettings, point: Mapping[str, Any]) -> RunSettings:
    return build(RunSettings, merge(to_mapping(base), nested(dict(point))))


def assert_same(ours: Run, alone: Run) -> None:
    """Rows, samples, weights and moments are equal to the bit."""
    mine, theirs = ours.metrics(), alone.metrics()
    assert mine.keys() == theirs.keys()
    for name, values in mine.items():
        assert np.array_equal(values, theirs[name], equal_nan=True), name
    weights, expected = (one.directory.read_checkpoint().tensors for one in (ours, alone))
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)


@pytest.mark.parametrize("form", ["in turn", "streams"])
@pytest.mark.parametrize("preset", PRESETS)
def test_each_run_is_what_it_is_alone_to_the_bit(preset: str, form: Form, tmp_path: Path) -> None:
    together = members(preset, tmp_path / "together")
    assert run_together(list(together.values()), form=form) == [None] * len(together)
    for name, member in together.items():
        assert_same(load_run(member.out), run(member.settings, tmp_path / "alone" / name))
        assert load_run(member.out).status["attempts"][0]["together"] == len(together)
    assert len({load_run(one.out).metrics()["loss"][-1] for one in together.values()}) == len(together)
    assert all(one.intact for one in verify_tree(tmp_path))


def test_samples_are_begun_for_all_runs_before_the_first_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are without dropout, for every run that is evaluated next, and for no other."""
    change = {"model": {**SMALL_MODEL, "dropout": 0.5}, "training": {"steps": 20, "batch": 8, "threads": 1}}
    first = load_settings("demo-gpt", {**PRESETS["demo-gpt"], **change, "evaluation.steps": [0, 10, 20]})
    third = settings_of(first, {"evaluation.steps": [0, 20], "training.seed": 1})
    together = [Member(first, tmp_path / "0"), Member(settings_of(first, POINTS["data"]), tmp_path / "1")]
    together.append(Member(third, tmp_path / "2"))
    draw, judge = Experiment.own_samples, Experiment.evaluate
    events: list[str] = []

    def drawing(self: Experiment, network: Network | None = None) -> torch.Tensor:
        assert not self.network.training
        events.append("draw")
        return draw(self, network)

    def judging(self: Experiment, step: int, loss: float) -> Any:
        events.append(f"judge {step}")
        found = judge(self, step, loss)
        assert not self.network.training
        return found

    monkeypatch.setattr(Experiment, "own_samples", drawing)
    monkeypatch.setattr(Experiment, "evaluate", judging)
    assert run_together(together, form="streams") == [None] * 3
    assert events[:6] == ["judge 0", "draw"] * 3  # no update comes before them
    assert events[6:] == ["draw"] * 2 + ["judge 10"] * 2 + ["draw"] * 3 + ["judge 20"] * 3
    monkeypatch.undo()
    for member in together:
        assert_same(load_run(member.out), run(member.settings, tmp_path / "alone" / member.out.name))


def test_samples_of_other_weights_are_not_those_that_were_begun(tmp_path: Path) -> None:
    """Such as of averaged weights, and of those of a later update."""
    base = load_settings("demo", {**PRESETS["demo"], "training.threads": 1, "evaluation.steps": [0, 1, 60]})
    made = [Experiment(settings_of(base, {"training.seed": seed})) for seed in range(2)]
    step, _ = joint_step(made, "streams")
    assert step({0: 1, 1: 1}) == {}
    begun = made[0].sample()
    assert torch.equal(begun, made[0].own_samples()) and not torch.equal(begun, made[1].sample())
    assert step({0: 2, 1: 2}) == {}  # no evaluation follows
    assert not torch.equal(made[0].sample(), begun)
    assert step({0: 1, 1: 1}) == {} and made[0].network.training
    average = made[0].average
    assert average is not None
    averaged = made[0].sample(average.current())
    assert torch.equal(averaged, made[0].own_samples(average.current()))
    assert not torch.equal(averaged, made[0].sample())


def test_a_fault_in_the_samples_that_are_begun_is_that_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Experiment.own_samples

    def fails(self: Experiment, network: Network | None = None) -> torch.Tensor:
        if self.settings.data.seed == 1 and self.network.training is False and self.loop.step:
            raise RuntimeError("CUDA error: out of memory")
        return draw(self, network)

    monkeypatch.setattr(Experiment, "own_samples", fails)
    together = members("demo-gpt", tmp_path)
    endings = dict(zip(together, run_together(list(together.values()), form="streams"), strict=True))
    assert str(endings.pop("data")).startswith("memory") and set(endings.values()) == {None}


def test_finished_runs_are_left_alone_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run fails at step 30; the others do not notice. The same call again continues it, to the same bits."""
    together = members("demo-gpt", tmp_path / "together", {"training.steps": 60})
    original = Session.on_step

    def failing(self: Session, step: int) -> None:
        if self.directory.path.name == "data" and step == 30:
            raise RuntimeError("a fault")
        original(self, step)

    monkeypatch.setattr(Session, "on_step", failing)
    endings = dict(zip(together, run_together(list(together.values()), checkpoint_seconds=0), strict=True))
    assert isinstance(endings.pop("data"), RuntimeError) and set(endings.values()) == {None}
    assert load_run(together["data"].out).status["reason"] == "RuntimeError: a fault"
    monkeypatch.undo()
    before = {name: (one.out / "status.json").read_bytes() for name, one in together.items()}
    assert run_together(list(together.values())) == [None] * len(together)
    assert [name for name, one in together.items() if (one.out / "status.json").read_bytes() != before[name]] == [
        "data"
    ]
    assert_same(load_run(together["data"].out), run(together["data"].settings, tmp_path / "alone"))


def test_a_run_that_diverges_ends_alone(tmp_path: Path) -> None:
    together = members("demo-gpt", tmp_path / "together")
    wild = Member(settings_of(together["first"].settings, {"training.learning_rate": 1e30}), tmp_path / "wild")
    *others, last = run_together([*together.values(), wild])
    assert (
        others == [None] * 4 and isinstance(last, DivergedError) and load_run(wild.out).status["status"] == "diverged"
    )
    assert_same(load_run(together["data"].out), run(together["data"].settings, tmp_path / "alone"))


def test_each_run_stops_by_itself(tmp_path: Path) -> None:
    """One rate copies before the end and the other does not."""
    change = {
        "rule": {"length": 20, "group": 2},
        "data.n": 16,
        "model": {"width": 32, "depth": 2, "heads": 2},
        "training": {"steps": 240, "batch": 16, "learning_rate": 2e-3, "threads": 1},
        "evaluation": {"samples": 400, "steps": list(range(0, 241, 20)), "loss_rows": 32, "keep_samples": 0},
        "clocks": {"sustain": 2, "stop": "memory"},
    }
    fast = load_settings("demo-gpt", change)
    slow = settings_of(fast, {"training.learning_rate": 1e-5})
    assert run_together([Member(fast, tmp_path / "fast"), Member(slow, tmp_path / "slow")]) == [None, None]
    stopped, whole = load_run(tmp_path / "fast"), load_run(tmp_path / "slow")
    assert stopped.status["stopped_at"] < 240 and "stopped_at" not in whole.status
    assert whole.metrics()["step"][-1] == 240
    for name, settings in (("fast", fast), ("slow", slow)):
        assert_same(load_run(tmp_path / name), run(settings, tmp_path / "alone" / name))


def test_a_run_that_another_process_writes_is_left_out(tmp_path: Path) -> None:
    together = members("demo-gpt", tmp_path)
    together["data"].out.mkdir(parents=True)
    run(together["rate"].settings, together["rate"].out)
    other = Member(settings_of(together["rate"].settings, {"training.seed": 7}), together["rate"].out)
    with WriterLock(together["data"].out):
        endings = run_together([*together.values(), other])
    assert [type(one) for one in endings] == [type(None), type(None), LockedError, type(None), UserError]
    assert "holds a run with other settings" in str(endings[-1])


def test_a_fault_of_one_run_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its update, in its start, and when its directory is opened."""
    update, start, opening = Experiment.make_step, Session.__init__, Experiment.dry_run

    def breaks(self: Any, *given: Any, **named: Any) -> Any:
        step = update(self, *given, **named)
        if self.settings.data.seed == 1:
            object.__setattr__(step, "update", fails)
        return step

    def fails() -> None:
        raise RuntimeError("in its update")

    def no_session(self: Session, experiment: Experiment, *given: Any) -> None:
        if experiment.settings.training.seed == 1:
            raise RuntimeError("in its start")
        start(self, experiment, *given)

    def too_large(self: Experiment) -> None:
        if self.settings.training.optimizer == "adamw" and self.settings.training.weight_decay == 0.1:
            raise RuntimeError("CUDA error: out of memory")
        opening(self)

    monkeypatch.setattr(Experiment, "make_step", breaks)
    monkeypatch.setattr(Session, "__init__", no_session)
    monkeypatch.setattr(Experiment, "dry_run", too_large)
    together = members("demo-gpt", tmp_path, {"training.threads": 1})
    endings = dict(zip(together, run_together(list(together.values())), strict=True))
    assert endings["first"] is None and load_run(together["first"].out).status["status"] == "finished"
    words = {name: str(error).split(":")[0] for name, error in endings.items() if error is not None}
    assert words == {"initial weights": "in its start", "data": "in its update", "rate": "memory"}


def test_an_interrupt_is_recorded_in_every_run_and_a_lock_ends_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = members("demo-gpt", tmp_path, {"training.steps": 60})
    short = Member(settings_of(together["first"].settings, {"clocks.stop": "never"}), tmp_path / "short")
    original, free = Session.on_step, []

    def interrupt(self: Session, step: int) -> None:
        original(self, step)
        if self.directory.path == short.out and step == 10:
            raise RuntimeError("a fault")
        if self.directory.path.name == "rate" and step == 20:
            with WriterLock(short.out):  # another process could continue the run that failed
                free.append(step)
            raise KeyboardInterrupt

    monkeypatch.setattr(Session, "on_step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_together([short, *together.values()])
    assert free == [20]
    assert {load_run(one.out).status["status"] for one in together.values()} == {"interrupted"}
    assert load_run(short.out).status["status"] == "failed"


@dataclass(frozen=True, kw_only=True)
class OddSettings(ModelSettings):
    """Networks of a user that keep or draw what is neither a parameter nor a buffer."""

    task: ClassVar[str] = "predict the next token"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((12,), 2)
    kind: str = setting("attribute", "what is odd")

    def build(self, shape: tuple[int, ...], symbols: int) -> Odd:
        return Odd(self.kind, symbols)

    @property
    def title(self) -> str:
        return f"odd ({self.kind})"


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> Any:
        raise RuntimeError("no gradient of a batch")


class GradientAlone(torch.autograd.Function):
    """The same as its input, with a gradient outside of ``vmap`` only, as some operations of torch."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        """Nothing is needed."""

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> torch.Tensor:
        return d_out

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], x: torch.Tensor) -> tuple[torch.Tensor, int | None]:
        return NoGradient.apply(x), in_dims[0]


class Odd(Network):
    def __init__(self, kind: str, symbols: int) -> None:
        super().__init__()
        self.kind, self.key, self.fixed = kind, 0, torch.randn(8)
        self.embed, self.head = torch.nn.Embedding(symbols + 1, 8), torch.nn.Linear(8, symbols)
        self.drop, self.norm = torch.nn.Dropout(0.3), torch.nn.BatchNorm1d(8)

    def begin_step(self, key: int) -> None:
        self.key = key % 97

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens % self.embed.num_embeddings).cumsum(dim=1)
        if self.kind == "attribute":
            x = x * self.fixed
        if self.kind == "key" and self.training:
            x = x * (1 + self.key / 97)
        if self.kind == "draws":
            x = self.drop(x)
        if self.kind == "gradient":
            x = GradientAlone.apply(x)
        if self.kind == "norm":
            x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        out: torch.Tensor = self.head(torch.relu(x))
        return out


@pytest.fixture
def odd_networks() -> Iterator[None]:
    MODELS.register("odd")(OddSettings)
    yield
    MODELS._members.pop("odd")


@pytest.mark.usefixtures("odd_networks")
@pytest.mark.parametrize("kind", ["attribute", "key", "draws", "gradient", "norm"])
def test_networks_that_cannot_be_batched_make_their_own_steps(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What they keep is found by trying; buffers, as of a normalisation, are stacked and stay as they are."""
    base = load_settings("demo-gpt", {**TINY, "model": {"name": "odd", "kind": kind}, "training.threads": 1})
    # With one training seed, keys of steps are those of the first run: only the next step shows that they are its own.
    axis = "data.seed" if kind == "key" else "training.seed"
    odd = [Member(settings_of(base, {axis: seed}), tmp_path / f"{seed}") for seed in range(3)]
    with caplog.at_level(logging.WARNING, "twoclocks"):
        assert run_together(odd, form="batched") == [None] * 3
    assert ("cannot be trained batched" in caplog.text) == (kind != "norm")
    if kind == "draws":  # from the process's own stream, so no two runs of it are equal
        return
    for member in odd:
        alone, ours = run(member.settings, tmp_path / "alone" / member.out.name), load_run(member.out)
        assert np.allclose(ours.metrics()["loss"], alone.metrics()["loss"], rtol=5e-3, equal_nan=True)
        counts = [one.directory.read_checkpoint().tensors["network.norm.num_batches_tracked"] for one in (ours, alone)]
        assert counts[0] == counts[1]  # the trial leaves no trace


def test_dropout_is_that_of_each_run_also_beside_one_that_never_trains(tmp_path: Path) -> None:
    together = members("demo-gpt", tmp_path, {"model": {**SMALL_MODEL, "dropout": 0.3}, "training.threads": 1})
    first, second, *_ = together.values()
    first.out.mkdir(parents=True)
    with WriterLock(first.out):
        assert isinstance(run_together([first, second], form="batched")[0], LockedError)
        third = Member(second.settings, tmp_path / "third")
        assert isinstance(run_together([first, second, third], form="batched")[0], LockedError)
    alone = run(second.settings, tmp_path / "alone")
    for member in (second, third):
        assert np.allclose(load_run(member.out).metrics()["loss"], alone.metrics()["loss"], rtol=2e-3, equal_nan=True)


def test_rows_say_that_a_run_was_trained_together(tmp_path: Path) -> None:
    first, second, *_ = members("demo-gpt", tmp_path).values()
    assert run_together([first, second]) == [None, None]
    alone = run(first.settings, tmp_path / "alone")
    for done, together in ((load_run(first.out), True), (alone, False)):
        rows = StoredRun(write_rows(done, tmp_path / "rows" / done.path.name))
        assert done.was_together == rows.was_together == together


def test_memory_that_runs_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that fails ends all runs, since none of them made it."""

    def too_large(self: PlainStep) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(PlainStep, "__call__", too_large)
    monkeypatch.setattr(Batched, "all_updates", too_large)
    change = {"training.threads": 1}
    for form in FORMS:
        endings = run_together(list(members("demo-gpt", tmp_path / form, change).values()), form=form)
        assert {str(one).split(":")[0] for one in endings} == {"memory"}


def test_captured_samplers_are_forgotten_and_samples_shared_where_runs_stand_at_one_step() -> None:
    """A graph that was captured before would read the memory that the weights had."""
    base = load_settings("demo-gpt", {**PRESETS["demo-gpt"], "training.threads": 1})
    for step in (0, 5):
        made = [Experiment(settings_of(base, {"training.seed": seed}), textbook=True) for seed in range(2)]
        for one in made:
            one.sample()
            assert one.samplers
        made[1].loop.step = step
        assert isinstance(joint_step(made, "batched")[0], Batched)
        assert not any(one.samplers for one in made)
        assert all((one.joint_samples is not None) == (step == 0) for one in made)


SHARED = {section: values for section, values in TINY.items() if section != "rule"}
CPU = {"training": {**TINY["training"], "device": "cpu", "precision": "float32"}}
# What a step can contain: the batched form must know all of it.
CONTENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dit": ("demo", {**PRESETS["demo"], "training.average": 0.9, "model.dropout": 0.2, "model.registers": 2}),
    "gpt": ("demo-gpt", {**PRESETS["demo-gpt"], "model.dropout": 0.2, "training.trim": 0.25}),
    "masked loss": ("demo", {**PRESETS["demo"], "training.masked_loss": 1.0}),
    "curricula": ("demo", {**PRESETS["demo"], "objective.first_shift": 1.0, "objective.shift_steps": 3}),
    "augmentation": ("demo-gpt", {**PRESETS["demo-gpt"], "data.augment": True, "data.noise": 0.1}),
    "epochs": ("demo-gpt", {**PRESETS["demo-gpt"], "training.order": "epochs", "training.warm_up": 4}),
    "descent": ("demo-gpt", {**PRESETS["demo-gpt"], "training.optimizer": "sgd", "training.momentum": 0.9}),
    "bfloat16": ("demo", {**PRESETS["demo"], "training.precision": "bfloat16"}),
    "unet1d": ("p2-rhm-small", {**SHARED, "data.n": 64, "model.width": 16, "objective.sampler_levels": 4}),
    # A bias in front of a normalisation has a gradient of rounding errors alone, of which Adam would make a whole step.
    "unet2d": (
        "images-small",
        {"model.width": 8, "evaluation.samples": 100, "training.batch": 8, "training.optimizer": "sgd"},
    ),
    "mlp": ("p2-kernel-small", {"model.width": 64}),
    "masked diffusion": ("p2-md4-rhm", {**SHARED, "data.n": 64, "model": SMALL_MODEL, **CPU}),
    "text": ("text-small", {"model": SMALL_MODEL, "evaluation.prompts": 0, "rule.length": 64}),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_batched_updates_are_those_of_each_run_up_to_rounding(content: str) -> None:
    preset, change = CONTENTS[content]
    base = load_settings(preset, {**change, "training.threads": 1})
    points = [{}, {"training.seed": 1}, {"data.seed": 1, "training.learning_rate": 3e-3}]
    batched, alone = ([Experiment(settings_of(base, point), textbook=True) for point in points] for _ in range(2))
    stack = Stack([one.network for one in batched])
    step = Batched([one.make_step(captures=False) for one in batched], stack)
    steps = [one.make_step() for one in alone]
    for number in range(1, 6):
        step({0: number, 1: number + 10, 2: number})  # runs need not stand at the same step
        for place, begin in ((0, 0), (1, 10), (2, 0)):
            steps[place](begin + number)
    tolerance = 0.05 if content == "bfloat16" else 2e-3  # of the distance that the weights have moved
    for ours, theirs, point in zip(batched, alone, points, strict=True):
        start = Experiment(settings_of(base, point), textbook=True).network
        moved = distance(theirs.network, start)
        assert moved > 0 and distance(ours.network, theirs.network) < tolerance * moved
        assert float(ours.loop.loss_sum) == pytest.approx(float(theirs.loop.loss_sum), rel=1e-2)
        if ours.average is not None and theirs.average is not None:
            assert distance(ours.average.network, theirs.average.network) < tolerance * moved
            assert distance(ours.average.network, start) > 0


def distance(one: torch.nn.Module, other: torch.nn.Module) -> float:
    """Length of the difference of all weights."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return float(sum((a - b).detach().square().sum() for a, b in pairs) ** 0.5)


def test_batched_runs_are_stored_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written from the stack and read into it; moments too."""
    # The batched form has one thread and the textbook's kernels, whatever a run alone would have.
    change = {"training.steps": 40, "evaluation.steps": [0, 20, 40], "training.threads": 2}
    together = list(members("demo", tmp_path / "together", change).values())
    original = Session.on_step

    def failing(self: Session, step: int) -> None:
        original(self, step)
        if step == 15 + 10 * (self.directory.path.name == "data"):
            raise RuntimeError("a fault")

    monkeypatch.setattr(Session, "on_step", failing)
    endings: list[Ending] = run_together(together, form="batched", checkpoint_seconds=0)
    assert [str(one) for one in endings] == ["a fault"] * 4
    monkeypatch.undo()
    assert run_together(together, form="batched") == [None] * 4
    for member in together:
        ours, alone = load_run(member.out), run(member.settings, tmp_path / "alone" / member.out.name)
        for name in ("loss_train", "loss_held_out", "loss"):
            assert np.allclose(ours.metrics()[name], alone.metrics()[name], rtol=0.02, equal_nan=True), name
        assert np.allclose(ours.metrics()["quantization_distance"], alone.metrics()["quantization_distance"], atol=0.01)
        first, second = ours.status["attempts"]
        assert first["together"] == second["together"] == 4
        assert ours.settings == member.settings  # as they were asked for: a sweep finds its cell by them
        assert second["from_step"] == (25 if member.out.name == "data" else 15)


SAMPLED: dict[str, tuple[str, dict[str, Any]]] = {
    "dit": ("demo", {**PRESETS["demo"], "model.dropout": 0.5, "model.registers": 1}),
    "gpt": ("demo-gpt", PRESETS["demo-gpt"]),
    "bfloat16": ("demo", {**PRESETS["demo"], "training.precision": "bfloat16"}),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_of_all_runs_are_those_of_each(name: str) -> None:
    """Drawn once per update, from the weights of now, without dropout, each from the noise of its own run."""
    preset, change = SAMPLED[name]
    base = load_settings(preset, {**change, "training.threads": 1})
    points = [{"training.seed": seed, "evaluation.seed": seed} for seed in range(3)]
    ours, alone = ([Experiment(settings_of(base, point), textbook=True) for point in points] for _ in range(2))
    stack = Stack([one.network for one in ours])
    step = Batched([one.make_step(captures=False) for one in ours], stack)
    share_samples(ours, stack)
    tolerance = 1e-2 if name == "bfloat16" else 1e-5
    drawn: list[torch.Tensor] = []
    for number in (1, 2):
        step(dict.fromkeys(range(3), number))
        for mine, other in zip(ours, alone, strict=True):
            other.load_weights(mine.weights())
            other.network.eval()
            assert torch.allclose(mine.sample().double(), other.sample().double(), atol=tolerance), (name, number)
            drawn.append(mine.sample().clone())
    assert not torch.equal(drawn[0], drawn[1]) and (name == "gpt" or not torch.equal(drawn[0], drawn[3]))


def test_weights_of_a_stack_are_its_own_memory() -> None:
    """Loading a checkpoint into a network changes the stack, and the other networks keep their weights."""
    base = load_settings("demo-gpt", {**PRESETS["demo-gpt"], "training.threads": 1})
    made = [Experiment(settings_of(base, {"training.seed": seed}), textbook=True) for seed in range(3)]
    weights = [{name: value.clone() for name, value in one.weights().items()} for one in made]
    stack = Stack([one.network for one in made])
    for before, one in zip(weights, made, strict=True):
        assert all(torch.equal(before[name], value) for name, value in one.weights().items())
    made[1].load_weights(weights[0])
    for name, whole in stack.weights.items():
        assert torch.equal(whole[1], weights[0][name]) and torch.equal(whole[2], weights[2][name])
