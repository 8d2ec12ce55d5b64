"""Effects of all interventions on both clocks and the window, with p-values for all of these questions together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twoclocks.clocks.effects import Effect, fit_effects, holm
from twoclocks.core.errors import UserError
from twoclocks.widen.experiment import BASE, FEWEST_SEEDS
from twoclocks.widen.run_result import OUTCOMES, Outcome, RunResult

TITLES: dict[Outcome, str] = {"learned": "τ_rule", "memory": "τ_mem", "window": "width of the window"}


def estimate(results: Mapping[str, Sequence[RunResult]]) -> tuple[dict[Outcome, dict[str, Effect]], list[str]]:
    """Effects by outcome and arm, with p-values for all of them together; and what could not be estimated."""
    paired, notes = comparable(results)
    found: dict[tuple[Outcome, str], Effect] = {}
    for outcome in OUTCOMES:
        whole = {name: runs for name, runs in paired.items() if all(outcome in run.times for run in runs)}
        if BASE not in whole:
            notes.append(f"{TITLES[outcome]}: not every run of the base has one, so there is nothing to compare with")
            continue
        rows = [
            (run.seed, None if name == BASE else name, run.times[outcome])
            for name, runs in whole.items()
            for run in runs
        ]
        if len(whole) == 1:
            continue
        try:
            effects = fit_effects(*map(list, zip(*rows, strict=True)))
        except UserError as error:
            notes.append(f"{TITLES[outcome]}: {error}")
            continue
        found |= {(outcome, name): effect for name, effect in effects.items()}
    together: dict[Outcome, dict[str, Effect]] = {}
    for (outcome, name), effect in holm_of(found).items():
        together.setdefault(outcome, {})[name] = effect
    return together, notes


def comparable(results: Mapping[str, Sequence[RunResult]]) -> tuple[dict[str, list[RunResult]], list[str]]:
    """The runs by arm that have a partner in the base, of arms with enough of them; and which arms have not."""
    # A run that diverged copies nothing because it is broken: as a censored time it would look like a delay.
    broken = [name for name, runs in results.items() if any(run.status == "diverged" for run in runs)]
    notes = [f"{name}: a run diverged, so its effects are not estimated" for name in broken]
    seeds = {run.seed for run in results[BASE]}
    paired = {name: [run for run in runs if run.seed in seeds] for name, runs in results.items() if name not in broken}
    few = [name for name, runs in paired.items() if len(runs) < FEWEST_SEEDS]
    for name in few:
        count = len(paired.pop(name))
        notes.append(f"{name}: {count} finished with a run of the base to compare with; {FEWEST_SEEDS} are needed")
    return paired, notes


def holm_of(effects: Mapping[tuple[Outcome, str], Effect]) -> dict[tuple[Outcome, str], Effect]:
    """``holm`` over all outcomes and arms."""
    by_key = {f"{outcome} {name}": (outcome, name) for outcome, name in effects}
    adjusted = holm({key: effects[pair] for key, pair in by_key.items()})
    return {pair: adjusted[key] for key, pair in by_key.items()}
