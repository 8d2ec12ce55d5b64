"""P1's figures of curves, clocks and laws: drawn from smoke runs, and checked on runs with known curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulated import records as records_of
from simulated import two_clocks_run

from twoclocks.clocks.law import fit_law
from twoclocks.dissection.views.positions import PositionsInfo
from twoclocks.papers import two_clocks
from twoclocks.papers.as_printed import printed_clocks
from twoclocks.papers.figure import FIGURES, MissingRunsError
from twoclocks.papers.grids import grid_named
from twoclocks.papers.records import Records
from twoclocks.papers.scales import SMOKE
from twoclocks.papers.two_clocks.clock_panels import clock_caption, clock_panels
from twoclocks.papers.two_clocks.curves import law_line, plain_curves, plain_records, run_curves
from twoclocks.papers.two_clocks.endpoints import endpoint
from twoclocks.papers.views import view_of
from twoclocks.runs import run

assert two_clocks.__doc__  # importing it registers the figures
WITH_RUNS = ("fig1", "fig2", "fig4", "fig7", "fig8", "fig9", "fig10", "fig20", "fig28", "table2", "table4")
SIZES = (512, 1024, 2048, 4096)


@pytest.fixture(scope="session")
def smoke_records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Runs of six steps: three networks of each family at G = 3, the middle ones at G = 36 and two N."""
    folder = tmp_path_factory.mktemp("smoke")
    chosen = {"dit-groups": (36, (8, 16)), "gpt-groups": (36, (8, 16)), "network-sizes": (3, (16,))}
    cells = [
        cell
        for name, (group, sizes) in chosen.items()
        for cell in grid_named(name).cells(SMOKE)
        if cell.point["rule.group"] == group and cell.settings.data.n in sizes
    ]
    return Records.of([run(cell.settings, folder / cell.key) for cell in cells], SMOKE)


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


def test_figures_from_smoke_runs(smoke_records: Records) -> None:
    """Every panel is drawn from runs that show nothing, and the caption says what they are.

    One test, so that one process makes the runs once.
    """
    for name in WITH_RUNS:
        figure = FIGURES.get(name)()
        info = figure.data(smoke_records)
        figure.draw(info).canvas.draw()
        assert figure.caption(info).endswith(".") and figure.id == name and len(figure.shows) > 40
        assert figure.cells(SMOKE), "its grids must exist"
    check_ends_and_times(smoke_records)
    check_losses_by_position(smoke_records)


def test_without_runs_the_error_names_them() -> None:
    for name in WITH_RUNS:
        with pytest.raises(MissingRunsError, match=r"^runs: .*; make the runs first$"):
            FIGURES.get(name)().data(Records([]))


def test_runs_that_end_at_tau_rule_show_no_memorization(tmp_path: Path) -> None:
    short = {"data.n": 512, "clocks.stop": "rule"}
    made = [two_clocks_run(tmp_path, name, short, 120, np.inf, 300) for name in ("p1-gpt-mini", "p1-dit-mini")]
    for name in ("fig1", "fig7", "fig10", "table4"):
        with pytest.raises(MissingRunsError, match="beyond τ_rule; make the runs first"):
            FIGURES.get(name)().data(records_of(made))
    for name in ("fig2", "fig4", "fig8", "fig20"):
        figure = FIGURES.get(name)()
        info = figure.data(records_of(made))
        figure.draw(info).canvas.draw()
        assert "not run yet" in figure.caption(info).lower()


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("table1", {"DiT-nano": 2.17, "DiT-mini": 16.5, "DiT-S": 32.5, "DiT-B": 129.5}),
        ("table3", {"GPT-nano": 5.3, "GPT-mini": 10.7, "GPT-B": 85.1}),
    ],
)
def test_tables_of_networks_need_no_runs(name: str, millions: dict[str, float]) -> None:
    table = FIGURES.get(name)()
    info = table.data(Records([]))
    assert {row.name: row.weights / 1e6 for row in info.rows} == pytest.approx(millions, rel=0.01)
    table.draw(info).canvas.draw()
    assert "DiT-mini 16.5 M" in table.caption(info) or name == "table3"


def check_ends_and_times(smoke_records: Records) -> None:
    """Ends and times are those of the runs."""
    info = FIGURES.get("fig7")().data(smoke_records)
    ends = {(end.group, end.n): end for column in info.columns for end in column.groups}
    assert len(ends) == sum(len(column.samples) for column in info.columns) == 3
    for record in plain_records(smoke_records, "p1-dit-mini"):
        end, last = ends[record.value("rule.group"), record.n], record.run.metrics()
        assert (end.accuracy, end.memorization) == (last["group_accuracy"][-1], last["group_memorization"][-1])
        assert end.memorization_rule == record.run.metric("group_memorization").chance_rule
        assert (end.step, end.chance) == (6, 0.5)
    times = FIGURES.get("table2")().data(smoke_records)
    assert sum(row.runs for row in times.rows) == len(smoke_records)
    spent = sum(one.run.status["seconds"] for one in smoke_records)
    assert times.hours == pytest.approx(spent / 3600) and {row.device for row in times.rows} == {"CPU"}


