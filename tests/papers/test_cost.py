"""What runs and their views are expected to cost, and views that are measured in the time that is left for them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from simulated import clocks_run

from twoclocks.core.config import merge, to_mapping
from twoclocks.dissection import choose_views, dissect_run
from twoclocks.dissection.subject import RunSubject
from twoclocks.papers import early_stopping, ledger, reproduction, two_clocks
from twoclocks.papers.campaign import RESERVE, next_cells, waiting_cells
from twoclocks.papers.claim import Claim
from twoclocks.papers.command import described
from twoclocks.papers.cost import START, expected_sampling_seconds, expected_seconds, expected_view_seconds
from twoclocks.papers.grids import Grid, grid_named
from twoclocks.papers.records import Records
from twoclocks.papers.reproduction import Reproduction, entries
from twoclocks.papers.scales import GPU, SCALES, SMOKE
from twoclocks.papers.views import view_file, write_views
from twoclocks.runs import Run, load_settings
from twoclocks.runs.rows import StoredRun, file_name, read_rows
from twoclocks.runs.settings import RunSettings, build_settings
from twoclocks.sweeps import EXECUTORS
from twoclocks.sweeps.cells import cell_path
from twoclocks.sweeps.coordinator import run_sweep
from twoclocks.sweeps.grid import Cell, Plan
from twoclocks.training.stopping import StoppedError

assert two_clocks.__doc__ and early_stopping.__doc__  # importing them registers the grids
ROWS = Path(__file__).parents[2] / "results" / "campaign"
ONE_WORKER = EXECUTORS.get("local")(workers=1)


def keeping(settings: RunSettings, weights: int) -> RunSettings:
    return build_settings(merge(to_mapping(settings), {"evaluation": {"keep_weights": weights}}), {})


@pytest.mark.parametrize("scale", ["smoke", "gpu"])
def test_views_cost_more_the_more_checkpoints_are_kept(scale: str) -> None:
    grid = grid_named("dissection")
    settings = grid.cells(SCALES[scale])[0].settings
    plain = expected_seconds(settings)
    few, many = (expected_seconds(keeping(settings, kept), grid.views) for kept in (2, 4))
    assert plain < few < many <= expected_seconds(settings, grid.views)
    twice = expected_view_seconds(settings, ["basin"]), expected_view_seconds(settings, ["basin", "field"])
    assert 0 < twice[0] < twice[1]


@pytest.mark.parametrize(
    ("preset", "runs", "seconds"), [("p2-rhm-l3-authors", 21, 615.0), ("p2-rhm-l5-authors", 6, 595.0)]
)
def test_small_networks_are_expected_to_take_what_they_took(preset: str, runs: int, seconds: float) -> None:
    """Committed runs, which took these seconds together, ten and more at a time on one H200 under NVIDIA's MPS."""
    workers, longest = 10, {"p2-rhm-l3-authors": 262_144, "p2-rhm-l5-authors": 186_680}[preset]
    made = [run for run in read_rows(ROWS) if run.settings.name == preset and len(run.rows()) >= 40]
    settings = [build_settings(merge(to_mapping(one.settings), ended_at(one)), {}) for one in made]
    settings = [one for one in settings if one.training.steps <= longest and one.evaluation.evaluations in (40, 50)]
    assert len(settings) == runs
    expected = sum(expected_seconds(one) - START["cuda"] * (1 - 1 / workers) for one in settings)
    assert 0.7 < expected / seconds < 1.4


def ended_at(run: StoredRun) -> dict[str, dict[str, int]]:
    return {"training": {"steps": int(run.series().steps[-1])}}


def test_the_sampler_costs_what_its_calls_cost() -> None:
    def seconds(preset: str, **change: object) -> float:
        return expected_sampling_seconds(
            load_settings(preset, {name.replace("__", "."): v for name, v in change.items()})
        )

    large = {"model__width": 2048, "evaluation__samples": 2048}
    many, few = (seconds("p2-rhm-l3-authors", objective__sampler_levels=levels, **large) for levels in (1000, 250))
    assert many == pytest.approx(4 * few)
    assert seconds("p2-rhm-l3-authors", **large) == many  # by default as many as noise levels
    heun, euler = (seconds("p1-dit-mini", objective__sampler_steps=steps) for steps in (35, 2))
    assert heun == pytest.approx(euler * 69 / 3)
    measured = {"p1-dit-mini": 0.292, "p1-gpt-mini": 0.0275}  # of 2,048 samples: results/speed_h200.json
    for preset, found in measured.items():
        assert 0.5 < seconds(preset, evaluation__samples=2048) / found < 2, preset


def test_views_that_do_not_apply_cost_nothing() -> None:
    gpt = grid_named("dissection-gpt").cells(GPU)[0].settings
    assert expected_view_seconds(gpt, ["spectrum", "field"]) == expected_view_seconds(gpt, ()) == 0


