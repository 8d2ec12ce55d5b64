"""The commands: each reads its arguments, calls the library and prints. Each imports only what it needs."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from twoclocks.core.errors import UserError

if TYPE_CHECKING:
    from twoclocks.runs import Run

EXIT_DAMAGED, EXIT_FAILED = 6, 7
_DEMO_PRESETS = ("demo", "demo-gpt")
_PAGES, _ENDS = ("why", "report"), (".html", ".png")  # what dissect and report write beside a run
T = TypeVar("T")

log = logging.getLogger("twoclocks")


def demo_command(arguments: argparse.Namespace) -> None:
    from twoclocks.dissection import dissect_run
    from twoclocks.report.console import show_clocks, show_lines, watch, watch_measurements
    from twoclocks.report.page import write_report
    from twoclocks.report.places import check_owner
    from twoclocks.report.summary import summarise
    from twoclocks.runs import load_settings, run
    from twoclocks.store import check_free

    chosen = [load_settings(preset, arguments.overrides) for preset in _DEMO_PRESETS]
    names = [settings.name for settings in chosen]
    pages = [
        f"{page}{end}" for page in ("report", *(f"{name}-{kind}" for name in names for kind in _PAGES)) for end in _ENDS
    ]
    check_free(arguments.out, besides=[*names, *pages])
    if len({settings.name for settings in chosen}) < len(chosen):
        raise UserError(f"name: {chosen[0].name!r} would name both runs of the demo; leave it out")
    page = arguments.out / "report.html"
    if arguments.out.exists():
        check_owner(page, [], unread=[arguments.out / name for name in names])
    runs = []
    for settings in chosen:
        with watch(settings) as observe:
            runs.append(run(settings, arguments.out / settings.name, observe))
    for done in runs:
        with watch_measurements() as report:
            dissect_run(done, report=report)
    write_report(runs, page)
    if arguments.json:
        print(json.dumps({"runs": [summarise(run) for run in runs], "report": str(page)}, indent=2))
    else:
        show_clocks(runs)
        show_lines(f"Open {page} in a browser. Live pages of the same runs: twoclocks serve {arguments.out}")


def run_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_clocks, show_lines, watch
    from twoclocks.report.summary import summarise
    from twoclocks.runs import load_settings, run

    settings = load_settings(arguments.preset, arguments.overrides)
    out = arguments.out if arguments.out is not None else Path("runs") / settings.name
    with watch(settings) as observe:
        done = run(settings, out, observe, fork=arguments.fork, checkpoint_seconds=arguments.checkpoint_seconds)
    if arguments.json:
        print(json.dumps(summarise(done), indent=2))
    else:
        show_clocks([done])
        if "stopped_at" in done.status:
            show_lines(f"Stopped at step {done.status['stopped_at']:,}: {done.status['reason']}")
        show_lines(f"Run: {done.path}")


def sweep_command(arguments: argparse.Namespace) -> int:
    from twoclocks.report.console import show_lines, show_rows, watch_sweep
    from twoclocks.sweeps import Sweep, executor_of, read_plan, run_sweep

    executor, overrides = executor_of(arguments.executor, arguments.workers, arguments.overrides)
    plan = read_plan(Path(arguments.spec), overrides)
    sweep = Sweep(plan, arguments.out if arguments.out is not None else Path("sweeps") / plan.name)
    if not arguments.status and (notice := sweep.disk_notice()):
        log.info(notice)
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
        show_lines(sweep.summary())
    return EXIT_FAILED if sweep.counts()["failed"] else 0


def run_folders(folders: Sequence[Path]) -> list[Path]:
    """The run directories in these folders, each once, whether they can be read or not."""
    from twoclocks.store import runs_in

    return list({path.absolute(): path for folder in folders for path in runs_in(folder)}.values())


def load_runs(folders: Sequence[Path], read: Callable[[Run], T]) -> list[tuple[Run, T]]:
    """The runs in these folders, each once, with what ``read`` returns for it.

    A run that cannot be read costs a line on stderr; without any other run it is an error.
    """
    from twoclocks.runs import load_run

    paths = run_folders(folders)
    found = []
    for path in paths:
        try:
            run = load_run(path)
            found.append((run, read(run)))
        except UserError as error:
            if len(paths) == 1:
                raise
            log.warning(f"left out: {error}")
    if paths and not found:
        raise UserError(
            f"{', '.join(map(str, folders))}: none of the {len(paths)} runs can be read; see the lines above"
        )
    return found


def readable_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in these folders whose settings and evaluations can be read; thousands of them fit into memory."""
    from twoclocks.runs.digest import digest_run

    return [digest for _, digest in load_runs(folders, digest_run)]


