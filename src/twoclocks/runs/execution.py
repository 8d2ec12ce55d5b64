"""Execute one run: start it, continue it from its last checkpoint, or return it if it is finished."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from twoclocks.core.errors import SettingError, UnavailableError, UserError
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.fork import check_fork, copy_run, differences, fork_path, in_words, settings_of
from twoclocks.runs.load import Run, load_run
from twoclocks.runs.memory import check_memory
from twoclocks.runs.session import CHECKPOINT_SECONDS, Observer, Session
from twoclocks.runs.settings import RunSettings
from twoclocks.runs.size import size_of
from twoclocks.store import files
from twoclocks.store.folders import check_free
from twoclocks.store.lock import WriterLock
from twoclocks.store.run_directory import RunDirectory
from twoclocks.training.stopping import StopRequest

MENTIONED = 1e8  # bytes of stored weights from which on a line is logged

log = logging.getLogger("twoclocks")


def run(
    settings: RunSettings,
    out: Path | str,
    observe: Observer = lambda progress: None,
    *,
    fork: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Run:
    """Train and evaluate as the settings say, and store everything in the run directory ``out``.

    An unfinished run in ``out`` is continued, exactly as if it had never stopped; a finished one is returned as it is;
    one with other settings is refused, or with ``fork`` copied to a folder beside it and continued there with these.
    A crash costs at most ``checkpoint_seconds`` of training, or 20 times what storing a checkpoint takes.
    """
    if not checkpoint_seconds >= 0:
        raise SettingError("checkpoint_seconds", checkpoint_seconds, "use a number of at least 0")
    directory, source = choose(settings, Path(out), fork)
    if directory.finished:
        log.info(f"{directory.path}: is finished; nothing to do")
        return load_run(directory.path)
    with StopRequest() as stop, named_memory_errors(), threads_restored():
        experiment = build_experiment(settings, stop)
        if source is not None and not directory.begun:
            check_space(settings, directory.path)
            copy_run(source, directory.path, experiment.manifest(), settings.training.steps)
        with open_session(experiment, directory.path, stop, observe, checkpoint_seconds) as session:
            if session is not None:
                session.train()
        stop.check()  # a signal that came too late for this run still stops what would come next
    return load_run(directory.path)


def build_experiment(settings: RunSettings, stop: StopRequest, textbook: bool = False) -> Experiment:
    """The parts of a run, after a check that they fit into memory; nothing is written."""
    with stop.at_once():
        check_device(settings.training.device)
        check_memory(settings)
        experiment = Experiment(settings, textbook)
        experiment.dry_run()
    return experiment


@contextmanager
def open_session(
    experiment: Experiment,
    path: Path,
    stop: StopRequest,
    observe: Observer,
    checkpoint_seconds: float,
    together: int = 1,
) -> Iterator[Session | None]:
    """The session of a run in its directory, which this process has locked meanwhile; None: the run is finished."""
    settings = experiment.settings
    check_space(settings, path)
    files.make_folder(path)
    with WriterLock(path) as lock:
        choose(settings, path, fork=False)  # another process may have begun a run here meanwhile
        directory = RunDirectory(path, guard=lock.check)
        if not directory.begun:
            directory.begin(experiment.manifest())
        done = directory.finished
        yield None if done else Session(experiment, directory, lock, stop, observe, checkpoint_seconds, together)


def choose(settings: RunSettings, out: Path, fork: bool) -> tuple[RunDirectory, RunDirectory | None]:
    """The directory to write, and the one to copy into it first, if any."""
    directory = RunDirectory(out)
    if not directory.begun:
        check_free(out)
        return directory, None
    changed = differences(settings_of(directory), settings)
    if not changed:
        return directory, None
    if not fork:
        raise UserError(
            f"--out: {str(out)!r} holds a run with other settings: {in_words(changed)}; choose another folder, or "
            "--fork for a copy that goes on from its last checkpoint"
        )
    check_fork(directory, settings)
    copy, _ = choose(settings, fork_path(out, settings), fork=False)
    return copy, directory


def check_space(settings: RunSettings, path: Path) -> None:
    """Refuse a run whose checkpoints, samples and rows do not fit on the disk, before training begins."""
    size = size_of(settings)
    if size.stored_weights > MENTIONED:
        each = f"weights of {len(settings.weight_steps)} evaluations, {size.weights / 1e6:,.0f} MB each"
        log.info(f"{path}: will store the {each}: {size.stored_weights / 1e9:.1f} GB (evaluation.keep_weights)")
    need = size.whole - sum(file.stat().st_size for file in path.rglob("*") if file.is_file())  # what is there already
    place = next(parent for parent in (path, *path.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(place).free
    if free < need:
        raise UserError(
            f"--out: {str(path)!r} needs about {need / 1e6:,.0f} MB and its disk has {free / 1e6:,.0f} MB left; "
            "free some space, choose another disk, or lower evaluation.keep_weights or model.width"
        )


@contextmanager
def threads_restored() -> Iterator[None]:
    """Restore torch's number of threads, which a run changes."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def named_memory_errors() -> Iterator[None]:
    """Turn torch's out-of-memory errors into one line that says what to make smaller."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_memory_error(error):
            raise OutOfMemoryError from error
        raise


def is_memory_error(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch and the GPU libraries have several such errors."""
    words = ("allocate memory", "out of memory", "ALLOC_FAILED")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(word in str(error) for word in words)


class OutOfMemoryError(UserError):
    """The memory of the machine or of the GPU is too small, or other processes use it."""

    def __init__(self) -> None:
        fix = "use a smaller training.batch, evaluation.samples, data.n or model.width"
        super().__init__(f"memory: the run does not fit; {fix}")


def check_device(device: str, name: str = "training.device") -> None:
    """Raise where this machine does not have the device; ``name`` is the setting or the option that asks for it."""
    try:
        kind = torch.device(device).type
        available = kind == "cpu" or (kind == "cuda" and torch.cuda.is_available())
        if available:
            torch.empty(1, device=device)
            return
    except RuntimeError as error:
        if is_memory_error(error):
            raise
    found = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    raise UnavailableError(name, device, f"available: {', '.join(found)}")
