"""P1's figures of curves, clocks and laws: drawn from smoke runs, and checked on runs with known curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulated import records as records_of
from simulated import two_clocks_run

from twoclocks.clocks.law import fit_law
from twoclocks.papers import two_clocks
from twoclocks.papers.as_printed import printed_clocks
from twoclocks.papers.figure import FIGURES, MissingRunsError
from twoclocks.papers.grids import grid_named
from twoclocks.papers.records import Records
from twoclocks.papers.scales import SMOKE
from twoclocks.papers.two_clocks.clock_panels import clock_caption, clock_panels
from twoclocks.papers.two_clocks.curves import law_line, plain_curves, plain_records, run_curves
from twoclocks.runs import run

assert two_clocks.__doc__  # importing it registers the figures
WITH_RUNS = ("fig1", "fig2", "fig7", "fig8", "fig9", "fig10", "fig20", "table4")
SIZES = (512, 1024, 2048, 4096)


@pytest.fixture(scope="session")
def smoke_records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Runs of six steps of three networks of each family, at two group sizes."""
    folder = tmp_path_factory.mktemp("smoke")
    cells = {cell.key: cell for name in ("dit-groups", "gpt-groups") for cell in grid_named(name).cells(SMOKE)}
    small = [cell for cell in grid_named("network-sizes").cells(SMOKE) if cell.settings.data.n == 16]
    cells |= {cell.key: cell for cell in small if cell.point["rule.group"] == 3}
    return Records.of([run(cell.settings, folder / key) for key, cell in cells.items()])


@pytest.fixture
def law_records(tmp_path: Path) -> Records:
    """GPT runs with τ_rule = 40·G and τ_mem = 2·N (where a tenth is copied), at two group sizes and two seeds."""
    made = [
        two_clocks_run(
            *(tmp_path, "p1-gpt-mini", {"data.n": n, "rule.group": group, "training.seed": seed}),
            rule=40 * group,
            memory=9 ** (1 / 8) * 2 * n,
            last=60_000,
        )
        for n in SIZES
        for group in (2, 3)
        for seed in range(2)
    ]
    return records_of(made)


@pytest.mark.parametrize("name", WITH_RUNS)
def test_drawn_from_smoke_runs(name: str, smoke_records: Records) -> None:
    """Every panel is drawn from runs that show nothing, and the caption says what they are."""
    figure = FIGURES.get(name)()
    info = figure.data(smoke_records)
    figure.draw(info).canvas.draw()
    assert figure.caption(info).endswith(".") and len(figure.shows) > 40
    assert figure.cells(SMOKE), "its grids must exist"


@pytest.mark.parametrize("name", WITH_RUNS)
def test_without_runs_the_error_names_them(name: str) -> None:
    with pytest.raises(MissingRunsError, match="make the runs first"):
        FIGURES.get(name)().data(Records([]))


def test_curves_are_the_rows(law_records: Records) -> None:
    for record in law_records:
        curves, rows = run_curves(record), record.run.rows()
        assert curves.steps.tolist() == [row["step"] for row in rows]
        assert curves.accuracy.tolist() == [row["sample_accuracy_hits"] / row["trials"] for row in rows]
        assert curves.memorization.tolist() == [row["sample_memorization_hits"] / row["trials"] for row in rows]
        np.testing.assert_allclose(curves.passes, curves.steps * 128 / curves.n)
        assert curves.clocks == printed_clocks(record)


def test_the_law_drawn_is_that_of_the_onsets(law_records: Records) -> None:
    onsets = [printed_clocks(one).memory for one in law_records]
    law = fit_law([one.n for one in law_records], onsets)
    info = clock_panels(law_records, "p1-gpt-mini")
    assert info.law.law is not None
    assert (info.law.law.alpha, info.law.law.a) == pytest.approx((law.alpha, law.a), rel=1e-6)
    np.testing.assert_allclose(info.law.middle, info.law.law.a * info.law.sizes**info.law.law.alpha)
    assert law.alpha == pytest.approx(1, abs=0.05) and info.single.n == 4096 and info.group == 3
    sizes, passes = zip(*info.onset_passes, strict=True)
    assert set(sizes) == set(SIZES)
    assert all(at == pytest.approx(2 * 128, rel=0.12) for at in passes)
    assert f"a factor of {max(passes) / min(passes):.2f}" in clock_caption(info)


def test_other_settings_and_shortened_runs_are_not_shown(law_records: Records, tmp_path: Path) -> None:
    others: list[dict[str, object]] = [
        {"training.batch": 64},
        {"training.learning_rate": 3e-4},
        {"training.weight_decay": 0.1},
        {"model.depth": 5},
    ]
    made = [
        two_clocks_run(tmp_path, "p1-gpt-mini", {"data.n": 4096, **other}, rule=9, memory=99, last=900)
        for other in others
    ]
    both = Records([*law_records, *records_of(made)])
    assert len(plain_records(both, "p1-gpt-mini")) == len(law_records) == len(both) - len(others)
    short = {"data.n": 512, "training.seed": 7, "clocks.stop": "rule"}
    rule_only = two_clocks_run(tmp_path, "p1-gpt-mini", short, rule=120, memory=1e9, last=300)
    runs = plain_curves(Records([*law_records, *records_of([rule_only])]), "p1-gpt-mini")
    assert len(runs) == len(law_records) + 1
    law = law_line("", runs).law
    assert law is not None and law.points == len(law_records)
