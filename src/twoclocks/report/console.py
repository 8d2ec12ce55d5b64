"""Output in the terminal: progress while a run trains, tables afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from twoclocks.core.text import encodable, visible

if TYPE_CHECKING:  # tables need no torch
    from twoclocks.runs.columns import Weights
    from twoclocks.runs.load import Run
    from twoclocks.runs.session import Observer, Progress
    from twoclocks.runs.settings import RunSettings
    from twoclocks.store import Findings


@contextmanager
def watch(settings: RunSettings) -> Iterator[Observer]:
    """Progress of a run: a live line on a terminal, else one line per evaluation; on stderr, to keep --json clean."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def print_evaluations(progress: Progress) -> None:
            if progress.evaluated:
                say(console, plain_line(settings.name, progress))

        yield print_evaluations
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("step {task.completed:,.0f}/{task.total:,.0f}  {task.fields[numbers]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console) as bar:
        task = bar.add_task(settings.name, total=settings.training.steps, numbers="starting")
        yield lambda progress: bar.update(task, completed=progress.step, numbers=numbers(progress))


def say(console: Console, line: str) -> None:
    """Print one line; training goes on when nobody reads it any more (a closed pipe)."""
    with suppress(OSError, ValueError, SystemExit):  # rich ends the process when a pipe breaks
        console.print(Text(visible(line)), soft_wrap=True)


def show_lines(*lines: str) -> None:
    """Print lines, whatever paths and names are in them: control characters are shown escaped."""
    for line in lines:
        sys.stdout.write(f"{visible(line)}\n")


def plain_line(name: str, progress: Progress) -> str:
    return f"{name}  step {progress.step:,}/{progress.steps:,}  {numbers(progress)}"


def numbers(progress: Progress) -> str:
    """Loss, validity and copies of the last evaluation, and the time left."""
    from twoclocks.evaluation import SampleAccuracy, SampleMemorization  # tables need no metrics

    words = f"loss {progress.loss:.3f}"
    if progress.metrics is not None:
        shown = {"valid": SampleAccuracy.name, "copies": SampleMemorization.name}  # data without a rule have no "valid"
        there = {word: progress.metrics[name] for word, name in shown.items() if name in progress.metrics}
        words += "".join(f"  {word} {value:.1%}" for word, value in there.items())
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    return f"{words}  {minutes}:{seconds:02d} left"


class Shown(Protocol):
    """What the display of a sweep needs to know of it."""

    def summary(self) -> str: ...

    def lines(self, states: Collection[str]) -> list[dict[str, str]]: ...


@contextmanager
def watch_sweep() -> Iterator[Callable[[Shown], None]]:
    """Progress of a sweep: a live table on a terminal, else one line whenever the counts change; on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        said = ""

        def print_changes(sweep: Shown) -> None:
            nonlocal said
            if (words := sweep.summary()) != said:
                said = words
                say(console, said)

        yield print_changes
        return
    with Live(console=console, refresh_per_second=2) as live:
        yield lambda sweep: live.update(table_of(sweep.lines(("running", "failed")), title=sweep.summary()))


@contextmanager
def watch_measurements(command: str = "dissect") -> Iterator[Callable[[int, int, str], None]]:
    """Progress of a dissection: a live bar on a terminal, else one line per tenth; on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        said = -1

        def print_tenths(done: int, total: int, words: str) -> None:
            nonlocal said
            tenth = 10 * done // total if total else said
            if tenth != said:
                said = tenth
                say(console, f"{command}  {done:,}/{total:,}  {words}".rstrip())

        yield print_tenths
        return
    count = TextColumn("{task.completed:,.0f}/{task.total:,.0f}  {task.description}")
    columns = TextColumn(f"[bold]{command}"), BarColumn(bar_width=20), count, TimeElapsedColumn()
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("", total=1)
        yield lambda done, total, words: bar.update(task, completed=done, total=max(total, 1), description=words)


def wide_console() -> Console:
    """A console as wide as the terminal; in files and pipes 120 characters, so that tables stay readable."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def cell(text: str) -> Text:
    """Text of a table: never markup, control characters escaped, in characters that the terminal has."""
    return Text(encodable(visible(text), getattr(sys.stdout, "encoding", None)))


CLOCKS_CAPTION = (
    "a–b: after the evaluation at step a, by the one at step b. "
    "Suspected: copies are above the threshold, but not in enough evaluations in a row."
)


def show_clocks(runs: Sequence[Run]) -> None:
    """Print both clocks of every run as intervals, with the window between them."""
    table = Table(title="Two clocks", caption=CLOCKS_CAPTION)
    for heading in ("run", "model", "τ_rule", "τ_mem", "innovation window", "copy chance"):
        table.add_column(cell(heading), overflow="fold")
    for run in runs:
        kinds: tuple[tuple[str, Weights], ...] = ((run.label, "raw"), (f"{run.label}, averaged weights", "averaged"))
        for label, weights in kinds[: 1 + run.has_averages]:
            clocks, chance = run.clocks(weights=weights), f"{run.copy_chance:.2g}"
            row = label, run.title, clocks.learned_words, str(clocks.memory), str(clocks), chance
            table.add_row(*map(cell, row))
    wide_console().print(table)


def show_findings(found: Sequence[Findings]) -> None:
    """Print one row per run, then one line per problem."""
    rows = [
        {
            "run": str(one.path),
            "status": one.status,
            "files": f"{one.checked:,}",
            "damaged": str(len(one.damage)),
            "leftovers": str(len(one.harmless)),
        }
        for one in found
    ]
    show_rows(rows)
    for one in found:
        for word, problems in (("damaged", one.damage), ("harmless", one.harmless)):
            for problem in problems:
                show_lines(f"{word}: {one.path}: {problem}")


def show_rows(rows: Sequence[dict[str, str]]) -> None:
    wide_console().print(table_of(rows))


def show_table(title: str, rows: Sequence[dict[str, str]], sentences: Sequence[str] = ()) -> None:
    """A titled table and what it means, all within the width of the console; sentences break between words."""
    console = wide_console()
    console.print()
    console.print(cell(title))
    console.print(table_of(rows))
    for sentence in sentences:
        console.print(cell(sentence))


SHORT = 12  # characters of a cell that is not broken over two lines


def table_of(rows: Sequence[dict[str, str]], title: str | None = None) -> Table:
    table = Table(box=SIMPLE_HEAD, title=title and cell(title), title_justify="left")
    for number, heading in enumerate(rows[0] if rows else ()):
        short = all(len(row[heading]) <= SHORT for row in rows)
        table.add_column(cell(heading), overflow="fold", no_wrap=number == 0 or short)
    for row in rows:
        table.add_row(*map(cell, row.values()))
    return table
