"""The command ``twoclocks forecast``: predict τ_mem at other sizes, or of a run that is still training."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from twoclocks.commands.options import Add, add_runs
from twoclocks.commands.reading import readable_runs
from twoclocks.core.errors import UserError


def add_command(add: Add) -> None:
    forecast = add(
        "forecast",
        forecast_command,
        "predict τ_mem (or τ_ext) at other training-set sizes, or of a run that is still training",
    )
    add_runs(forecast)
    forecast.add_argument(
        "--clock", default="tau_mem", metavar="CLOCK", help="tau_mem (default), or tau_ext of runs on text"
    )
    forecast.add_argument("--n", type=int, nargs="+", metavar="N", help="training-set sizes to predict from these runs")
    forecast.add_argument(
        "--pilots",
        type=Path,
        nargs="+",
        default=[],
        metavar="DIR",
        help="finished runs with similar settings, as prior",
    )


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
