"""What each command does: reads its arguments, calls the library, prints. Imports wait until a command needs them."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twoclocks.core.errors import UserError

if TYPE_CHECKING:
    from twoclocks.runs import Run

EXIT_DAMAGED, EXIT_FAILED = 6, 7
DEMO_PRESETS = ("demo", "demo-gpt")


def demo_command(arguments: argparse.Namespace) -> None:
    from twoclocks.dissection import dissect_run
    from twoclocks.report.console import show_clocks, watch, watch_measurements
    from twoclocks.report.page import write_report
    from twoclocks.report.summary import summarise
    from twoclocks.runs import load_settings, run
    from twoclocks.store import check_free

    chosen = [load_settings(preset, arguments.overrides) for preset in DEMO_PRESETS]
    check_free(arguments.out, besides=[*(settings.name for settings in chosen), "report.html", "report.png"])
    if len({settings.name for settings in chosen}) < len(chosen):
        raise UserError(f"name: {chosen[0].name!r} would name both runs of the demo; leave it out")
    runs = []
    for settings in chosen:
        with watch(settings) as observe:
            runs.append(run(settings, arguments.out / settings.name, observe))
    for done in runs:
        with watch_measurements() as report:
            dissect_run(done, report=report)
    page = write_report(runs, arguments.out / "report.html")
    if arguments.json:
        print(json.dumps({"runs": [summarise(run) for run in runs], "report": str(page)}, indent=2))
    else:
        show_clocks(runs)
        print(f"Report: {page}")


def run_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_clocks, watch
    from twoclocks.report.summary import summarise
    from twoclocks.runs import load_settings, run

    settings = load_settings(arguments.preset or None, arguments.overrides)
    out = arguments.out if arguments.out is not None else Path("runs") / settings.name
    with watch(settings) as observe:
        done = run(settings, out, observe, fork=arguments.fork, checkpoint_seconds=arguments.checkpoint_seconds)
    if arguments.json:
        print(json.dumps(summarise(done), indent=2))
    else:
        show_clocks([done])
        if "stopped_at" in done.status:
            print(f"JobResult at step {done.status['stopped_at']:,}: {done.status['reason']}")
        print(f"Run: {done.path}")


def sweep_command(arguments: argparse.Namespace) -> int:
    from twoclocks.report.console import show_rows, watch_sweep
    from twoclocks.sweeps import Sweep, executor_of, read_plan, run_sweep

    executor, overrides = executor_of(arguments.executor, arguments.workers, arguments.overrides)
    plan = read_plan(Path(arguments.spec), overrides)
    sweep = Sweep(plan, arguments.out if arguments.out is not None else Path("sweeps") / plan.name)
    if not arguments.status and (words := sweep.disk_notice()):
        logging.getLogger("twoclocks").info(words)
    if not arguments.plan and not arguments.status:
        with watch_sweep() as observe:
            sweep = run_sweep(
                plan,
                sweep.root,
                executor,
                observe,
                retries=arguments.retries,
                checkpoint_seconds=arguments.checkpoint_seconds,
            )
    if arguments.json:
        print(json.dumps(sweep.status(), indent=2))
    else:
        show_rows(sweep.lines())
        print(sweep.summary())
    return EXIT_FAILED if sweep.counts()["failed"] else 0


def load_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in these folders, each once."""
    from twoclocks.runs import load_run
    from twoclocks.store import runs_in

    paths = {path.absolute(): path for folder in folders for path in runs_in(folder)}
    return [load_run(path) for path in paths.values()]


def clocks_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_clocks, show_rows
    from twoclocks.report.summary import control_rows, onset_rows, summarise

    runs = load_runs(arguments.runs)
    if arguments.json:
        print(json.dumps([summarise(run, arguments.controls) for run in runs], indent=2))
        return
    show_clocks(runs)
    print("\nAll onsets")
    rows = [row for run in runs for row in onset_rows(run)]
    told = {(row["onset"], row.pop("definition")): row.pop("status") for row in rows}  # the same for most runs
    show_rows(rows)
    for onset, definition in told:
        print(f"{onset}: {definition}")
    if arguments.controls:
        print("\nWhat local statistics of the training set alone would score")
        show_rows([row for run in runs for row in control_rows(run)])


def fit_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.laws import fit_runs
    from twoclocks.report.console import show_rows
    from twoclocks.report.laws import law_rows

    laws = fit_runs(load_runs(arguments.runs), arguments.clock, arguments.threshold)
    if arguments.json:
        print(json.dumps(laws.as_json(), indent=2))
        return
    print(f"{arguments.clock} = a·N^α over {laws.pooled.points} runs: {laws.pooled.definition}")
    show_rows(law_rows(laws))
    print(f"Steps or samples seen: {laws.collapse}")
    for reason in laws.left_out:
        print(f"Left out: {reason}")
    for label, split in laws.seeds.items():
        print(f"Spread over crossed seeds, {label}: {split}")


