"""The page of a monitor: one HTML file with verdict, curves, looks and gallery, from its state alone."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.clocks.looks import rate_bounds
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.series import Look, Series
from twoclocks.clocks.settings import POLICIES
from twoclocks.core.arrays import Floats
from twoclocks.core.pages import page_environment
from twoclocks.core.theme import css_variables, light, style, themed_svg
from twoclocks.monitor.decision import Decision, Judgement
from twoclocks.monitor.gallery import Gallery, picture_of
from twoclocks.monitor.state import MonitorState
from twoclocks.store.files import write_atomic


@dataclass(frozen=True)
class LookRow:
    """One look as the page's table shows it."""

    step: int
    copies: str
    rate: str
    interval: str
    valid: str
    gap: str
    held_out: str
    similarity: str


@dataclass(frozen=True)
class PageInfo:
    """What the page shows."""

    state: MonitorState
    series: Series
    decision: Decision
    lower: Floats  # of the copy rate at each look
    upper: Floats
    gallery: Gallery

    @property
    def title(self) -> str:
        return f"Monitor: {self.decision.phase} at step {self.decision.step:,}"

    @property
    def verdict(self) -> str:
        """The result as a sentence."""
        clocks = self.decision.clocks
        if clocks.memory.seen:
            found = f"Copying has begun {interval_words(clocks.memory)} (τ_mem)."
        elif clocks.suspected is not None:
            found = f"Copying is suspected since step {clocks.suspected:,.0f}, but not confirmed."
        else:
            found = f"No copying was seen up to step {self.decision.step:,}."
        if clocks.gap is not None:
            opened = f"has opened {interval_words(clocks.gap)}" if clocks.gap.seen else "has not opened"
            found += f" The gap between held-out and training loss {opened} (τ_gap)."
        if self.state.validity is None:
            return found
        learned = f"was learned {interval_words(clocks.rule)} (τ_rule)" if clocks.rule.seen else "is not learned yet"
        return f"{found} The rule {learned}. Window: {clocks}."

    @property
    def data_sentence(self) -> str:
        """The training set in words."""
        state = self.state
        words = f"{state.rows:,} training rows"
        if state.distinct < state.rows:
            words += f", {state.distinct:,} of them different"
        if state.groups is not None and state.groups < state.distinct:
            words += f"; with near-duplicates counted once, {state.groups:,}"
        level = state.latest_chance
        chance = "not known (no held-out samples)" if level is None else str(level)
        return f"{words}. Counted: {state.copies}. Chance level of a copy: {chance}."

    @property
    def policy(self) -> str:
        # "Go on" would be bad advice where a policy only watches while the model copies.
        watched = "Not stopped" if self.decision.phase.startswith("copying") else "Go on"
        decided = "Stop" if self.decision.stop else watched
        return f"{decided}: {self.decision.reason}. Policy {self.state.policy}: {POLICIES[self.state.policy]}."

    @property
    def has_gap(self) -> bool:
        return self.series.gaps is not None

    @property
    def has_control(self) -> bool:
        return self.state.looks[-1].held_out_trials is not None

    @property
    def has_similarity(self) -> bool:
        return self.series.similarity is not None

    @property
    def columns_note(self) -> str:
        """What the columns mean that not every monitor has; empty if there are none."""
        similarity = "Similarity: mean cosine of the samples, each with its most similar training row."
        gap = "Loss gap: held-out minus training loss."
        return " ".join(([similarity] if self.has_similarity else []) + ([gap] if self.has_gap else []))

    @property
    def looks(self) -> list[LookRow]:
        rows = []
        for look, low, high in zip(self.state.looks, self.lower, self.upper, strict=True):
            rows.append(
                LookRow(
                    step=look.step,
                    copies=f"{look.copied} of {look.trials}",
                    rate=f"{look.copied / look.trials:.3g}",
                    interval=f"{low:.3g}–{high:.3g}",
                    valid="" if look.valid is None else f"{look.valid / look.trials:.3g}",
                    gap="" if look.gap is None else f"{look.gap:.3g}",
                    held_out=held_out_words(look),
                    similarity="" if look.similarity is None else f"{look.similarity:.3g}",
                )
            )
        return rows