def test_the_passes_are_those_that_a_view_makes(tiny_dit: Run, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted where the network is called."""
    for run, names in ((tiny_dit, ("spectrum", "basin", "field", "trajectories")), (tiny_gpt, ("positions",))):
        for name, view in choose_views(names).items():
            subject, rows = RunSubject(run, "cpu"), 0
            step = subject.steps("weights")[0]
            network = subject.network(step)

            def counted(*inputs, network=network):  # type: ignore[no-untyped-def]
                nonlocal rows
                rows += len(inputs[0])
                return network(*inputs)

            monkeypatch.setattr(subject, "network", lambda step, counted=counted: counted)
            view.prepare(subject).measure(step)
            calls, each = view.passes(run.settings)
            assert rows == calls * each, name


def test_the_list_the_plan_and_the_queue_count_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the scale of the paper's networks a run with views fits only where its views fit too."""
    grid = grid_named("dissection-gpt")
    cell = grid.cells(GPU)[0]
    alone, both = expected_seconds(cell.settings), expected_seconds(cell.settings, grid.views)
    between = (alone + both) / 2 + RESERVE
    assert next_cells([(grid, cell)], between, 1) == []
    assert next_cells([(replace(grid, views=()), cell)], between, 1) == [cell]
    place, basins = Reproduction(SCALES["desk"], tmp_path, tmp_path / "rows"), entries(["A15"])
    cells = grid_named("dissection").cells(place.scale)
    seconds = [expected_seconds(one.settings, grid_named("dissection").views) for one in cells]
    planned = {one.key: described(one, grid.views)["minutes"] for grid, one in waiting_cells(place)}
    assert [planned[one.key] for one in cells] == [f"{one / 60:.0f}" for one in seconds]
    monkeypatch.setattr(ledger, "entries", lambda: basins)
    (line,) = ledger.listing(place, place.records())
    assert line["minutes"] == f"{sum(seconds) / 60:.0f}" != f"{sum(map(run_alone, cells)) / 60:.0f}"


def run_alone(cell: Cell) -> float:
    return expected_seconds(cell.settings)


def finished(place: Reproduction, grid: Grid) -> Cell:
    """A run of a grid that is made, but whose views were not measured."""
    cell = grid.cells(place.scale)[0]
    run_sweep(Plan("one", "", (cell,)), place.runs, ONE_WORKER)
    return cell


def test_training_ends_in_time_for_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The views of a finished run are expected to take longer than all of the time: so nothing else is trained."""
    place = Reproduction(SMOKE, tmp_path, tmp_path / "rows")
    grid = grid_named("dissection-gpt")
    cell = finished(place, grid)
    long = SMOKE.cell("p1-gpt-mini", {"training.steps": 10**7, "evaluation.steps": [10**7]})
    monkeypatch.setattr(reproduction, "expected_view_seconds", lambda settings, views: 60.0)
    seen: list[int] = []
    place.make([cell, long], ONE_WORKER, lambda sweep: seen.append(sweep.counts()["finished"]), seconds=50)
    assert seen[-1] == 1
    assert not place.lacking_views(cell, grid.views)
    assert cell.key not in {one.key for _, one in waiting_cells(place)}


def test_without_time_views_wait_for_the_next_call(tmp_path: Path) -> None:
    place = Reproduction(SMOKE, tmp_path, tmp_path / "rows")
    grid = grid_named("dissection-gpt")
    cell = finished(place, grid)
    place.make([cell], ONE_WORKER, lambda sweep: None, seconds=0)
    assert place.lacking_views(cell, grid.views) == [*grid.views]
    place.make([cell], ONE_WORKER, lambda sweep: None)
    assert all(view_file(place.rows / file_name(cell.settings), name).is_file() for name in grid.views)


def test_a_view_that_cannot_be_measured_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    place = Reproduction(SMOKE, tmp_path, tmp_path / "rows")
    grid = grid_named("dissection-gpt")
    cell = finished(place, grid)
    for path in (cell_path(place.runs, cell) / "weights").iterdir():
        path.write_bytes(b"junk")
    failures = place.make([cell], ONE_WORKER, lambda sweep: None)
    assert "view" in failures[cell.key] and place.failures() == failures
    assert waiting_cells(place)[-1][1].key == cell.key  # after all that may succeed


def test_an_interrupted_measurement_goes_on(tiny_dit: Run, tmp_path: Path) -> None:
    run = Run(Path(shutil.copytree(tiny_dit.path, tmp_path / "copy")))
    begun: list[int] = []

    def stop_at_third(done: int, total: int, words: str) -> None:
        begun.append(done)
        if done == 2:
            raise StoppedError("a test")

    with pytest.raises(StoppedError):
        write_views(run, tmp_path, ["basin"], report=stop_at_third)
    assert begun == [0, 1, 2] and not list(tmp_path.glob("*.view"))
    found = dissect_run(run, ["basin"])
    assert found.known == 2 and found.measured > 0


@pytest.mark.parametrize("name", ["A6-dit", "A6-gpt", "A20-dit", "A20-gpt"])
def test_the_runs_of_a_desk_can_be_judged(tmp_path: Path, name: str) -> None:
    """With fewer seeds than three or fewer N than four, no run at this scale could ever decide these claims."""
    claim, desk = entries([name])[name], SCALES["desk"]
    made = [
        clocks_run(
            *(tmp_path, cell.settings.name, cell.point),
            rule=400 + 10 * cell.settings.training.seed,
            memory=(10 + 0.1 * cell.settings.training.seed) * cell.settings.data.n + 1_000,
            last=20_000,
            scale=desk,
        )
        for cell in claim.cells(desk)
    ]
    assert isinstance(claim, Claim)
    assert claim.judge(Records.of(made, desk)).seeds == 3
