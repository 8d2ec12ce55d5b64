"""What samplers of discrete diffusion cost alone: invalid samples of an exact network, by preset and number of levels.

    python benchmarks/sampler.py --out results/sampler.json

The network is the exact posterior of the grammar (belief propagation). Two tokens that change in one step do not know
of each other, so fewer steps make more invalid strings.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from twoclocks.core.config import to_mapping
from twoclocks.objectives.d3pm import D3PM
from twoclocks.papers.exact_sampler import invalid_by_sampler
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.runs import load_settings
from twoclocks.runs.presets import preset_names
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

LEVELS = (50, 100, 250, 500, 1000)


def measured(objective: Any, rule: Any, samples: int) -> dict[str, Any]:
    found, low, high = invalid_by_sampler(objective, rule, samples)
    return {"invalid": found, "interval": [low, high]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    presets, levels = {}, []
    for name in preset_names():
        settings = load_settings(name)
        if isinstance(settings.rule, RandomHierarchy):
            presets[name] = measured(settings.objective, settings.rule, arguments.samples)
            print(name, presets[name], flush=True)
    rule = load_settings("p2-rhm-l3").rule
    for schedule in ("linear", "linear_beta"):
        for count in LEVELS:
            objective = replace(D3PM(schedule=schedule), sampler_levels=count)  # type: ignore[arg-type]
            levels.append({"schedule": schedule, "levels": count, **measured(objective, rule, arguments.samples)})
            print(levels[-1], flush=True)
    write_json(
        arguments.out,
        {
            **{"commit": commit(), "versions": versions(), "machine": machine("cpu")},
            "command": "python benchmarks/sampler.py --out results/sampler.json",
            **{"samples": arguments.samples, "rule": to_mapping(rule), "presets": presets, "levels": levels},
        },
    )


if __name__ == "__main__":
    main()