def clocks_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_clocks, show_lines, show_rows
    from twoclocks.report.summary import control_rows, onset_rows, summarise

    if arguments.json:
        found = load_runs(arguments.runs, lambda run: summarise(run, arguments.controls))
        print(json.dumps([summary for _, summary in found], indent=2))
        return
    table = load_runs(arguments.runs, onset_rows)
    runs = [run for run, _ in table]
    show_clocks(runs)
    show_lines("", "All onsets")
    rows = [row for _, rows in table for row in rows]
    definitions = {(row["onset"], row.pop("definition")): row.pop("status") for row in rows}  # the same for most runs
    show_rows(rows)
    for onset, definition in definitions:
        show_lines(f"{onset}: {definition}")
    if arguments.controls:
        show_lines("", "What models of local statistics of the training set would score")
        show_rows([row for run in runs for row in control_rows(run)])


def fit_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.laws import fit_runs
    from twoclocks.report.console import show_lines, show_rows
    from twoclocks.report.laws import law_rows

    laws = fit_runs(readable_runs(arguments.runs), arguments.clock, arguments.threshold)
    if arguments.json:
        print(json.dumps(laws.as_json(), indent=2))
        return
    show_lines(f"{arguments.clock} = a·N^α over {laws.pooled.points} runs: {laws.pooled.definition}")
    show_rows(law_rows(laws))
    show_lines(laws.collapse_sentence)
    for reason in laws.left_out:
        show_lines(f"Left out: {reason}")
    for label, split in laws.seeds.items():
        show_lines(f"Spread over crossed seeds, {label}: {split}")


def forecast_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.forecasts import forecast_running, forecast_sizes
    from twoclocks.analysis.laws import NAMES
    from twoclocks.report.console import show_rows

    if arguments.n is not None and arguments.pilots:
        raise UserError("--pilots: with --n the runs themselves are the pilots; use only one of the two options")
    runs = readable_runs(arguments.runs)
    if arguments.n is not None:
        found, judged = forecast_sizes(runs, arguments.n, arguments.clock)
        named = [(f"N = {n:,}", forecast, judged) for n, forecast in zip(arguments.n, found, strict=True)]
    else:
        pilots = readable_runs(arguments.pilots)
        named = [(str(run.path), *forecast_running(run, pilots, arguments.clock)) for run in runs]
    if arguments.json:
        plain = [{"of": name, **one.as_json(), "judged": judged.as_json()} for name, one, judged in named]
        print(json.dumps(plain, indent=2))
        return
    show_rows(
        [
            {
                "of": name,
                f"{NAMES[arguments.clock]}, median (95%)": str(one),
                "from": one.basis,
                "on known answers": str(judged),
            }
            for name, one, judged in named
        ]
    )


def dissect_command(arguments: argparse.Namespace) -> None:
    from twoclocks.dissection.execution import choose_views, dissect_run
    from twoclocks.report.console import show_lines, watch_measurements
    from twoclocks.report.page import write_report
    from twoclocks.report.places import check_owner, page_beside
    from twoclocks.runs import load_run
    from twoclocks.runs.execution import check_device

    views = choose_views(arguments.views, arguments.overrides)
    if arguments.device is not None:
        check_device(arguments.device, "--device")
    run = load_run(arguments.run)
    out = arguments.out if arguments.out is not None else page_beside([arguments.run], "why")
    check_owner(out, [run])
    with watch_measurements() as report:
        found = dissect_run(run, views, arguments.device, report, required=arguments.views or ())
    page = write_report([run], out, {run.path: found})
    for note in found.notes:
        log.warning(note)
    if arguments.json:
        print(json.dumps({"run": str(run.path), **found.as_json(), "report": str(page)}, indent=2, allow_nan=False))
        return
    for name, info in found.infos.items():
        show_lines("", f"{name}")
        for sentence in info.sentences():
            show_lines(f"  {sentence}")
    for name, reason in found.refused.items():
        show_lines("", f"{name}: does not apply: {reason}")
    show_lines("", f"{found.measured:,} new measurements, {found.known:,} from earlier. Page: {page}")


