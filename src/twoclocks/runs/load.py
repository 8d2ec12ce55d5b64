"""A run read back from disk: the same numbers that the command line prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.settings import ClockSettings, Series
from twoclocks.clocks.window import Clocks
from twoclocks.core.config import build
from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.core.plugins import missing_imports, needs_imports
from twoclocks.store.run_directory import RunDirectory

if TYPE_CHECKING:  # they import torch, and the clocks can be read without it
    from twoclocks.data.encodings import Decoded
    from twoclocks.evaluation.metric import Metric
    from twoclocks.evaluation.metrics import Evaluator, Outcome
    from twoclocks.runs.settings import RunSettings

Columns = dict[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Run:
    """A run directory with its meaning: settings, metrics, clocks, stored samples."""

    path: Path

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(self.path)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return self.directory.manifest()

    @property
    def status(self) -> dict[str, Any]:
        """How far the writing is: ``status`` in a word, ``reason``, ``seconds`` and ``attempts``."""
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
        """``RunSettings.derived`` as stored; runs of earlier versions stored none, so it is computed."""
        found: dict[str, Any] = self.manifest.get("derived") or self.settings.derived()
        return found

    @property
    def label(self) -> str:
        """Its name, with that of its folder where they differ: cells of a sweep and forks share a name."""
        name, folder = self.stored_settings["name"], self.path.absolute().name
        return name if folder == name else f"{name} · {folder}"

    @property
    def title(self) -> str:
        """The model in words, such as ``DiT 64×3`` for width and depth."""
        return str(self.derived["model"])

    def metrics(self) -> Columns:
        """Columns over the evaluations: ``step``, ``loss``, ``sample_accuracy``, …"""
        rows = list(self.directory.metrics())
        if not rows:
            raise UserError(
                f"{self.path}: holds no evaluation (status: {self.status['status']}); there are no clocks to read"
            )
        return {key: np.array([row[key] for row in rows], dtype=np.float64) for key in rows[0]}

    def timings(self) -> Columns:
        """Columns ``step``, ``seconds`` since the start and ``evaluation_seconds``: the machine's part of the story."""
        rows = self.directory.timings.rows()
        return {key: np.array([row[key] for row in rows], dtype=np.float64) for key in (rows[0] if rows else ())}

    def metric(self, name: str) -> Metric:
        """Meaning and chance levels of a column."""
        known = {entry["name"]: entry for entry in self.manifest["metrics"]}
        if name not in known:
            raise UnknownNameError("metric", name, known)
        from twoclocks.evaluation.metric import Metric

        return Metric(**known[name])

    def series(self) -> Series:
        """What the clocks are read from."""
        return series_of(self.metrics(), self.derived["part_kinds"])

    def clocks(self) -> Clocks:
        """Both clocks, and all other onsets, as the run's own settings say."""
        clocks = build(ClockSettings, self.stored_settings.get("clocks", {}), "clocks")
        return clocks.read(self.series(), self.copy_chance)

    @property
    def copy_chance(self) -> float:
        """How often a sample of the rule's own generator is a copy."""
        return float(self.derived["copy_chance"])

    @cached_property
    def evaluator(self) -> Evaluator:
        """Computes the metrics of samples as the run did."""
        from twoclocks.data.sets import holdout_set, training_set
        from twoclocks.evaluation.metrics import Evaluator

        rule, data = self.settings.rule, self.settings.data
        train = training_set(rule, data.n, data.seed, data.part)
        return Evaluator(rule, train, self.settings.evaluation, holdout_set(rule, train, data.seed))

    def samples(self, step: int) -> tuple[Decoded, Outcome]:
        """The samples stored at an evaluation and what became of each."""
        from twoclocks.data.encodings import Decoded

        stored = self.directory.read_artifact("samples", step)
        decoded = Decoded(stored["symbols"].long(), stored["distance"])
        return decoded, self.evaluator.judge(decoded)


def series_of(columns: Columns, kinds: Iterable[str]) -> Series:
    """Counts at every evaluation. Pieces of one sample are not independent: they count as one trial together."""

    def counts(name: str) -> list[int]:
        return [round(value) for value in (columns[name] * columns["trials"]).tolist()]

    return Series(
        steps=columns["step"],
        trials=columns["trials"],
        copied=counts("sample_memorization"),
        valid=counts("sample_accuracy"),
        gaps=columns["loss_held_out"] - columns["loss_train"] if "loss_held_out" in columns else None,
        gap_errors=columns.get("loss_gap_error"),
        parts={kind: columns[name] * columns["trials"] for kind in kinds if (name := f"{kind}_accuracy") in columns},
    )


def load_run(path: Path | str) -> Run:
    """The run in a directory that ``twoclocks run`` or ``tc.run`` wrote.

    Nothing that the directory holds or names is executed. Where the run was made with files of the user, import them
    first: ``twoclocks.core.plugins.import_file("my_rule.py")``.
    """
    return Run(RunDirectory.open(Path(path)).path)
