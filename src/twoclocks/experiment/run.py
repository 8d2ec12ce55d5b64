"""One run from settings to clocks: trains, evaluates, stores, and tells an observer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from twoclocks.core.errors import SettingError, UserError
from twoclocks.experiment.assembly import Experiment
from twoclocks.experiment.load import Run, load_run
from twoclocks.experiment.settings import RunSettings
from twoclocks.store.run_directory import RunDirectory, check_free
from twoclocks.training.errors import DivergedError


@dataclass(frozen=True)
class Progress:
    """What an observer learns while a run goes on."""

    step: int
    steps: int
    loss: float  # mean since the last evaluation
    metrics: dict[str, float] | None  # of the last evaluation; None before the first
    evaluated: bool  # whether this step was an evaluation
    seconds_left: float


Observer = Callable[[Progress], None]


class Stopwatch:
    """Time so far and time left: steps and evaluations are timed apart, since evaluations crowd at the start."""

    def __init__(self, schedule: tuple[int, ...], steps: int) -> None:
        self.begin, self.schedule, self.steps = time.perf_counter(), schedule, steps
        self.evaluating, self.evaluations = 0.0, 0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begin

    def evaluated(self, seconds: float) -> None:
        self.evaluating += seconds
        self.evaluations += 1

    def left(self, step: int) -> float:
        training = (self.seconds - self.evaluating) / max(step, 1) * (self.steps - step)
        due = sum(later > step for later in self.schedule)
        return training + due * self.evaluating / max(self.evaluations, 1)


def run(settings: RunSettings, out: Path | str, observe: Observer = lambda progress: None) -> Run:
    """Train and evaluate as the settings say; the run directory ``out`` holds all that is known afterwards."""
    out = Path(out)
    check_free(out)
    check_device(settings.training.device)
    with named_memory_errors():
        experiment = Experiment(settings)
        experiment.rehearse()
    directory = RunDirectory.create(out, experiment.manifest())
    directory.write_checkpoint(0, experiment.state())
    watch = Stopwatch(settings.schedule, settings.training.steps)
    latest: dict[str, float] | None = None

    def tell(step: int, loss: float, evaluated: bool) -> None:
        observe(Progress(step, settings.training.steps, loss, latest, evaluated, watch.left(step)))

    def on_evaluation(step: int, loss: float) -> None:
        nonlocal latest
        begin = watch.seconds
        try:
            row, kept = experiment.evaluate(step, loss)
        except FloatingPointError as error:
            raise DivergedError(step, kept=directory.checkpoint_steps()[-1]) from error
        directory.write_checkpoint(step, experiment.state())
        directory.write_samples(step, kept)
        latest = {**row, "seconds": watch.seconds}
        directory.append_metrics(latest)
        watch.evaluated(watch.seconds - begin)
        tell(step, loss, evaluated=True)

    try:
        with named_memory_errors():
            experiment.train(on_evaluation, lambda step, loss: tell(step, loss, evaluated=False))
    except BaseException as error:
        directory.set_status(ending(error), reason=f"{type(error).__name__}: {error}", seconds=watch.seconds)
        raise
    directory.set_status("finished", seconds=watch.seconds)
    return load_run(out)


def ending(error: BaseException) -> str:
    """The status of a run that ended with an error: the model's, ours, or a person's wish."""
    if isinstance(error, DivergedError):
        return "diverged"
    return "failed" if isinstance(error, Exception) else "interrupted"


@contextmanager
def named_memory_errors() -> Iterator[None]:
    """Torch's several ways to run out of memory, as one line that says what to make smaller."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error):
            fix = "use a smaller training.batch, evaluation.samples, data.n or model.width"
            raise UserError(f"memory: the run does not fit into it; {fix}") from error
        raise


def check_device(device: str) -> None:
    try:
        kind = torch.device(device).type
        available = kind == "cpu" or (kind == "cuda" and torch.cuda.is_available())
        if available:
            torch.empty(1, device=device)
            return
    except RuntimeError:
        pass
    found = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    raise SettingError("training.device", device, f"it is not there; use one of {', '.join(found)}")
