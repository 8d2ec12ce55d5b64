"""Runs read back from disk, with the numbers that the command line prints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.series import Series
from twoclocks.clocks.settings import ClockSettings
from twoclocks.clocks.window import Clocks
from twoclocks.core.cached import cached
from twoclocks.core.config import build
from twoclocks.core.counts import hits_key, hits_of, is_stored, values_of
from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.core.plugins import missing_imports, needs_imports
from twoclocks.data.encodings import Decoded
from twoclocks.evaluation.evaluator import Evaluator
from twoclocks.evaluation.metric import Column
from twoclocks.evaluation.samples import Outcome
from twoclocks.runs.columns import Weights, clock_columns, counts_samples
from twoclocks.store.checksums import DamagedError, Kinds, require
from twoclocks.store.run_directory import RunDirectory, Snapshot

if TYPE_CHECKING:  # it imports torch, and the clocks can be read without it
    from twoclocks.runs.settings import RunSettings

Columns = dict[str, npt.NDArray[np.float64]]

# What every reader counts on; a manifest with a right SHA-256 may still be another document.
MANIFEST: dict[str, Kinds] = {"settings": dict, "metrics": list}
SECTIONS: dict[str, Kinds] = {
    "name": str,
    **dict.fromkeys(("rule", "data", "model", "objective", "training", "evaluation"), dict),
}
SEEDED = ("training", "data", "evaluation")
DONE = ("finished", "diverged")  # how runs end; one that diverged would diverge again
COLUMN: dict[str, Kinds] = {"name": str, "about": str, "direction": str}
DERIVED = {"model", "part_kinds", "copy_chance", "validity_chance"}


@dataclass(frozen=True)
class Run:
    """A run directory with its settings, metrics, clocks and stored samples."""

    path: Path

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(self.path)

    def reading(self) -> RunReading:
        """The same run, whose rows are read once, at the first question; what is written later is not in it."""
        return RunReading(self.path)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        found = self.directory.manifest()
        try:
            require(found, MANIFEST)
            require(found["settings"], SECTIONS)
            require(found["settings"]["data"], {"n": int})
            for section in SEEDED:
                require(found["settings"][section], {"seed": int})
            for column in found["metrics"]:
                require(column, COLUMN)
        except DamagedError as error:
            raise DamagedError(f"{self.path / 'manifest.json'}: is damaged ({error}); restore it") from None
        return found

    @property
    def unproven_end(self) -> str:
        """Why rows may be missing at the end of the run, as when its status is damaged; empty where none are."""
        return self.directory.rows_and_end()[1]

    @property
    def status(self) -> dict[str, Any]:
        """How far the run is: ``status`` in one word, ``reason``, ``seconds`` and ``attempts``."""
        return self.directory.status()

    @cached_property
    def settings(self) -> RunSettings:
        """All settings, with their components. Files that registered some of them are never imported from here."""
        from twoclocks.runs.settings import RunSettings

        missing = missing_imports(self.manifest.get("imports", []))
        try:
            return build(RunSettings, self.manifest["settings"])
        except UserError as error:
            raise needs_imports(self.path, missing) if missing else error from None

    @cached_property
    def stored_settings(self) -> dict[str, Any]:
        """The settings as plain values, which need neither torch nor the components' code."""
        found: dict[str, Any] = self.manifest["settings"]
        return found

    @cached_property
    def derived(self) -> dict[str, Any]:
        """``RunSettings.derived`` as stored; runs of earlier versions stored none, so it is computed and cached."""
        found: dict[str, Any] = self.manifest.get("derived") or {}
        if not found.keys() >= DERIVED:
            identity = json.dumps(self.stored_settings, sort_keys=True)
            name = f"derived-{hashlib.sha256(identity.encode()).hexdigest()}"
            found = cached(name, lambda: self.settings.derived())  # noqa: PLW0108 (the settings import torch)
        return found

    @property
    def label(self) -> str:
        """Its name, with that of its folder where they differ, since cells of a sweep and forks share a name."""
        name, folder = self.stored_settings["name"], self.path.absolute().name
        return name if folder == name else f"{name} · {folder}"

    @property
    def title(self) -> str:
        """The model with its width and depth, such as ``DiT 64×3``."""
        return str(self.derived["model"])

    @property
    def is_evaluated(self) -> bool:
        """Whether there is an evaluation; a damaged run raises."""
        return any(True for _ in self.directory.metrics())

    def rows(self) -> list[dict[str, float]]:
        """One row per evaluation as it is stored, proportions as counts (``twoclocks.core.counts``)."""
        found = list(self.directory.metrics())
        if not found:
            status = self.status["status"]
            raise UserError(f"{self.path}: holds no evaluation (status: {status}); there are no clocks to read")
        return found

    def metrics(self) -> Columns:
        """Columns over the evaluations: ``step``, ``loss``, one per metric; proportions as floats.

        A column that some evaluations lack, such as one of a metric that was added later, is NaN there.
        """
        with self.evaluations():
            rows = [values_of(row) for row in self.rows()]
        keys = dict.fromkeys(key for row in rows for key in row)
        return {key: np.array([row.get(key, np.nan) for row in rows], dtype=np.float64) for key in keys}

    def hits(self, name: str) -> list[int]:
        """The hits of a proportion at every evaluation, out of samples or, for pieces, out of pieces."""
        rows = self.rows()
        if not any(is_stored(row, name) for row in rows):
            raise UnknownNameError("metric", name, self.metrics())
        if not all(hits_key(name) in row or (name in row and counts_samples(name)) for row in rows):
            fix = f"read its values as metrics()[{name!r}]"
            raise UserError(f"{self.path}: column {name!r} has evaluations with no hits; {fix}")
        return [hits_of(row, name) for row in rows]

    def timings(self) -> Columns:
        """Columns ``step``, ``seconds`` since the start and ``evaluation_seconds``, which depend on the machine."""
        rows = self.directory.timings.rows()
        return {key: np.array([row[key] for row in rows], dtype=np.float64) for key in (rows[0] if rows else ())}

    @property
    def step_seconds(self) -> float:
        """Seconds of training per step, without evaluations."""
        timings = self.timings()
        training = timings["seconds"][-1] - timings["evaluation_seconds"].sum()
        return float(training / max(timings["step"][-1], 1))

    @property
    def was_together(self) -> bool:
        """Whether its process trained other runs at the same time, so that its seconds are also theirs."""
        return any(one.get("together", 1) > 1 for one in self.status.get("attempts", ()))

    def metric(self, name: str) -> Column:
        """Meaning and chance levels of a column."""
        known = {entry["name"]: entry for entry in self.manifest["metrics"]}
        if name not in known:
            raise UnknownNameError("metric", name, known)
        return Column(**known[name])

    def series(self, weights: Weights = "raw") -> Series:
        """The counts from which the clocks are read; of averaged weights, at the evaluations that have them."""
        columns = clock_columns(self.derived["part_kinds"], weights)
        with self.evaluations():
            rows = self.rows()
            if weights != "raw":
                self.check_weights(weights)
                rows = [row for row in rows if is_stored(row, columns.copied)]
            return Series.from_rows(rows, columns)

    @property
    def has_averages(self) -> bool:
        """Whether averaged weights were evaluated beside the raw ones (``training.average``)."""
        column = clock_columns((), "averaged").copied
        asked = bool(self.stored_settings["training"].get("average"))  # most runs need not be read for this
        return asked and any(is_stored(row, column) for row in self.rows())

    def check_weights(self, weights: str) -> None:
        if weights not in get_args(Weights):
            raise SettingError("weights", weights, f"use one of {', '.join(get_args(Weights))}")
        if weights == "averaged" and not self.has_averages:
            fix = "use raw, or train with training.average, for example 0.999"
            raise SettingError("weights", weights, f"{self.path} has no evaluation of averaged weights; {fix}")

    @contextmanager
    def evaluations(self) -> Iterator[None]:
        """DamagedError where rows with right checksums are no evaluations."""
        try:
            yield
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            problem = f"its rows are no evaluations ({type(error).__name__}: {error})"
            raise DamagedError(f"{self.directory.journal.path}: {problem}; restore the file") from None

    def clocks(self, changes: bool = True, weights: Weights = "raw") -> Clocks:
        """The onsets by the run's own settings; change points cost time and may be left out.

        ``weights``: ``"averaged"`` for those of the moving average of the weights (``training.average``).
        """
        clocks = build(ClockSettings, self.stored_settings.get("clocks", {}), "clocks")
        return clocks.read(self.series(weights), self.copy_chance, changes)

    @property
    def copy_chance(self) -> float:
        """The probability that a sample of the rule's own generator is a copy."""
        return float(self.derived["copy_chance"])

    @cached_property
    def evaluator(self) -> Evaluator:
        from twoclocks.runs.evaluators import make_evaluator  # imports all components; tables of clocks need none

        return make_evaluator(self.settings, self.settings.data.training_set(self.settings.rule))

    def samples(self, step: int) -> tuple[Decoded, Outcome]:
        """The samples stored at an evaluation, and which of them are valid and which are copies."""
        stored = self.directory.read_artifact("samples", step)
        decoded = Decoded(stored["symbols"].long(), stored["distance"])
        return decoded, self.evaluator.judge(decoded)


@dataclass(frozen=True)
class RunReading(Run):
    """A run whose rows and clocks are read once, at the first question, however often they are asked for."""

    @cached_property
    def directory(self) -> RunDirectory:
        return Snapshot(self.path)

    @cached_property
    def _series(self) -> Series:
        return super().series()

    @cached_property
    def _columns(self) -> Columns:
        return super().metrics()

    @cached_property
    def _clocks(self) -> Clocks:
        return super().clocks()

    def reading(self) -> RunReading:
        return self

    def metrics(self) -> Columns:
        return self._columns

    def series(self, weights: Weights = "raw") -> Series:
        return self._series if weights == "raw" else super().series(weights)

    def clocks(self, changes: bool = True, weights: Weights = "raw") -> Clocks:
        return self._clocks if weights == "raw" else super().clocks(changes, weights)


def load_run(path: Path | str) -> Run:
    """The run in a directory that ``twoclocks run`` or ``tc.run`` wrote.

    Nothing that the directory holds or names is executed. Where the run was made with files of the user, import them
    first: ``twoclocks.core.plugins.import_file("my_rule.py")``.
    """
    return Run(RunDirectory.open(Path(path)).path)
