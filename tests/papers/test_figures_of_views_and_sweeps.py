"""P1's Figs. 3, 5, 6, 11–19 and 21–27: drawn from tiny runs, with numbers that must agree with the runs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run, two_clocks_run

from twoclocks.core.theme import picture
from twoclocks.dissection.subject import SPLITS
from twoclocks.dissection.views.raster import RasterInfo
from twoclocks.papers import two_clocks
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.grids import grid_named
from twoclocks.papers.records import Records
from twoclocks.papers.scales import SMOKE
from twoclocks.papers.two_clocks.dissected import of_phase
from twoclocks.papers.two_clocks.fig11_transitions import windows_of
from twoclocks.papers.two_clocks.fig14_bands import bands_of
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.papers.views import view_of, write_views
from twoclocks.rules.base import RULES
from twoclocks.runs import run
from twoclocks.runs.rows import read_rows, write_rows

assert two_clocks.__doc__  # importing it registers grids and figures
OF_VIEWS = ("fig3", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16", "fig17", "fig18", "fig19")
OF_CLOCKS = ("fig21", "fig22", "fig23", "fig24", "fig25", "fig26", "fig27")
OF_DATA = ("fig5", "fig6")
ROWS = Path(__file__).parents[2] / "results" / "campaign"


def figure(name: str) -> PaperFigure[Any]:
    return FIGURES.get(name)()


def check_drawn(name: str, found: Records) -> Any:
    """Draw a figure as it is drawn for the page; returns its Info."""
    one = figure(name)
    info = one.data(found)
    image = picture(one.draw(info), dpi=40)
    assert image.startswith(b"\x89PNG") and len(image) > 3_000, name
    caption = one.caption(info)
    assert "nan" not in caption and "None" not in caption, (name, caption)
    assert name in OF_DATA or "P1" in caption, (name, caption)
    return info


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Every grid of these figures at the scale of seconds, a second seed of the dissected run, and a second G."""
    folder = tmp_path_factory.mktemp("smoke")
    names = {name for figure_name in (*OF_VIEWS, *OF_CLOCKS) for name in figure(figure_name).grids}
    cells = [cell for name in sorted(names) for cell in grid_named(name).cells(SMOKE)]
    cells += [SMOKE.cell(DIT, {"data.n": 8, **change}) for change in ({"training.seed": 1}, {"rule.group": 2})]
    return Records.of(run(cell.settings, folder / key) for key, cell in {cell.key: cell for cell in cells}.items())


def test_every_figure_is_drawn_from_tiny_runs(smoke: Records) -> None:
    drawn = {name: check_drawn(name, smoke) for name in (*OF_DATA, *OF_VIEWS, *OF_CLOCKS)}
    assert len(drawn["fig3"].raster.views) == 2 and "2 seeds; the first is drawn" in drawn["fig3"].raster.words
    assert {2, 3} <= set(drawn["fig12"].groups) and len(drawn["fig12"].groups[3].views) == 2


def test_figures_are_the_same_from_committed_rows_and_views(smoke: Records, tmp_path: Path) -> None:
    """Without weights and samples, rows and measurements say what the runs say."""
    made = smoke.where(data__n=8, rule__name="parity", rule__group=3, preset="p1-dit-mini")
    for one in made:
        write_rows(one.run, tmp_path)
        write_views(one.run, tmp_path, ["raster", "approach", "spectrum", "basin", "field"])
    stored = Records.of(read_rows(tmp_path))
    for name in OF_VIEWS:
        one = figure(name)
        assert one.caption(one.data(stored)) == one.caption(one.data(made)), name


def test_without_runs_every_figure_of_runs_says_which_grid_to_make() -> None:
    for name in (*OF_VIEWS, *OF_CLOCKS):
        one = figure(name)
        with pytest.raises(MissingRunsError) as found:
            one.data(Records([]))
        assert repr(one.grids[0]) in str(found.value) and "\n" not in str(found.value), name


def test_committed_rows_are_drawn_or_named_as_missing() -> None:
    committed = Records.of(read_rows(ROWS))
    for name in (*OF_VIEWS, *OF_CLOCKS):
        try:
            figure(name).data(committed)
        except MissingRunsError as missing:
            assert "grid" in str(missing), name
    check_drawn("fig21", committed)


def test_montages_hold_valid_samples_alone() -> None:
    import torch

    from twoclocks.papers.two_clocks.fig05_binary_rules import ROWS as BINARY
    from twoclocks.papers.two_clocks.fig06_structured_rules import ROWS as STRUCTURED

    none = Records([])
    for row, (name, _, settings) in zip(figure("fig5").data(none).rows, BINARY, strict=True):
        for panel, values in zip(row, settings, strict=True):
            rule = RULES.create(name, **values)
            assert rule.is_valid(torch.tensor(panel.samples).reshape(-1, *rule.shape)).all(), panel.title
            assert len(panel.samples) == 25
    for row, (_, name, settings) in zip(figure("fig6").data(none).rows, STRUCTURED, strict=True):
        rule = RULES.create(name, **settings)
        assert len(row) == 3 and all(rule.is_valid(torch.tensor(panel.samples)).all() for panel in row)