def held_out_words(look: Look) -> str:
    """The held-out pieces of a look that count as copied; empty without any."""
    return "" if look.held_out_trials is None else f"{look.held_out_copied} of {look.held_out_trials}"


def held_out_rates(looks: Sequence[Look]) -> list[float]:
    """The rate of held-out pieces that count as copied, at each look; empty without any."""
    counts = [(look.held_out_copied, look.held_out_trials) for look in looks]
    return [hits / trials for hits, trials in counts if hits is not None and trials is not None]


def interval_words(onset: Onset) -> str:
    """The interval of an onset that was seen, in words."""
    if onset.status == "left-censored":
        return f"at or before step {onset.upper:,.0f}"
    return f"between the steps {onset.lower:,.0f} and {onset.upper:,.0f}"


def page_info(state: MonitorState, gallery: Gallery) -> PageInfo:
    """What the page of a state shows."""
    series = Series.from_looks(state.looks, state.copies)
    if state.validity is None:  # counts may have been given without it being known what is valid
        series = replace(series, valid=None)
    decision = Judgement(state.policy, state.settings, state.latest_chance).decide(series)
    copied, trials = (np.asarray(values, dtype=np.float64) for values in (series.copied, series.trials))
    confidence = (1 + state.settings.look_confidence(state.latest_chance)) / 2
    lower, upper = rate_bounds(copied, trials, confidence)
    return PageInfo(state, series, decision, lower, upper, gallery)


def draw_page_curves(info: PageInfo) -> Any:
    """Copy rate with its bounds, valid rate, thresholds and the window."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    series, decision = info.series, info.decision
    steps, trials = (np.asarray(values, dtype=np.float64) for values in (series.steps, series.trials))
    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(7.6, 3.2), layout="constrained")
        place = figure.subplots()
        if decision.clocks.window is not None:
            begin, end = decision.clocks.window
            place.axvspan(begin, min(end, steps[-1]), color=light("window"), zorder=0, label="window")
        place.fill_between(steps, info.lower, info.upper, color=light("memory"), alpha=0.2, linewidth=0)
        rate = np.asarray(series.copied, dtype=np.float64) / trials
        place.plot(steps, rate, color=light("memory"), marker=".", label="copies (shaded: interval)")
        if series.valid is not None:
            valid = np.asarray(series.valid, dtype=np.float64) / trials
            place.plot(steps, valid, color=light("rule"), marker=".", label="valid")
        level = decision.level
        place.axhline(level, color=light("memory"), linestyle="--", linewidth=1, label=f"copy threshold {level:.3g}")
        if info.has_control:
            rates = held_out_rates(info.state.looks)
            place.plot(steps, rates, color=light("muted"), linestyle=":", label="held-out pieces (chance)")
        elif decision.copy_chance is not None:
            word = f"copies by chance {decision.copy_chance:.2g}"
            place.axhline(decision.copy_chance, color=light("muted"), linestyle=":", linewidth=1, label=word)
        if steps[0] > 0 and steps[-1] > 20 * steps[0]:
            place.set_xscale("log")
            place.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
            place.xaxis.set_minor_formatter(NullFormatter())
        place.set(xlabel="training step", ylabel="proportion of samples", ylim=(-0.02, 1.02))
        figure.legend(loc="outside upper center", ncols=3, fontsize=8.5)
    return figure


def gallery_image(gallery: Gallery) -> str:
    """The gallery as a data address of a PNG; empty without pairs."""
    if not gallery.pairs:
        return ""
    return "data:image/png;base64," + base64.b64encode(picture_of(gallery.draw(titled=False), ".png")).decode()


def write_page(state: MonitorState, path: Path, gallery: Gallery | None = None) -> None:
    """Write the page of a monitor's state; it contains everything and loads nothing."""
    info = page_info(state, gallery or Gallery())
    day, night = css_variables()
    figure = themed_svg(
        draw_page_curves(info), salt="curves", label=f"Proportion of copies at each look. {info.verdict}"
    )
    page = (
        page_environment("twoclocks.monitor")
        .get_template("monitor.html")
        .render(info=info, figure=figure, gallery=gallery_image(info.gallery), day=day, night=night)
    )
    write_atomic(path, page.encode())
