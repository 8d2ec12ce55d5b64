"""The static report: one HTML file that contains everything and loads nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from twoclocks.analysis.twins_info import TwinsInfo
from twoclocks.clocks.window import Clocks
from twoclocks.core.config import flat
from twoclocks.core.theme import picture
from twoclocks.dissection.execution import Dissection, known_dissection
from twoclocks.report.answer import Answer, answer_of
from twoclocks.report.curves import CurvesInfo, curves_data, draw_curves
from twoclocks.report.differences import differing, plain_settings, run_names
from twoclocks.report.drawings import WhyChapter, why_chapter
from twoclocks.report.environment import confidence_words, render_page
from twoclocks.report.overview import FEW, render_overview
from twoclocks.report.places import check_page
from twoclocks.report.plot import plot
from twoclocks.report.strip import MARKS, StripInfo, strip_data
from twoclocks.report.summary import control_rows, onset_rows
from twoclocks.report.together import Together, chapters_together
from twoclocks.report.twins import twins_chapter
from twoclocks.runs.load import Run
from twoclocks.store.files import write_atomic

_UNSPOKEN = ("name", "sha256")  # settings of a rule that are not in its sentence
MOST_ANSWERS = 6  # runs with an answer of their own on the first screen; more are counted
MOST_OPEN = 3  # runs whose chapters are not folded


@dataclass(frozen=True)
class MetricRow:
    name: str
    about: str
    direction: str
    value: str
    chance_rule: str
    chance_cube: str


@dataclass(frozen=True)
class Chapter:
    """One run as the page shows it."""

    run: Run
    name: str
    curves: CurvesInfo
    figure: str
    answer: Answer
    values: list[dict[str, str]]  # of the curves, one row per evaluation
    strip: StripInfo
    metrics: list[MetricRow]
    onsets: list[dict[str, str]]
    controls: list[dict[str, str]]
    settings: list[tuple[str, str]]
    why: WhyChapter | None  # where the run was dissected

    @property
    def clocks(self) -> Clocks:
        return self.curves.clocks

    @property
    def rule(self) -> str:
        """The rule with its settings, such as ``parity, length 24, group 2``."""
        section = self.run.manifest["settings"]["rule"]
        return ", ".join(
            [section["name"], *(f"{key} {value}" for key, value in section.items() if key not in _UNSPOKEN)]
        )

    @property
    def title(self) -> str:
        """Its name and its model, such as ``demo: DiT 64×3``."""
        return f"{self.name}: {self.run.title}"


def write_report(
    runs: Sequence[Run],
    path: Path | str,
    seen: Mapping[Path, Dissection] = MappingProxyType({}),
    twins: Sequence[TwinsInfo] | None = None,
) -> Path:
    """Write the page about these runs, and a picture of their curves (PNG) beside it; existing files are replaced.

    Of more than ``FEW`` runs, the page shows what they have in common and a table, and the picture their clocks.
    Commands ask ``check_owner`` first, which refuses to replace files that are not about these runs.
    ``seen``: dissections by the path of their run; those of other runs are looked up in the runs themselves.
    ``twins``: comparisons to show; by default those of all twins among the runs.
    """
    path = Path(path)
    check_page(path)
    if len(runs) > FEW and not seen and twins is None:
        page, figure = render_overview(runs, path.parent)
    else:
        runs = [run.reading() for run in runs]
        names = run_names(runs, differing([plain_settings(run) for run in runs]))
        chapters = [
            chapter(run, number, seen.get(run.path), name)
            for number, (run, name) in enumerate(zip(runs, names, strict=True), start=1)
        ]
        together = chapters_together(runs, twins_chapter(runs, twins))
        page, figure = render(chapters, together), draw_curves([c.curves for c in chapters], width=5.4)
    curves = picture(figure)
    # Both are ready before either is written. A crash between the two leaves a new page beside an old picture, each of
    # them whole: the page first, because the picture belongs to the page beside it.
    write_atomic(path, page.encode())
    write_atomic(path.with_suffix(".png"), curves)
    return path


def chapter(run: Run, number: int, seen: Dissection | None = None, name: str | None = None) -> Chapter:
    """All that the page shows of one run; ``number`` keeps the figures of several runs apart."""
    run = run.reading()
    info = curves_data(run)
    label = f"Learning curves of {info.title}: {info.clocks}. {info.last_sentence} Their values follow in a table."
    seen = seen if seen is not None else known_dissection(run)
    return Chapter(
        run,
        name or run.label,
        info,
        plot(draw_curves([info]), f"run{number}", label),
        answer_of(info.clocks, run.directory.artifact_steps("weights")),
        value_rows(info),
        strip_data(run),
        metric_rows(run),
        [without_run(row) for row in onset_rows(run)],
        [without_run(row) for row in control_rows(run)],
        setting_rows(run),
        why_chapter(seen, salt=f"run{number}") if seen is not None else None,
    )


def value_rows(info: CurvesInfo) -> list[dict[str, str]]:
    """The curves as a table, one row per evaluation."""
    curves = [(curve.label, curve.values) for curve in info.proportions]
    curves += [(f"loss: {curve.label}", curve.values) for curve in info.losses]
    if info.quality is not None:
        curves.append(("Fréchet distance", info.quality.values))
    return [
        {"step": f"{step:,.0f}", **{label: f"{values[k]:.4g}" for label, values in curves}}
        for k, step in enumerate(info.steps)
    ]


def without_run(row: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in row.items() if key != "run"}


def metric_rows(run: Run) -> list[MetricRow]:
    """The value of every metric at the last evaluation, with its chance levels."""
    last = {name: float(values[-1]) for name, values in run.metrics().items()}

    def text(value: float | None) -> str:
        return "" if value is None or value != value else f"{value:.3g}"

    rows = []
    for entry in run.manifest["metrics"]:
        value = text(last.get(entry["name"]))  # a run that was continued may lack the values of new columns
        chances = text(entry["chance_rule"]), text(entry["chance_cube"])
        rows.append(MetricRow(entry["name"], entry["about"], entry["direction"], value, *chances))
    return rows


def setting_rows(run: Run) -> list[tuple[str, str]]:
    """All settings that are not empty."""
    return [(key, str(value)) for key, value in flat(run.manifest["settings"]).items() if value not in (None, "")]


def verdict_sentence(one: Chapter) -> str:
    """The result of a run as a sentence."""
    clocks, title = one.clocks, one.curves.title
    if clocks.verdict == "open" and clocks.window is not None:
        begin, end = clocks.window
        until = "to the end of the run" if end == float("inf") else f"to step {end:,.0f}"
        new = one.curves.new_in_window
        share = "" if new is None else f" In it, {new:.0%} of the samples are valid and new."
        if not clocks.has_rule and clocks.generation is not None:
            share = f" It begins with τ_gen: {clocks.generation.definition}."
        return f"{title}: the window is open from step {begin:,.0f} {until}.{share}{excursion_sentence(clocks)}"
    if clocks.suspected is not None:
        return f"{title}: {suspicion_sentence(one.curves)}{excursion_sentence(clocks)}"
    if clocks.verdict == "empty":
        late = " Samples became valid later, as copies: that is no rule learned." if clocks.learned_by_memory else ""
        return f"{title}: the window is empty. Copies came (step {clocks.memory}) before the rule was learned.{late}"
    if not clocks.has_rule:
        gap = "" if clocks.gap is None else f", losses part {clocks.gap}"
        return f"{title}: the data have no rule. Copies: {clocks.memory}{gap}.{excursion_sentence(clocks)}"
    order = f"The rule: {clocks.rule}; copies: {clocks.memory}."
    return f"{title}: the window is unknown. {order}{excursion_sentence(clocks)}"


def end_sentence(run: Run) -> str:
    """That rows may be missing at the end of a run, as a sentence with a space before it; else empty."""
    problem = run.unproven_end
    return f" The end of this run cannot be proven: {problem}; rows may be missing." if problem else ""


def suspicion_sentence(curves: CurvesInfo) -> str:
    """That copying is suspected, why it is not confirmed, and which window is left before it."""
    clocks = curves.clocks
    said = (
        f"copying is suspected since step {clocks.suspected:,.0f}, but not confirmed: the copy rate rose above its "
        "threshold, but not in enough evaluations in a row. Train longer, or evaluate again."
    )
    if clocks.window is None:
        return said if not clocks.rule.seen else f"{said} The rule ({clocks.rule}) was not learned before that."
    begin, end = clocks.window
    steps = f"from step {begin:,.0f} to step {end:,.0f}" if end > begin else f"at step {begin:,.0f}"
    new = (
        "" if curves.new_in_window is None else f"; there, {curves.new_in_window:.0%} of the samples are valid and new"
    )
    return f"{said} Before that, the window is open {steps}{new}."


def excursion_sentence(clocks: Clocks) -> str:
    """That copies rose above the threshold and fell again, as a sentence with a space before it; else empty."""
    if clocks.excursion is None:
        return ""
    return f" At step {clocks.excursion:,.0f}, copies were above the threshold; later they were below it again."


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def render(chapters: Sequence[Chapter], together: Together) -> str:
    """The page with one chapter per run."""
    filters: dict[str, Callable[..., str]] = {
        "sentence": lambda one: verdict_sentence(one) + end_sentence(one.run),
        "after_title": lambda words, one: capital(words.removeprefix(f"{one.curves.title}: ")),
        "confidence": lambda ones: confidence_words([one.run for one in ones]),
    }
    return render_page(
        "report.html",
        together,
        filters,
        chapters=chapters,
        sure=confidence_words([one.run for one in chapters]),
        marks=MARKS,
        most_answers=MOST_ANSWERS,
        most_open=MOST_OPEN,
    )