def twins_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.twins import compare_twins
    from twoclocks.report.console import show_lines, watch_measurements
    from twoclocks.report.page import write_report
    from twoclocks.report.places import check_owner, twins_page
    from twoclocks.runs import load_run
    from twoclocks.runs.execution import check_device

    if arguments.device is not None:
        check_device(arguments.device, "--device")
    first, second = load_run(arguments.first), load_run(arguments.second)
    out = arguments.out if arguments.out is not None else twins_page(arguments.first, arguments.second)
    check_owner(out, [first, second])
    with watch_measurements("twins") as report:
        found = compare_twins(first, second, arguments.device, arguments.rows, report)
    page = write_report([first, second], out, twins=[found])
    for note in found.notes:
        log.warning(note)
    sentences = found.sentences()
    if arguments.json:
        plain = {"runs": [str(first.path), str(second.path)], **found.numbers(), "sentences": sentences}
        print(json.dumps({**plain, "report": str(page)}, indent=2, allow_nan=False))
        return
    show_lines(*sentences, "", f"Page: {page}")


def report_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_lines
    from twoclocks.report.page import write_report
    from twoclocks.report.places import check_owner, page_beside

    runs = readable_runs(arguments.runs)
    out = arguments.out if arguments.out is not None else page_beside(arguments.runs, "report")
    read = {run.path.absolute() for run in runs}
    check_owner(out, runs, unread=[path for path in run_folders(arguments.runs) if path.absolute() not in read])
    if arguments.pages:
        pages = {page_beside([run.path], "report"): run for run in runs}
        for page, run in pages.items():
            check_owner(page, [run])
        for page, run in pages.items():
            write_report([run], page)
    show_lines(str(write_report(runs, out)))


def serve_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_lines
    from twoclocks.report.live.server import serve
    from twoclocks.report.live.site import write_site

    folders = arguments.folders or [Path("runs")]
    if arguments.once != (arguments.out is not None):
        given, other = ("--once", "--out DIR") if arguments.once else ("--out", "--once")
        raise UserError(f"{given}: needs {other}; give both to write static files, or neither to serve")
    if arguments.once:
        show_lines(str(write_site(folders, arguments.out)))
        return

    def report(line: str) -> None:
        show_lines(line)
        sys.stdout.flush()  # the address is needed now, also through a pipe

    serve(folders, arguments.host, arguments.port, arguments.allow_remote, report)


def verify_command(arguments: argparse.Namespace) -> int:
    from twoclocks.report.console import show_findings
    from twoclocks.store import verify_tree

    found = [findings for folder in arguments.runs for findings in verify_tree(folder)]
    if arguments.json:
        print(json.dumps([{**vars(one), "path": str(one.path)} for one in found], indent=2))
    else:
        show_findings(found)
    return 0 if all(one.intact for one in found) else EXIT_DAMAGED


def list_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_rows
    from twoclocks.report.listing import cached_rows

    if arguments.name is not None:
        if arguments.kind != "templates":
            raise UserError(f"{arguments.name!r}: only templates can be printed by name; leave it out")
        from twoclocks.report.listing import read_template

        print(read_template(arguments.name), end="")
        return
    if arguments.kind == "executors":
        from twoclocks.report.listing import registry_rows
        from twoclocks.sweeps import EXECUTORS

        rows = registry_rows(EXECUTORS)
    elif arguments.kind == "interventions":
        from twoclocks.core.cached import cached

        rows = cached("list-interventions", intervention_rows)
    else:
        rows = cached_rows(arguments.kind)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show_rows(rows)


def intervention_rows() -> list[dict[str, str]]:
    from twoclocks.report.listing import registry_rows
    from twoclocks.widen import INTERVENTIONS

    return registry_rows(INTERVENTIONS)


def reproduce_command(arguments: argparse.Namespace) -> int:
    from twoclocks.papers.command import reproduce

    return reproduce(arguments)
