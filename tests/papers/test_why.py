"""The claims about why, judged on lives of ideal models: what holds there is known, and so is what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.dissection import Models, dissect
from twoclocks.dissection.execution import choose_views
from twoclocks.oracles import cube_denoiser, empirical_denoiser, rule_denoiser
from twoclocks.papers.recipe import RECIPES
from twoclocks.papers.two_clocks.why import Why
from twoclocks.runs import load_settings

TINY = {
    "rule": {"length": 12, "group": 3},
    "data": {"n": 6},
    "objective": {"sampler_steps": 16},
    "evaluation": {"samples": 300},
    "clocks": {"sustain": 1, "confidence": 0.9},
}
# An ideal memory is furthest from the rule at the smallest σ, a network is not: only the critical ones are measured.
BAND = {"sigma_min": 0.3, "sigma_max": 2.0, "band": [0.3, 2.0]}
SMALL = {"spectrum": {"levels": 9, "rows": 60, **BAND}, "basin": {"anchors": 6}}


def life(phases: list[str], clocks: Clocks, view: str) -> Any:
    settings = load_settings("demo", TINY)
    subject = Models(settings, {})
    ideal = {
        "cube": cube_denoiser(settings.rule),
        "rule": rule_denoiser(settings.rule),
        "memory": empirical_denoiser(subject.train, settings.rule),
    }
    network_of = settings.objective.network_of  # type: ignore[attr-defined]
    subject = Models(settings, {10 * (k + 1): network_of(ideal[name]) for k, name in enumerate(phases)})
    subject.clocks = clocks
    return dissect(subject, choose_views([view], {view: SMALL.get(view, {})})).infos[view]


def at(rule: tuple[float, float], memory: tuple[float, float]) -> Clocks:
    return Clocks(Onset(*rule, "observed"), Onset(*memory, "observed"))


WHOLE = ["cube"] * 4 + ["rule"] * 4 + ["memory"] * 4
LATE = at((50, 60), (90, 110))  # samples show what the losses show one or two evaluations before


@pytest.mark.parametrize(
    ("recipe", "phases", "clocks", "holds"),
    [
        ("p1-why-groups", WHOLE, at((40, 50), (80, 90)), True),
        ("p1-why-groups", ["cube"] * 8 + ["memory"] * 4, at((40, 50), (80, 90)), False),
        ("p1-why-groups", ["cube"] * 4 + ["memory"] * 8, at((40, 50), (80, 90)), False),
        ("p1-why-spectrum", WHOLE, LATE, True),
        ("p1-why-spectrum", WHOLE, at((30, 40), (90, 110)), False),  # the rule's loss clock is later
        ("p1-why-spectrum", WHOLE, at((50, 60), (70, 80)), False),
        ("p1-why-spectrum", ["cube"] * 12, LATE, False),
        ("p1-why-basin", WHOLE, at((40, 50), (80, 90)), True),
        ("p1-why-basin", ["cube"] * 8 + ["memory"] * 4, at((40, 50), (80, 90)), False),
        ("p1-why-basin", ["cube"] * 4 + ["rule"] * 8, at((40, 50), (80, 90)), False),
        ("p1-why-basin", ["rule"] * 8 + ["memory"] * 4, at((40, 50), (80, 90)), False),
        ("p1-why-basin", WHOLE, at((80, 90), (40, 50)), False),
    ],
)
def test_claims_hold_where_they_should(recipe: str, phases: list[str], clocks: Clocks, holds: bool) -> None:
    made = RECIPES.get(recipe)()
    assert isinstance(made, Why)
    info = life(phases, clocks, made.view)
    found, words = made.judge(info)
    assert found == holds, words
    assert words


def test_a_copy_must_stay_longer_than_an_invalid_sample_beyond_its_interval() -> None:
    made = RECIPES.get("p1-why-raster")()
    info = life(WHOLE, at((40, 50), (80, 90)), "raster")
    window = replace(info.windows[-1], stay=np.array([0, 0.1, 0.7, 0.8]))
    for low, high, holds in ((0.7, 0.2, True), (0.7, 0.75, False)):
        bounds = {"stay_low": np.array([0, 0.05, 0.6, low]), "stay_high": np.array([0, high, 0.8, 0.9])}
        found, _ = made.judge(replace(info, windows=(replace(window, **bounds),)))  # type: ignore[attr-defined]
        assert found == holds


def test_the_approach_must_come_before_the_interval_of_memory() -> None:
    made = RECIPES.get("p1-why-approach")()
    info = life(WHOLE, at((40, 50), (80, 90)), "approach")
    for onset, holds in (((60, 80), True), ((60, 85), False)):
        found, _ = made.judge(replace(info, onset=Onset(*onset, "observed")))  # type: ignore[attr-defined]
        assert found == holds
    assert not made.judge(replace(info, onset=None))[0]  # type: ignore[attr-defined]


def test_limits_of_the_claims_are_those_of_their_criteria() -> None:
    groups, basin, spectrum = (RECIPES.get(f"p1-why-{name}")() for name in ("groups", "basin", "spectrum"))
    clocks = at((40, 50), (80, 90))
    info = life(WHOLE, clocks, "groups")
    many = info.block_seen.copy()
    many[:, -1] += 0.1
    assert not groups.judge(replace(info, block_seen=many))[0]  # type: ignore[attr-defined]
    endless = Clocks(Onset(40, 50, "observed"), Onset(80, float("inf"), "right-censored"))
    assert groups.judge(replace(info, clocks=endless))[0]  # type: ignore[attr-defined]
    wide = life(WHOLE, clocks, "basin")
    early = wide.width.copy()
    early[4:8, :, 1] = 0.7  # towards valid neighbours, inside the window
    assert not basin.judge(replace(wide, width=early))[0]  # type: ignore[attr-defined]
    losses = life(WHOLE, LATE, "spectrum")
    beyond = replace(losses, gap=np.where(losses.sigmas > 1.9, 0.9, losses.gap * 0.1), sigmas=losses.sigmas * 2)
    assert not spectrum.judge(beyond)[0]  # type: ignore[attr-defined]


class Positions:
    """What the judge of positions reads."""

    def __init__(self, ends: list[Onset | None], splits: list[Onset]) -> None:
        self.rule_onsets, self.memory_onsets = ends, splits


def test_ends_of_groups_must_fall_before_late_positions_split() -> None:
    made = RECIPES.get("p1-why-positions")()
    early, late, never = Onset(10, 20, "observed"), Onset(50, 60, "observed"), Onset(90, float("inf"), "right-censored")
    ends: list[Onset | None] = [None, early, None, early, None, early, None, early]
    judge = made.judge  # type: ignore[attr-defined]
    assert judge(Positions(ends, [never] * 4 + [late] * 4))[0]
    assert not judge(Positions(ends, [late] * 8))[0]  # early positions split too
    assert not judge(Positions(ends, [never] + [late] * 7))[0] and judge(Positions(ends, [never] * 2 + [late] * 6))[0]
    assert not judge(Positions(ends, [never] * 4 + [Onset(5, 15, "observed")] * 4))[0]
    assert not judge(Positions([None, never] * 4, [never] * 4 + [late] * 4))[0]
    assert not judge(Positions(ends, [never] * 8))[0]


def test_all_recipes_about_diffusion_share_one_run() -> None:
    found = {name: RECIPES.get(name)().settings("cpu") for name in RECIPES.names() if name.startswith("p1-why-")}
    assert len(found) == 6
    labels = {label: settings for name in found for label, settings in found[name].items()}
    assert set(labels) == {"p1-dit-mini-n1024", "p1-gpt-mini-n1024"}
    assert all(len(settings.weight_steps) == 60 for settings in labels.values())