def test_transitions_count_every_noise_once_per_pair_of_evaluations(tmp_path: Path) -> None:
    """In windows after the first step, around τ_rule and from τ_mem on."""
    stored = two_clocks_run(tmp_path, DIT, {"data.n": 1024}, rule=10_000, memory=90_000, last=150_000)
    clocks, steps = stored.clocks(), np.array(stored.series().steps, dtype=np.int64)
    states = np.random.default_rng(0).integers(0, 4, size=(len(steps), 50)).astype(np.uint8)
    windows = windows_of(RasterInfo(steps, clocks, states, ()))
    assert [window.name for window in windows] == ["first values", "rule learning", "memorization"]
    assert windows[0].first == steps[0] and windows[0].last <= 10 * steps[0]
    assert windows[1].first <= clocks.rule.upper < windows[1].last < windows[2].first == clocks.memory.upper
    for window in windows:
        inside = (steps >= window.first) & (steps <= window.last)
        assert window.counts.sum() == (inside.sum() - 1) * 50
        pairs = list(pairwise(states[inside]))
        for old, new in ((1, 2), (3, 0)):
            assert window.counts[old, new] == sum(((a == old) & (b == new)).sum() for a, b in pairs)


def test_bands_and_gap_are_those_of_the_spectrum(smoke: Records) -> None:
    info = figure("fig15").data(smoke)
    view = info.seen.first
    train, unseen = (view.loss[:, SPLITS.index(name)] for name in ("train", "held_out"))
    np.testing.assert_allclose(view.gap, unseen - train, atol=1e-6)
    assert set(info.traces) <= set(info.inside) and view.in_band[list(info.inside)].all()
    bands, start = bands_of(view), 0
    for band in bands:  # together they hold every σ once
        size = int(((view.sigmas >= band.low) & (view.sigmas <= band.high)).sum())
        expected = view.loss[:, :, start : start + size].mean(axis=2)
        np.testing.assert_allclose(band.loss, expected)
        start += size
    assert start == len(view.sigmas)


def test_checkpoints_of_phases_follow_the_clocks(smoke: Records, tmp_path: Path) -> None:
    stored = two_clocks_run(tmp_path, "p1-dit-mini", {"data.n": 1024}, rule=1_000, memory=20_000, last=100_000)
    clocks, steps = stored.clocks(), np.array(log_steps(50, 100_000))
    early, middle, late = (of_phase(steps, clocks, phase, 3) for phase in ("early", "middle", "late"))  # type: ignore[arg-type]
    assert steps[early[-2]] <= clocks.rule.upper < steps[early[-1]] < steps[middle[0]]
    assert steps[middle[-1]] <= clocks.memory.upper < steps[late[0]] and late[-1] == len(steps) - 1
    for phase in ("early", "middle", "late"):  # without clocks: thirds
        assert of_phase(steps, None, phase, 3)  # type: ignore[arg-type]
    chosen = [index for name in ("fig17", "fig18", "fig19") for index in figure(name).data(smoke).chosen]
    assert chosen == sorted(chosen)


def test_counting_rules_have_their_own_clocks_and_no_others(tmp_path: Path) -> None:
    exact = {"rule": {"name": "exact_k", "length": 36, "k": 9}, "data.n": 4096}

    def made(change: dict[str, Any], at: float) -> Any:
        return two_clocks_run(tmp_path, "p1-dit-mini", change, rule=at, memory=np.inf, last=8_000)

    chosen = [made({**exact, "training.seed": seed}, 1_000 * (seed + 1)) for seed in range(3)]
    others = [
        made({**exact, "training.batch": 64}, 20),
        made({**exact, "data.n": 512}, 20),
        made({"rule.group": 2, "data.n": 512}, 20),
    ]
    pairs = made({"rule.group": 2, "data.n": 4096}, 500)
    info = figure("fig21").data(records([*others, *chosen, pairs]))
    (counted,) = info.of("exact_k")
    expected = [9 ** (1 / 8) * 1_000 * (seed + 1) for seed in range(3)]  # nine tenths are valid
    np.testing.assert_allclose(sorted(counted.learned.reached), expected, rtol=0.05)
    assert len(counted.copied.limits) == 3 and not counted.copied.reached
    assert info.pairs == pytest.approx(9 ** (1 / 8) * 500, rel=0.05) and info.n == 4096
    assert "1 to 3 seeds" in info.seeds and "Not run yet: row-K" in figure("fig21").caption(info)