def check_losses_by_position(smoke_records: Records) -> None:
    """Losses by position are those of the view."""
    info = FIGURES.get("fig4")().data(smoke_records)
    (record,) = plain_records(smoke_records, "p1-gpt-mini").where(rule__group=3, data__n=16)
    measured = view_of(record, "positions")
    assert isinstance(measured, PositionsInfo) and info.positions.steps.tolist() == measured.steps.tolist()
    np.testing.assert_array_equal(info.positions.gaps["held_out"], measured.gap)
    assert info.losses.by_split["train"].tolist() == record.run.metrics()["loss_train"][1:].tolist()
    assert [(one.preset, one.n) for one in info.pair] == [("p1-dit-mini", 16), ("p1-gpt-mini", 16)]


def test_table_4_has_a_law_per_group_and_network(law_records: Records) -> None:
    table = FIGURES.get("table4")()
    info = table.data(law_records)
    assert len(info.rows) == 27
    found = {(row.preset, row.group): row for row in info.rows}
    fitted = {key for key, row in found.items() if row.ours.law is not None}
    assert fitted == {("p1-gpt-mini", group) for group in (None, 2, 3)}
    chosen = law_records.where(rule__group=2)
    law = fit_law([one.n for one in chosen], [printed_clocks(one).memory for one in chosen])
    row = found["p1-gpt-mini", 2]
    assert row.ours.law is not None and row.ours.law.alpha == pytest.approx(law.alpha, rel=1e-6)
    assert row.cells[2:4] == ["0.6", "1.10"] and row.cells[-1] == "8"
    assert found["p1-dit-mini", None].cells[-4] == "no law"
    assert "3 of 27 lines" in table.caption(info)
    panel = next(one for one in FIGURES.get("fig10")().data(law_records).panels if one.preset == "p1-gpt-mini")
    assert panel.by_group[2].law == row.ours.law


def test_seeds_stand_together_where_most_were_run(tmp_path: Path) -> None:
    """Each network has its panels with the most seeds, none with a single one; the moving average follows each curve.

    Runs that end at τ_rule count too: they show whether the rule is learned at the same step.
    """
    points = [
        ("p1-gpt-mini", 4, 512, 3, "memory"),
        ("p1-gpt-mini", 3, 1024, 3, "memory"),
        ("p1-gpt-mini", 3, 4096, 1, "memory"),
        ("p1-gpt-mini", 6, 512, 1, "memory"),
        ("p1-dit-mini", 3, 1024, 2, "memory"),
        ("p1-dit-mini", 2, 4096, 3, "rule"),
        ("p1-dit-mini", 6, 64, 1, "memory"),
    ]
    made = [
        two_clocks_run(
            *(tmp_path, preset, {"data.n": n, "rule.group": group, "training.seed": seed, "clocks.stop": stop}),
            rule=300 + seed,
            memory=2000,
            last=9000,
        )
        for preset, group, n, seeds, stop in points
        for seed in range(seeds)
    ]
    figure = FIGURES.get("fig28")()
    info = figure.data(records_of(made))
    assert info.places == {"p1-gpt-mini": ((3, 1024), (4, 512)), "p1-dit-mini": ((2, 4096), (3, 1024))}
    one = info.of("p1-gpt-mini", (4, 512))[0]
    expected = one.run.accuracy[0]
    for value, smooth in zip(one.run.accuracy, one.accuracy, strict=True):
        expected = 0.6 * expected + 0.4 * value
        assert smooth == pytest.approx(expected)
    words = figure.caption(info)
    assert "GPT-mini, G = 4, N = 512 (3 seeds)" in words and "DiT-mini, G = 3, N = 1,024 (2 seeds)" in words
    assert "1 seed" not in words and "one seed" not in words
    titles = [axis.get_title(loc="left") for axis in figure.draw(info).axes]
    assert titles[2] == "DiT-mini, G = 2, N = 4,096: 3 seeds"
    single = figure.data(records_of([*made[:6], made[-1]]))
    assert single.places["p1-dit-mini"] == ((6, 64),)
    assert "DiT-mini: one seed each so far" in figure.caption(single)
    assert len(figure.draw(single).axes) == 3  # no empty panel beside it


def test_curves_are_the_rows(law_records: Records) -> None:
    for record in law_records:
        curves, rows = run_curves(record), record.run.rows()
        assert curves.steps.tolist() == [row["step"] for row in rows]
        assert curves.accuracy.tolist() == [row["sample_accuracy_hits"] / row["trials"] for row in rows]
        assert curves.memorization.tolist() == [row["sample_memorization_hits"] / row["trials"] for row in rows]
        np.testing.assert_allclose(curves.passes, curves.steps * 128 / curves.n)
        assert curves.clocks == printed_clocks(record)
        end = endpoint(record, "sample")
        assert end is not None and endpoint(record, "group") is None  # these rows have no groups
        assert (end.accuracy, end.memorization) == (curves.accuracy[-1], curves.memorization[-1])
        assert end.memorization > 0.9 > curves.memorization[0]


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
    averaged = {"data.n": 512, "training.seed": 9, "training.average": 0.99}  # trained as without it
    alike = two_clocks_run(tmp_path, "p1-gpt-mini", averaged, rule=120, memory=1000, last=9000)
    assert len(plain_records(records_of([alike]), "p1-gpt-mini")) == 1
    short = {"data.n": 512, "training.seed": 7, "clocks.stop": "rule"}
    rule_only = two_clocks_run(tmp_path, "p1-gpt-mini", short, rule=120, memory=1e9, last=300)
    runs = plain_curves(Records([*law_records, *records_of([rule_only])]), "p1-gpt-mini")
    assert len(runs) == len(law_records) + 1
    law = law_line("", runs).law
    assert law is not None and law.points == len(law_records)
