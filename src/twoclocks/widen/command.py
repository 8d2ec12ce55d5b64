"""The command ``twoclocks widen``: run a paired experiment, print its findings, write its page."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from twoclocks.core.config import flat
from twoclocks.core.errors import SettingError, UserError
from twoclocks.report.console import show_lines, show_rows, watch_sweep
from twoclocks.runs.settings import load_settings
from twoclocks.store.files import make_folder, write_json
from twoclocks.sweeps import executor_of
from twoclocks.sweeps.executors import Executor
from twoclocks.widen.experiment import RESULTS, PairedExperiment, plan_experiment, run_experiment
from twoclocks.widen.findings import read_findings
from twoclocks.widen.intervention import INTERVENTIONS, choose_interventions
from twoclocks.widen.page import lead, notes, write_page
from twoclocks.widen.words import how_judged, quality_table, sentences, table


def widen(arguments: argparse.Namespace) -> int:
    """Make the runs that are missing, then compare."""
    executor, rest = executor_of(arguments.executor, arguments.workers, arguments.overrides)
    known = INTERVENTIONS.names()
    own = {key: value for key, value in rest.items() if key in known}
    base = load_settings(arguments.base, {key: value for key, value in rest.items() if key not in known})
    chosen = choose_interventions(arguments.chosen, own)
    experiment = plan_experiment(base, chosen, arguments.seeds, arguments.longer)
    if arguments.plan:
        return show_plan(experiment, arguments.json)
    root: Path = arguments.out if arguments.out is not None else Path("widen") / base.name
    rows: Path | None = arguments.rows
    if rows is not None and rows.exists() and not rows.is_dir():
        raise SettingError("--rows", str(rows), "it is a file; give the folder of the rows")
    if not arguments.finished:
        train_missing(experiment, root, executor, rows)
    findings = read_findings(experiment, root, rows, incomplete=arguments.finished)
    make_folder(root)
    write_json(root / RESULTS[0], {"command": command_line(arguments), **findings.as_json()})
    page = write_page(findings, root / RESULTS[1])
    if arguments.json:
        return show_json({**findings.as_json(), "sentences": sentences(findings), "page": str(page)})
    show_rows(table(findings))
    show_rows(quality_table(findings))
    show_lines(lead(findings), *sentences(findings), *notes(findings), how_judged(findings), f"Page: {page}")
    return 0


def train_missing(experiment: PairedExperiment, root: Path, executor: Executor, rows: Path | None) -> None:
    """Train what is not finished; UserError if runs failed."""
    with watch_sweep() as observe:
        sweep = run_experiment(experiment, root, executor, observe, rows)
    if sweep is not None and (failures := sweep.failures):
        key, reason = next(iter(failures.items()))
        raise UserError(f"{len(failures)} runs failed, the first is {root / 'cells' / key}: {reason}")


def command_line(arguments: argparse.Namespace) -> str:
    """The command that repeats an experiment; where its runs lie does not matter."""
    words = ["twoclocks", "widen", arguments.base]
    if arguments.chosen is not None:
        words += ["--with", *arguments.chosen]
    words += ["--seeds", str(arguments.seeds), "--longer", f"{arguments.longer:g}"]
    if arguments.finished:
        words.append("--finished")
    rest = {key: value for key, value in arguments.overrides.items() if key != "executor"}
    for key, value in flat(rest).items():
        words += [f"--{key}", json.dumps(value) if not isinstance(value, str) else value]
    return shlex.join(words)


def show_plan(experiment: PairedExperiment, as_json: bool) -> int:
    """The arms, what each changes, and which interventions do not apply."""
    rows = [
        {
            "arm": arm.name,
            "runs": str(experiment.seeds),
            "changes": ", ".join(f"{k} {v}" for k, v in arm.change.items()),
        }
        for arm in experiment.arms
    ]
    if as_json:
        return show_json({"arms": rows, "does_not_apply": dict(experiment.refused)})
    show_rows(rows)
    for name, why in experiment.refused.items():
        show_lines(f"{name} does not apply: {why}")
    steps = experiment.base.training.steps
    show_lines(f"{len(experiment.cells)} runs of at most {steps:,} steps; each ends when copying is certain")
    return 0


def show_json(found: dict[str, Any]) -> int:
    sys.stdout.write(json.dumps(found, indent=2, allow_nan=False) + "\n")
    return 0