def test_a_sweep_varies_one_setting_and_does_not_count_copies_as_rule(tmp_path: Path) -> None:
    def made(change: dict[str, Any], rule: float, memory: float) -> Any:
        change = {"rule.group": 6, "data.n": 4096, **change}
        return two_clocks_run(tmp_path, "p1-gpt-mini", change, rule=rule, memory=memory, last=40_000)

    rates = [made({"training.learning_rate": rate}, 0.1 / rate, 1 / rate) for rate in (1e-4, 3e-4)]
    by_copying = made({"training.learning_rate": 1e-3}, np.inf, 500)
    decays = [made({"training.weight_decay": decay}, 2_000, 9_000) for decay in (0.1, 1.0)]
    other_n = [made({"training.learning_rate": rate, "data.n": 512}, 9, 99) for rate in (1e-5, 3e-5, 1e-4, 3e-4)]
    found = records([*rates, by_copying, *decays, *other_n])
    info = figure("fig26").data(found)
    assert [one.value for one in info.values] == [1e-4, 3e-4, 1e-3] and info.n == 4096
    assert info.values[0].learned.reached[0] == pytest.approx(3 * info.values[1].learned.reached[0], rel=0.1)
    assert not info.values[2].learned.reached and info.values[2].copied.reached
    assert [one.value for one in figure("fig27").data(found).values] == [0.0, 0.1, 1.0]
    with pytest.raises(MissingRunsError, match="1 value of"):
        figure("fig26").data(records([by_copying, *decays]).where(training__learning_rate=1e-3))
    with pytest.raises(MissingRunsError, match="DiT-mini at G = 6 has runs of 0 values"):
        figure("fig24").data(found)


def test_structured_rules_by_encoding(tmp_path: Path) -> None:
    steps = log_steps(100, 40_000)

    def made(preset: str, encoding: str, change: dict[str, Any], learned: float, copied: float) -> Any:
        valid = rise(steps, learned)
        copies = rise(steps, copied) * valid
        columns = {"sample_accuracy": valid, "sample_memorization": copies, "valid_new": valid - copies}
        columns |= {"row_accuracy": rise(steps, learned / 3), "loss_train": 1 - valid / 2}
        return simulated_run(tmp_path, preset, {"encoding": encoding, **change}, steps, columns)

    found = records(
        [
            made("p1-dit-latin", "scalar", {}, 3_000, 20_000),
            made("p1-dit-latin", "one_hot", {}, 3_000, 1e9),
            made("p1-dit-sudoku", "scalar", {}, 6_000, 20_000),
            made("p1-dit-latin", "scalar", {"training.batch": 64}, 100, 200),
        ]
    )
    times = {(one.encoding, one.preset): one.times for one in figure("fig23").data(found).tasks}
    latin, one_hot = times["scalar", "p1-dit-latin"], times["one_hot", "p1-dit-latin"]
    assert latin["novel"].reached[0] == pytest.approx(3_000, rel=0.05)  # one half
    assert latin["learned"].reached[0] == pytest.approx(3_000 * (0.85 / 0.15) ** (1 / 8), rel=0.05)
    assert latin["copied"].reached and not one_hot["copied"].reached and one_hot["copied"].limits == (40_000.0,)
    info = check_drawn("fig22", found)
    assert len(info.curves) == 3 and info.row_chance == pytest.approx(720 / 6**6)
    assert "rows only (scalar encoding)" in info.missing
    assert info.last("scalar", "p1-dit-latin", "row_accuracy") == pytest.approx(1, abs=0.01)
    assert info.last("scalar", "p1-dit-latin", "column_accuracy") is None


def test_the_view_of_a_run_without_checkpoints_is_not_asked_for(smoke: Records, tmp_path: Path) -> None:
    """A run that kept nothing is no dissected run, even where it is larger."""
    larger = two_clocks_run(
        *(tmp_path, "p1-dit-mini", {"data.n": 2048, "evaluation.keep_samples": 0, "evaluation.keep_weights": 0}),
        **{"rule": 100, "memory": 500, "last": 1_000},
    )
    info = figure("fig13").data(Records([*smoke, *records([larger])]))
    assert info.n == 8 and view_of(records([larger])[0], "raster") is None


def test_a_longer_run_without_checkpoints_hides_no_view(tmp_path: Path, smoke: Records) -> None:
    """Of the same training as a dissected run, from committed rows and from the run itself."""
    made = smoke.where(data__n=8, rule__name="parity", rule__group=3, preset="p1-dit-mini", training__seed=0)
    (one,) = made
    nothing = {"evaluation.keep_samples": 0, "evaluation.keep_weights": 0}
    longer = two_clocks_run(
        *(tmp_path, "p1-dit-mini", {"data.n": 8, "training.seed": 0, **nothing}),
        **{"rule": 100, "memory": 500, "last": 1_000, "scale": SMOKE},
    )
    write_rows(one.run, tmp_path)
    write_views(one.run, tmp_path, ["raster", "approach", "spectrum", "basin", "field"])
    stored = Records.of(read_rows(tmp_path))
    assert len(stored) == 1 and stored[0].run.path == longer.path
    for both in (stored, Records([*made, *records([longer])])):
        assert both[0].last_step == 1_000
        for name in OF_VIEWS:
            drawn = figure(name)
            assert drawn.caption(drawn.data(both)) == drawn.caption(drawn.data(made)), name