def forecast_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.forecasts import forecast_running, forecast_sizes
    from twoclocks.report.console import show_rows

    runs = load_runs(arguments.runs)
    if arguments.n is not None and arguments.pilots:
        raise UserError("--pilots: with --n the runs themselves are the pilots; leave one of both out")
    if arguments.n is not None:
        found, judged = forecast_sizes(runs, arguments.n)
        named = [(f"N = {n:,}", forecast, judged) for n, forecast in zip(arguments.n, found, strict=True)]
    else:
        pilots = load_runs(arguments.pilots)
        named = [(str(run.path), *forecast_running(run, pilots)) for run in runs]
    if arguments.json:
        plain = [{"of": name, **one.as_json(), "judged": judged.as_json()} for name, one, judged in named]
        print(json.dumps(plain, indent=2))
        return
    show_rows(
        [
            {"of": name, "τ_mem, median (95%)": str(one), "from": one.basis, "on known answers": str(judged)}
            for name, one, judged in named
        ]
    )


def dissect_command(arguments: argparse.Namespace) -> None:
    from twoclocks.core.config import parse_overrides
    from twoclocks.dissection.execution import choose_views, dissect_run
    from twoclocks.report.console import watch_measurements
    from twoclocks.report.page import check_page, write_report
    from twoclocks.runs import load_run
    from twoclocks.runs.execution import check_device

    check_page(arguments.out)
    views = choose_views(arguments.views, parse_overrides(arguments.overrides))
    if arguments.device is not None:
        check_device(arguments.device)
    run = load_run(arguments.run)
    with watch_measurements() as report:
        found = dissect_run(run, views, arguments.device, report, required=arguments.views or ())
    page = write_report([run], arguments.out, {run.path: found})
    for note in found.notes:
        logging.getLogger("twoclocks").warning(note)
    if arguments.json:
        print(json.dumps({"run": str(run.path), **found.as_json(), "report": str(page)}, indent=2, allow_nan=False))
        return
    for name, info in found.infos.items():
        print(f"\n{name}")
        for sentence in info.sentences():
            print(f"  {sentence}")
    for name, reason in found.refused.items():
        print(f"\n{name}: not here: {reason}")
    print(f"\n{found.measured:,} measurements taken, {found.known:,} known before. Page: {page}")


def twins_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.twins import compare_twins
    from twoclocks.report.console import watch_measurements
    from twoclocks.report.page import check_page, write_report
    from twoclocks.runs import load_run
    from twoclocks.runs.execution import check_device

    check_page(arguments.out)
    if arguments.device is not None:
        check_device(arguments.device)
    first, second = load_run(arguments.first), load_run(arguments.second)
    with watch_measurements("twins") as report:
        found = compare_twins(first, second, arguments.device, arguments.rows, report)
    page = write_report([first, second], arguments.out, twins=[found])
    for note in found.notes:
        logging.getLogger("twoclocks").warning(note)
    sentences = found.sentences()
    if arguments.json:
        plain = {"runs": [str(first.path), str(second.path)], **found.numbers(), "sentences": sentences}
        print(json.dumps({**plain, "report": str(page)}, indent=2, allow_nan=False))
        return
    print(*sentences, f"\nPage: {page}", sep="\n")


def report_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.page import write_report

    print(write_report(load_runs(arguments.runs), arguments.out))


def verify_command(arguments: argparse.Namespace) -> int:
    from twoclocks.report.console import show_findings
    from twoclocks.store import verify_tree

    found = [findings for folder in arguments.runs for findings in verify_tree(folder)]
    if arguments.json:
        print(json.dumps([{**vars(one), "path": str(one.path)} for one in found], indent=2))
    else:
        show_findings(found)
    return 0 if all(one.intact for one in found) else EXIT_DAMAGED


def bench_command(arguments: argparse.Namespace) -> None:
    from twoclocks.bench import suite
    from twoclocks.report.console import show_rows
    from twoclocks.store.files import make_folder

    parts = arguments.parts if arguments.parts is not None else suite.PARTS
    report = logging.getLogger("twoclocks").info
    if arguments.out is not None:
        make_folder(arguments.out)  # before the minutes that measuring takes
    record = suite.measure(arguments.device, parts, arguments.seconds, report)
    written = suite.write(record, arguments.out) if arguments.out is not None else []
    if arguments.json:
        print(json.dumps(record, indent=2))
        return
    for title, rows in suite.tables(record).items():
        print(f"\n{title}")
        show_rows(rows)
    for path in written:
        print(path)


def list_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_rows
    from twoclocks.report.listing import list_rows, registry_rows
    from twoclocks.sweeps import EXECUTORS

    rows = registry_rows(EXECUTORS) if arguments.kind == "executors" else list_rows(arguments.kind)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show_rows(rows)
