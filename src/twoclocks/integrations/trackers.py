"""Experiment trackers with one interface: TensorBoard, Weights & Biases, MLflow, trackio.

>>> TRACKERS.names()
['mlflow', 'tensorboard', 'trackio', 'wandb']
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import UserError
from twoclocks.core.registry import Registry
from twoclocks.core.telemetry import telemetry_off
from twoclocks.integrations.extras import missing_extra

Pixels = npt.NDArray[np.uint8]  # (height, width, 3)


class Tracker(ABC):
    """Base class: writes scalars and pictures somewhere."""

    @abstractmethod
    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """Writes named numbers of one training step."""

    @abstractmethod
    def image(self, name: str, picture: Any, step: int) -> None:
        """Writes a picture of one training step: a matplotlib Figure, or the path of a PNG file."""

    @abstractmethod
    def close(self) -> None:
        """Ends the run, so that everything is on disk."""

    @classmethod
    @abstractmethod
    def around(cls, run: Any) -> Tracker | None:
        """The tracker that writes to a run which a framework has begun; None if it has begun none."""


TRACKERS: Registry[Tracker] = Registry("tracker", Tracker)


def trackers_of(given: str | Tracker | Sequence[str | Tracker]) -> list[Tracker]:
    """Trackers from names or objects, one or several."""
    several = [given] if isinstance(given, str | Tracker) else list(given)
    for one in several:
        if not isinstance(one, str | Tracker):
            raise UserError(f"trackers: {one!r} is not allowed; use names ({', '.join(TRACKERS.names())}) or trackers")
    return [TRACKERS.create(one) if isinstance(one, str) else one for one in several]


def tracker_around(name: str, run: Any) -> Tracker | None:
    """A tracker around what a framework has begun; None if there is no such tracker, or nothing was begun."""
    return TRACKERS.get(name).around(run) if name in TRACKERS.names() else None


@TRACKERS.register("tensorboard")
@dataclass
class TensorBoard(Tracker):
    """Event files in a folder; look at them with ``tensorboard --logdir FOLDER``."""

    folder: str = "runs"
    writer: Any = None  # a SummaryWriter; None: begin one in the folder

    def __post_init__(self) -> None:
        if self.writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise missing_extra("tensorboard", "trackers", error) from None
            self.writer = SummaryWriter(str(self.folder))

    @classmethod
    def around(cls, run: Any) -> TensorBoard | None:
        return None if run is None else cls(writer=run)

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def image(self, name: str, picture: Any, step: int) -> None:
        self.writer.add_image(name, pixels(picture), step, dataformats="HWC")
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


@TRACKERS.register("wandb")
@dataclass
class Wandb(Tracker):
    """Weights & Biases; offline by default: send the folder later with ``wandb sync``."""

    project: str = "twoclocks"
    folder: str = "."
    mode: Literal["offline", "online", "disabled"] = "offline"
    run: Any = None  # None: the active run, or else a new one

    def __post_init__(self) -> None:
        telemetry_off()
        try:
            import wandb
        except ImportError as error:
            raise missing_extra("wandb", "trackers", error) from None
        if self.run is None:
            self.run = wandb.run or wandb.init(project=self.project, dir=str(self.folder), mode=self.mode)
        self._image = wandb.Image
        # A step of its own: wandb drops values for a step before one that somebody else has logged.
        self.run.define_metric("twoclocks/step")
        self.run.define_metric("twoclocks/*", step_metric="twoclocks/step")

    @classmethod
    def around(cls, run: Any) -> Wandb | None:
        return None if run is None else cls(run=run)

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        self.run.log({**scalars, "twoclocks/step": step})

    def image(self, name: str, picture: Any, step: int) -> None:
        self.run.log({name: self._image(pixels(picture)), "twoclocks/step": step})

    def close(self) -> None:
        self.run.finish()


@TRACKERS.register("mlflow")
@dataclass
class MLflow(Tracker):
    """MLflow: a local folder, or the address of a server; without either, what MLflow itself is set to."""

    experiment: str = "twoclocks"
    place: str | None = None
    client: Any = None  # an MlflowClient
    run_id: str | None = None  # None: the active run, or else a new one

    def __post_init__(self) -> None:
        telemetry_off()
        try:
            import mlflow
        except ImportError as error:
            raise missing_extra("mlflow", "trackers", error) from None
        if self.place is not None and "://" not in str(self.place):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow refuses folders without it
            self.place = Path(self.place).resolve().as_uri()
        self.client = self.client or mlflow.MlflowClient(self.place)
        active = mlflow.active_run() if self.place is None else None
        self.run_id = self.run_id or (active.info.run_id if active is not None else self._new_run())

    def _new_run(self) -> str:
        known = self.client.get_experiment_by_name(self.experiment)
        number = known.experiment_id if known is not None else self.client.create_experiment(self.experiment)
        return str(self.client.create_run(number).info.run_id)

    @classmethod
    def around(cls, run: Any) -> MLflow | None:
        """Around a run, a pair (client, run id), or None: the active run."""
        telemetry_off()
        import mlflow

        if isinstance(run, tuple):
            return cls(client=run[0], run_id=run[1])
        active = run or mlflow.active_run()
        return None if active is None else cls(run_id=active.info.run_id)

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        for name, value in scalars.items():
            self.client.log_metric(self.run_id, name, value, step=step)

    def image(self, name: str, picture: Any, step: int) -> None:
        self.client.log_image(self.run_id, pixels(picture), artifact_file=f"{name}/step-{step}.png")

    def close(self) -> None:
        self.client.set_terminated(self.run_id)


@TRACKERS.register("trackio")
@dataclass
class Trackio(Tracker):
    """trackio: a local database, in the folder that the environment variable TRACKIO_DIR names."""

    project: str = "twoclocks"
    run: Any = None  # None: the current run, or else a new one

    def __post_init__(self) -> None:
        telemetry_off()
        try:
            import trackio
        except ImportError as error:
            raise missing_extra("trackio", "trackers", error) from None
        self._current = trackio.context_vars.current_run
        if self.run is None:
            self.run = self._current.get() or trackio.init(
                self.project, embed=False, auto_log_cpu=False, auto_log_gpu=False
            )
        self._image = trackio.Image

    @classmethod
    def around(cls, run: Any) -> Trackio | None:
        """Around a run, or None: the current one."""
        telemetry_off()
        import trackio

        current = run or trackio.context_vars.current_run.get()
        return None if current is None else cls(run=current)

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        self.run.log(dict(scalars), step=step)

    def image(self, name: str, picture: Any, step: int) -> None:
        self.run.log({name: self._image(pixels(picture))}, step=step)

    def close(self) -> None:
        self.run.finish()
        if self._current.get() is self.run:
            self._current.set(None)  # trackio would finish it again at exit


def pixels(picture: Any) -> Pixels:
    """A matplotlib Figure or the path of a PNG file as an array (height, width, 3)."""
    if isinstance(picture, str | Path):
        from matplotlib.image import imread

        values = np.asarray(imread(picture))
        values = values if values.dtype == np.uint8 else np.round(values * 255).astype(np.uint8)
        return np.ascontiguousarray(values[..., :3] if values.ndim == 3 else np.repeat(values[..., None], 3, 2))
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    return np.ascontiguousarray(np.asarray(canvas.buffer_rgba())[..., :3])
