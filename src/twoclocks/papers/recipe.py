"""A recipe: the runs that a claim of a paper needs, and the judgement of what they measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from twoclocks.core.errors import UnknownNameError
from twoclocks.core.registry import Registry
from twoclocks.evaluation import Invalid, PartAccuracy, SampleAccuracy, SampleMemorization, ValidNew
from twoclocks.runs import Run, RunSettings, load_run, run
from twoclocks.runs.columns import LOSS, STEP
from twoclocks.store.files import write_json
from twoclocks.store.run_directory import RunDirectory

# Stored, with the accuracies of all kinds of pieces.
CURVES = {STEP, LOSS, SampleAccuracy.name, SampleMemorization.name, ValidNew.name, Invalid.column(0.5)}

LEAN = {"keep_weights": 0}  # a recipe reads clocks only
AS_PRINTED = {"confidence": 0}  # the papers read clocks off the measured fractions; a comparison must do the same

Verdict = Literal["reproduced", "not reproduced", "unfinished"]


@dataclass(frozen=True)
class Measurement:
    verdict: Verdict
    sentence: str  # what was measured, for tables
    values: dict[str, Any]


class Recipe(ABC):
    """Subclass, register, and the claim appears in the README's table once it has been run."""

    claim: ClassVar[str]  # its id in the list of claims
    paper: ClassVar[str]  # what the paper says
    criterion: ClassVar[str]  # what counts as reproduced

    @abstractmethod
    def settings(self, device: str) -> dict[str, RunSettings]:
        """The runs, by label."""

    def prepared(self, settings: RunSettings) -> RunSettings:
        """The settings of a run as it begins: where something is to be searched for first."""
        return settings

    @abstractmethod
    def measure(self, runs: Mapping[str, Run]) -> Measurement:
        """Judge finished (or unfinished) runs."""


RECIPES: Registry[Recipe] = Registry("recipe", Recipe)


def execute(
    name: str, device: str, work: Path, out: Path, report: Callable[[str], None], only: Sequence[str] = ()
) -> Measurement:
    """Run what is not finished in ``work``, or ``only`` some of it; after every run, record what is known so far."""
    recipe = RECIPES.get(name)()
    runs: dict[str, Run] = {}
    work.mkdir(parents=True, exist_ok=True)
    chosen = recipe.settings(device)
    if unknown := set(only) - set(chosen):
        raise UnknownNameError("--only", unknown.pop(), chosen)
    for label in only or chosen:
        path = work / label
        begun = RunDirectory(path).begun and type(recipe).prepared is not Recipe.prepared
        settings = load_run(path).settings if begun else recipe.prepared(chosen[label])
        runs[label] = run(settings, path)
        report(f"{label}: {runs[label].clocks().rule} | {runs[label].clocks().memory} | {runs[label].clocks()}")
        measured = judge(recipe, runs)
        write_json(out, record(name, recipe, runs, measured, device))
    return measured


def judge(recipe: Recipe, runs: Mapping[str, Run]) -> Measurement:
    """The recipe's own judgement, except that runs which did not finish decide nothing."""
    measured = recipe.measure(runs)
    done = all(one.status["status"] == "finished" for one in runs.values())
    return measured if done else replace(measured, verdict="unfinished")


def common(values: Iterable[Any]) -> Any:
    """The one value that all runs share, or None."""
    found = list(values)
    return found[0] if all(value == found[0] for value in found) else None


def record(name: str, recipe: Recipe, runs: Mapping[str, Run], measured: Measurement, device: str) -> dict[str, Any]:
    return {
        "recipe": name,
        "claim": recipe.claim,
        "paper": recipe.paper,
        "criterion": recipe.criterion,
        "verdict": measured.verdict,
        "measured": measured.sentence,
        "values": measured.values,
        "command": f"python -m twoclocks.papers {name} --device {device} --work DIR --out results/{name}.json",
        **{key: common(one.manifest[key] for one in runs.values()) for key in ("commit", "versions", "machine")},
        "runs": {
            label: {
                **one.clocks().as_json(),
                "status": one.status["status"],
                "seconds": one.status.get("seconds"),
                "settings": one.manifest["settings"],
                "curves": curves_of(one),
            }
            for label, one in runs.items()
        },
    }


def curves_of(one: Run) -> dict[str, list[float | None]]:
    """The curves of a run as a result stores them."""
    stored = CURVES | {PartAccuracy.column(kind) for kind in one.settings.rule.part_counts()}
    columns = {name: values for name, values in one.metrics().items() if name in stored}
    return {name: [None if v != v else round(v, 6) for v in values.tolist()] for name, values in columns.items()}
