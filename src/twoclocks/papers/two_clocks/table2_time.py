"""P1 Table 2: what the runs cost, from the seconds that each of ours took."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from twoclocks.analysis.groups import grouped
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Record, Records
from twoclocks.papers.two_clocks.curves import MODELS
from twoclocks.papers.two_clocks.panels import draw_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_RUNS = {"DiT-nano": 8, "DiT-mini": 102, "DiT-B": 12, "GPT-nano": 8, "GPT-mini": 45, "GPT-B": 16}


@dataclass(frozen=True)
class TimeRow:
    """Runs of one network on one kind of machine."""

    model: str
    device: str
    runs: int
    steps: int  # of all runs
    median_steps: float
    median_seconds: float
    median_step: float  # seconds per step, evaluations included
    fastest_step: float
    hours: float  # of all runs


@dataclass(frozen=True)
class TimeInfo:
    """The data of the table."""

    rows: tuple[TimeRow, ...]

    @property
    def hours(self) -> float:
        return sum(row.hours for row in self.rows)


@FIGURES.register("table2")
class Time(PaperFigure[TimeInfo]):
    """Cost of the runs."""

    id: ClassVar[str] = "table2"
    title: ClassVar[str] = "Wall-clock time of the runs"
    shows: ClassVar[str] = (
        "Steps, wall-clock time per run, number of runs and GPU hours of each network, on H100 and A100 GPUs. The "
        "numbers of runs (191 in all) are known; steps and times are lost in the text that we have."
    )
    grids: ClassVar[tuple[str, ...]] = ("gpt-law", "gpt-groups", "dit-groups", "dit-law", "network-sizes")

    def data(self, records: Records) -> TimeInfo:
        timed = [one for one in records if model_of(one) in MODELS.values() and one.run.status.get("seconds")]
        timed = [one for one in timed if not one.run.was_together]  # their seconds are also those of other runs
        if not timed:
            raise MissingRunsError("runs: there is none of DiT or GPT with its seconds; make the runs first")
        order = list(MODELS.values())
        groups = grouped(timed, lambda one: (model_of(one), device_of(one)))
        rows = [time_row(*key, same) for key, same in groups.items()]
        return TimeInfo(tuple(sorted(rows, key=lambda row: (order.index(row.model), row.device))))

    def draw(self, info: TimeInfo) -> Figure:
        head = ["network", "device", "runs\nours", "runs\npaper", "steps / run\n(median)", "minutes / run\n(median)"]
        head += ["ms / step\n(fastest)", "ms / step\n(median)", "hours\n(all runs)"]
        rows = []
        for row in info.rows:
            paper = str(PAPER_RUNS.get(row.model, ""))
            steps = [f"{1000 * one:.2f}" for one in (row.fastest_step, row.median_step)]
            cells = [row.model, row.device, f"{row.runs:,}", paper, f"{row.median_steps:,.0f}"]
            rows.append([*cells, f"{row.median_seconds / 60:.2g}", *steps, f"{row.hours:.2g}"])
        return draw_table(head, rows, 9.2, [1.1, 1.5, 0.7, 0.7, 1.2, 1.3, 1.1, 1.1, 1.1])

    def caption(self, info: TimeInfo) -> str:
        words = [
            f"{row.model} on {row.device}: {row.runs} runs, {1000 * row.fastest_step:.2f} ms per step in the fastest"
            for row in info.rows
        ]
        return (
            f"What the runs cost: {'; '.join(words)}; {info.hours:.2g} hours in all. Times include evaluations and "
            "start-up, and short runs share a GPU, so their sum is more than the GPU's hours. Paper: 191 runs."
        )


def model_of(one: Record) -> str:
    """The network of a run, whatever its rule: ``DiT-mini``."""
    kinds = {"dit": "DiT", "gpt": "GPT"}
    return f"{kinds.get(str(one.value('model.name')), '?')}-{one.value('model.size')}"


def device_of(one: Record) -> str:
    """The machine of a run; a CPU has no name that says how fast it is."""
    machine = one.run.manifest.get("machine") or {}
    return str(machine.get("name") or machine.get("device") or "unknown") if machine.get("device") != "cpu" else "CPU"


def time_row(model: str, device: str, records: list[Record]) -> TimeRow:
    """Medians and sums over the runs of a network."""
    steps = [one.last_step for one in records]
    seconds = [float(one.run.status["seconds"]) for one in records]
    per_step = [time / max(step, 1) for time, step in zip(seconds, steps, strict=True)]
    return TimeRow(
        model=model,
        device=device,
        runs=len(records),
        steps=sum(steps),
        median_steps=median(steps),
        median_seconds=median(seconds),
        median_step=median(per_step),
        fastest_step=min(per_step),
        hours=sum(seconds) / 3600,
    )
