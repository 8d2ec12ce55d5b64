"""Error rates of `twoclocks widen`: simulated experiments of which the truth is known.

    python studies/widen_errors.py --out results/widen_errors.json

Onsets are log-normal around the effect of their arm and of their seed, and are read at log-spaced evaluations. For each
design: how often any intervention without effect is called found (family-wise error, at most 5% is promised), how often
the 95% intervals hold the truth, and how often an effect of a factor of 2 is found.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.clocks.effects import Effect, Span, fit_effects
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

BETWEEN = 0.3  # standard deviation of ln τ between seeds, which pairing takes out
MIDDLE = 1000.0  # steps: the onset of the base
DELAY = 20.0  # of interventions whose runs end before their onset


@dataclass(frozen=True)
class Design:
    """A kind of experiment; interventions have no effect, but the first and those that are ``delayed``."""

    name: str
    seeds: int = 3
    interventions: int = 4
    scatter: float = 0.15  # of ln τ between runs of one seed
    spacing: float = 0.14  # of evaluations, in ln step
    factor: float = 1.0  # effect of the first intervention
    end: float = math.inf  # last step of all runs
    last_scatter: float = 1.0  # times the scatter, of the last intervention
    unfinished: int = 0  # interventions that lack the run of the last seed
    delayed: int = 0  # interventions, after the first, that delay the onset by a factor of 20


DESIGNS = (
    Design("no effect"),
    Design("no effect, 12 interventions", interventions=12),
    Design("no effect, 5 seeds", seeds=5),
    Design("no effect, scatter below the spacing of evaluations", scatter=0.02),
    Design("no effect, one intervention scatters three times as much", scatter=0.1, last_scatter=3.0),
    Design("no effect, half of the interventions lack one seed of three", unfinished=2),
    Design("no effect in half of the interventions, in the others never by the end", delayed=2, end=4000.0),
    Design("factor 2", factor=2.0),
    Design("factor 2, others never by the end or lack a seed", factor=2.0, delayed=1, unfinished=2, end=4000.0),
    Design("factor 2, 12 interventions", interventions=12, factor=2.0),
    Design("factor 2, runs end before half of its onsets", factor=2.0, end=1900.0),
)


def simulated(design: Design, rng: np.random.Generator) -> dict[str, Effect]:
    """The effects that one experiment of a design finds."""
    seeds: list[int] = []
    arms: list[str | None] = []
    times: list[Span] = []
    for seed in range(design.seeds):
        block = rng.normal(0, BETWEEN)
        for arm in range(design.interventions + 1):
            scatter = design.scatter * (design.last_scatter if arm == design.interventions else 1.0)
            if seed == design.seeds - 1 and 0 < arm <= design.unfinished:
                continue
            effect = math.log(true_factor(design, arm))
            log = math.log(MIDDLE) + block + effect + rng.normal(0, scatter)
            seeds.append(seed)
            arms.append(str(arm) if arm else None)
            times.append(read_onset(log, design))
    return fit_effects(seeds, arms, times)


def true_factor(design: Design, arm: int) -> float:
    """By what an arm delays the onset; the base is arm 0."""
    if arm == 1:
        return design.factor
    return DELAY if 1 < arm <= 1 + design.delayed else 1.0


def read_onset(log: float, design: Design) -> Span:
    """The two evaluations around an onset; open where the run ends before."""
    before = math.floor(log / design.spacing) * design.spacing
    if math.exp(before + design.spacing) <= design.end:
        return Span(math.exp(before), math.exp(before + design.spacing))
    return Span(math.exp(math.floor(math.log(design.end) / design.spacing) * design.spacing), math.inf)


def error_rates(design: Design, repeats: int, seed: int) -> dict[str, Any]:
    """Family-wise error, coverage of intervals and power of a design."""
    rng = np.random.default_rng(seed)
    errors = held = asked = found = 0
    for _ in range(repeats):
        effects = simulated(design, rng)
        truths = {name: true_factor(design, int(name)) for name in effects}
        errors += any(one.is_found for name, one in effects.items() if truths[name] == 1.0)
        held += sum(one.interval[0] <= truths[name] <= one.interval[1] for name, one in effects.items())
        asked += len(effects)
        found += effects["1"].is_found and effects["1"].ratio > 1
    power = None if design.factor == 1.0 else found / repeats
    rates = {"family_wise_error": errors / repeats, "coverage": held / asked, "power": power}
    return {**{key: value for key, value in asdict(design).items() if value != math.inf}, **rates, "repeats": repeats}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for design in DESIGNS:
        rows.append(error_rates(design, arguments.repeats, arguments.seed))
        print(rows[-1], flush=True)
    if arguments.out is not None:
        about = {
            "what": "error rates of paired experiments with a known truth",
            "command": f"python studies/widen_errors.py --repeats {arguments.repeats} --out results/widen_errors.json",
        }
        here = {"commit": commit(), "versions": versions(), "machine": machine("cpu")}
        write_json(arguments.out, {**about, **here, "seed": arguments.seed, "designs": rows})


if __name__ == "__main__":
    main()
