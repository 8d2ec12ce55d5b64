"""Options and hints that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twoclocks.core.arguments import OneLineParser

SETTINGS_HINT = "Any setting can follow: --data.n 512 --training.seed 1 (see 'twoclocks list settings')."
VIEWS_HINT = "Settings of views can follow: --field.grid 41 --spectrum.rows 256 (see 'twoclocks list views')."
EXECUTOR_HINT = "Settings of the executor can follow: --executor.cells_per_gpu 4 (see 'twoclocks list executors')."
Add = Callable[..., OneLineParser]  # name, function, help and hint of a command to its parser


def add_runs(command: OneLineParser, with_json: bool = True) -> None:
    """Folders of runs, and whether the result is printed as JSON."""
    command.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="run directories, or folders of them")
    if with_json:
        command.add_argument("--json", action="store_true", help="print the result as JSON")


def add_executor(command: OneLineParser) -> None:
    """Where the cells of a sweep run."""
    command.add_argument(
        "--executor",
        default="local",
        metavar="NAME",
        help="local (default) or ray; its settings are --executor.KEY VALUE",
    )
    command.add_argument(
        "--workers", type=int, default=0, metavar="N", help="runs at the same time (default: as many as fit)"
    )


def add_checkpoint_seconds(command: OneLineParser) -> None:
    """How often a run is stored."""
    command.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=30,
        metavar="S",
        help="seconds between checkpoints: the training time that a crash can cost (default: 30)",
    )
