"""The base class of recipes: the runs that test a claim of a paper, and the criterion that decides it."""

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

NO_WEIGHTS = {"keep_weights": 0}  # for recipes that need only the clocks
AS_PRINTED = {
    "confidence": 0
}  # the papers' clocks have no confidence bounds; a comparison must use the same definition

Verdict = Literal["reproduced", "not reproduced", "unfinished"]


@dataclass(frozen=True)
class Measurement:
    """What the runs of a recipe showed, and whether that reproduces the claim."""

    verdict: Verdict
    sentence: str  # what was measured, for tables
    values: dict[str, Any]


class Recipe(ABC):
    """A claim and how to test it; register a subclass, and its result appears in the table of claims."""

    claim: ClassVar[str]  # its identifier in the list of claims
    paper: ClassVar[str]  # what the paper says
    criterion: ClassVar[str]  # what counts as reproduced

    @abstractmethod
    def settings(self, device: str) -> dict[str, RunSettings]:
        """Settings of the runs, by label."""

    def prepared(self, settings: RunSettings) -> RunSettings:
        """Final settings of a run, for recipes that must first search for one, such as a learning rate."""
        return settings

    @abstractmethod
    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        """Evaluate the criterion on finished (or unfinished) runs."""


RECIPES: Registry[Recipe] = Registry("recipe", Recipe)


def execute_recipe(
    name: str, device: str, work: Path, out: Path, report: Callable[[str], None], only: Sequence[str] = ()
) -> Measurement:
    """Run the runs of a recipe that are not finished in ``work``; write the result to ``out`` after every run.

    ``only``: labels of the runs, if not all.
    """
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
        write_json(out, result_of(name, recipe, runs, measured, device))
    return measured


def judge(recipe: Recipe, runs: Mapping[str, Run]) -> Measurement:
    """The recipe's measurement; its verdict is "unfinished" while a run is not finished."""
    measured = recipe.measure_claim(runs)
    done = all(one.status["status"] == "finished" for one in runs.values())
    return measured if done else replace(measured, verdict="unfinished")


def shared_value(values: Iterable[Any]) -> Any:
    """The value that all runs share, or None if they differ."""
    found = list(values)
    return found[0] if all(value == found[0] for value in found) else None


def result_of(name: str, recipe: Recipe, runs: Mapping[str, Run], measured: Measurement, device: str) -> dict[str, Any]:
    """The content of results/NAME.json: the claim, its verdict, and clocks, settings and curves of every run."""
    return {
        "recipe": name,
        "claim": recipe.claim,
        "paper": recipe.paper,
        "criterion": recipe.criterion,
        "verdict": measured.verdict,
        "measured": measured.sentence,
        "values": measured.values,
        "command": f"python -m twoclocks.papers {name} --device {device} --work DIR --out results/{name}.json",
        **{key: shared_value(one.manifest[key] for one in runs.values()) for key in ("commit", "versions", "machine")},
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
