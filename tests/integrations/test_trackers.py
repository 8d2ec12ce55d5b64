"""Each tracker really writes, and what it wrote is read back."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch
from loops import EVERY, Net, new_monitor, sampler
from matplotlib.figure import Figure

from twoclocks.integrations.pytorch import MonitorHook
from twoclocks.integrations.trackers import TRACKERS, MLflow, TensorBoard, Tracker, pixels, tracker_around, trackers_of

TRACKIO_FOLDER = os.environ["TRACKIO_DIR"] = mkdtemp()  # trackio reads it when it is imported
atexit.register(shutil.rmtree, TRACKIO_FOLDER, ignore_errors=True)
RATES = {8: 0.25, 16: 0.5}


def red_picture(folder: Path) -> Path:
    figure = Figure(figsize=(1, 1), dpi=20, facecolor="red")
    figure.savefig(folder / "red.png", facecolor="red")
    return folder / "red.png"


def write(tracker: Tracker, folder: Path) -> None:
    for step, rate in RATES.items():
        tracker.log({"twoclocks/copy_rate": rate}, step)
    tracker.image("twoclocks/copies", red_picture(folder), 16)
    tracker.close()


def test_a_figure_and_its_file_give_the_same_pixels(tmp_path: Path) -> None:
    figure = Figure(figsize=(1, 1), dpi=20, facecolor="red")
    from_file = pixels(red_picture(tmp_path))
    assert from_file.shape == (20, 20, 3) and (from_file == [255, 0, 0]).all()
    assert np.array_equal(pixels(figure), from_file)


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write(TensorBoard(folder=str(tmp_path / "events")), tmp_path)
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    assert {event.step: event.value for event in events.Scalars("twoclocks/copy_rate")} == RATES
    (image,) = events.Images("twoclocks/copies")
    assert (image.step, image.width, image.height) == (16, 20, 20)


def test_mlflow(tmp_path: Path) -> None:
    from matplotlib.image import imread

    tracker = MLflow(place=str(tmp_path / "mlruns"))
    write(tracker, tmp_path)
    history = tracker.client.get_metric_history(tracker.run_id, "twoclocks/copy_rate")
    assert {entry.step: entry.value for entry in history} == RATES
    (picture,) = (tmp_path / "mlruns").rglob("step-16.png")
    assert picture.parent.name == "copies" and imread(picture).shape[:2] == (20, 20)
    second = MLflow(place=str(tmp_path / "mlruns"))  # the same experiment, another run
    names = sorted(experiment.name for experiment in second.client.search_experiments())
    assert second.run_id != tracker.run_id and names == ["Default", "twoclocks"]


def wandb_records(file: Path) -> Iterator[Any]:
    """The records of a .wandb file: LevelDB's log format, blocks of 32 KiB after a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32_768 - at % 32_768
        if left < 7:  # the end of a block is filled with zeros
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield Record.FromString(whole)
            whole = b""


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    write(TRACKERS.create("wandb", folder=str(tmp_path)), tmp_path)
    (file,) = tmp_path.rglob("*.wandb")
    deadline = time.monotonic() + 30
    while not any(record.HasField("exit") for record in wandb_records(file)):  # another process writes the file
        assert time.monotonic() < deadline
        time.sleep(0.05)
    items = [record.history.item for record in wandb_records(file)]
    rows = [{one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in item} for item in items]
    rates = {row["twoclocks/step"]: row["twoclocks/copy_rate"] for row in rows if "twoclocks/copy_rate" in row}
    assert rates == RATES
    (image,) = [row for row in rows if "twoclocks/copies/path" in row]
    assert (image["twoclocks/copies/width"], image["twoclocks/copies/height"]) == (20, 20)
    assert list(tmp_path.rglob(Path(image["twoclocks/copies/path"]).name))


def test_trackio(tmp_path: Path) -> None:
    from trackio.sqlite_storage import SQLiteStorage

    write(TRACKERS.create("trackio", project=tmp_path.name), tmp_path)
    (run,) = SQLiteStorage.get_runs(tmp_path.name)
    rows = SQLiteStorage.get_logs(tmp_path.name, run)
    assert {row["step"]: row["twoclocks/copy_rate"] for row in rows if "twoclocks/copy_rate" in row} == RATES
    (image,) = [row["twoclocks/copies"] for row in rows if "twoclocks/copies" in row]
    assert (Path(TRACKIO_FOLDER) / "media" / image["file_path"]).exists()


def test_hook_writes_scalars_at_every_look_and_the_gallery_at_those_with_copies() -> None:
    class Kept(Tracker):
        def __init__(self) -> None:
            self.steps: list[int] = []
            self.pictures: list[int] = []

        def log(self, scalars: object, step: int) -> None:
            self.steps.append(step)

        def image(self, name: str, picture: object, step: int) -> None:
            assert pixels(picture).size
            self.pictures.append(step)

        def close(self) -> None: ...

        @classmethod
        def around(cls, run: object) -> None: ...

    net, kept, plain = Net(turn=2), Kept(), Kept()
    hook = MonitorHook(new_monitor("never"), sampler, EVERY, model=net, trackers=kept)
    without = MonitorHook(new_monitor("never"), sampler, EVERY, model=net, trackers=[plain], gallery=False)
    for step in range(1, 9):
        net.steps += step == 6  # two calls of a training step
        net.steps += step == 6
        hook.step(step)
        without.step(step)
    assert (kept.steps, kept.pictures) == ([4, 8], [8]) and (plain.steps, plain.pictures) == ([4, 8], [])


def test_trackers_are_found_by_name_and_around_runs(tmp_path: Path) -> None:
    assert (
        trackers_of(()) == [] and tracker_around("comet", None) is None and tracker_around("tensorboard", None) is None
    )
    writer = torch.utils.tensorboard.SummaryWriter(str(tmp_path))
    assert tracker_around("tensorboard", writer).writer is writer
    writer.close()


def test_runs_that_a_framework_has_begun_are_used(tmp_path: Path) -> None:
    own = MLflow(place=str(tmp_path / "mlruns"))
    around = tracker_around("mlflow", (own.client, own.run_id))  # as Lightning's logger has them
    around.log({"a": 1.0}, 3)
    assert [(one.step, one.value) for one in own.client.get_metric_history(own.run_id, "a")] == [(3, 1.0)]
    assert tracker_around("mlflow", None) is None and tracker_around("trackio", None) is None
    begun = TRACKERS.create("trackio", project=tmp_path.name)
    assert tracker_around("trackio", None).run is begun.run
    begun.close()
    assert tracker_around("trackio", None) is None and tracker_around("wandb", None) is None
