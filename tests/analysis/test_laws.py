"""Laws and forecasts over run directories whose clocks are known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.analysis.forecasts import (
    first_part,
    forecast_running,
    forecast_series,
    forecast_sizes,
    gap_and_onset,
    judge,
    replayed,
)
from twoclocks.analysis.laws import fit_runs, read_points
from twoclocks.cli import main
from twoclocks.clocks import Collapse, Forecast, Onset, SizeCollapse, forecast_run
from twoclocks.core.errors import UserError
from twoclocks.report.laws import LawInfo, draw_laws, law_data, law_rows
from twoclocks.report.page import write_report
from twoclocks.runs import Run, load_settings
from twoclocks.store.checksums import encode_document
from twoclocks.testing.runs import write_run

SIZES = (64, 128, 256, 512)


def rise(steps: Any, tau: float, level: float, slope: float = 6.0) -> Any:
    """Crosses ``level`` at ``tau``."""
    return 1 / (1 + (1 / level - 1) * (np.asarray(steps, dtype=float) / tau) ** -slope)


def known(
    folder: Path,
    n: int,
    tau: float,
    evaluations: int | None = None,
    finished: bool = True,
    slope: float = 6.0,
    ahead: float = 3.0,
    **change: Any,
) -> Run:
    """A run that learns the rule at 50, copies from ``tau`` on, and whose loss gap opens that much earlier."""
    base = {"rule.length": 30, "data.n": n, "training.steps": 20_000, "evaluation.evaluations": 60}
    settings = load_settings("demo-gpt", {**base, "evaluation.samples": 2048, **change})
    steps = np.array(settings.schedule[:evaluations], dtype=float)
    columns = {
        "loss": np.ones(len(steps)),
        "sample_accuracy": rise(steps, 50, 0.85, 12),
        "sample_memorization": rise(steps, tau, 0.1, slope),
        "loss_train": np.ones(len(steps)),
        "loss_held_out": 1 + rise(steps, tau / ahead, 0.05, 4),
        "loss_gap_error": np.full(len(steps), 0.002),
    }
    return write_run(folder / f"run-{len(list(folder.iterdir()))}", settings, columns, finished)


def pilots(folder: Path, **change: Any) -> list[Run]:
    """τ_mem = 10·N up to 10%, two seeds a size; the law of the gap is a third of it."""
    rng = np.random.default_rng(0)
    return [
        known(folder, n, 10 * n * math.exp(0.1 * rng.standard_normal()), **{"training.seed": seed, **change})
        for n in SIZES
        for seed in (0, 1)
    ]


def test_laws_of_both_memory_clocks_are_those_that_were_written(tmp_path: Path) -> None:
    runs = pilots(tmp_path)
    memory, gap = fit_runs(runs), fit_runs(runs, "tau_gap")
    assert memory.pooled.alpha == pytest.approx(1.0, abs=0.1) and memory.pooled.predict(256) == pytest.approx(
        2560, rel=0.15
    )
    assert gap.pooled.predict(256) == pytest.approx(2560 / 3, rel=0.15) and "loss gap" not in memory.pooled.definition
    assert memory.pooled.r_squared is not None and memory.pooled.r_squared > 0.95
    labels = [row.label for row in memory.rows]
    assert labels[:2] == ["all runs", "all runs, Weibull"] and "all runs, threshold 0.05" in labels
    earlier = next(row.law for row in memory.rows if row.label.endswith("threshold 0.05"))
    assert earlier is not None and earlier.predict(256) < memory.pooled.predict(256)
    # All runs have one batch: P1's own test, with curves for τ_mem alone.
    assert isinstance(memory.collapse, SizeCollapse) and memory.collapse.answer == "yes" and memory.collapse.batch == 64
    assert memory.collapse.levels and memory.as_json()["collapse"]["answer"] == "yes"
    assert memory.collapse_sentence.startswith("Collapse over N (as in P1, Fig. 2H): at batch 64, N from 64 to 512")
    assert isinstance(gap.collapse, SizeCollapse) and not gap.collapse.levels
    json.dumps(memory.as_json(), allow_nan=False)
    assert len(law_rows(memory)) == len(labels)


def test_groups_are_what_differs_besides_size_and_seeds(tmp_path: Path) -> None:
    runs = pilots(tmp_path) + [known(tmp_path, n, 640 * n / 32, **{"training.batch": 32}) for n in SIZES]
    laws = fit_runs(runs)
    assert [row.label for row in laws.groups] == ["training.batch 64", "training.batch 32"]
    small = laws.groups[1].law
    assert small is not None and small.predict(256) == pytest.approx(5120, rel=0.1)
    assert isinstance(laws.collapse, Collapse) and laws.collapse.better == "steps·batch/N"
    assert laws.collapse_sentence.startswith("Steps or samples seen: steps·batch/N collapses better")
    assert laws.collapse.batch_power == pytest.approx(-1, abs=0.15)


def test_censored_runs_count_for_what_they_say(tmp_path: Path) -> None:
    runs = [known(tmp_path, n, 10 * n, **{"training.steps": 4000}) for n in SIZES]
    laws = fit_runs(runs)
    assert laws.pooled.censored == 1 and laws.pooled.alpha_ci[0] < 1 < laws.pooled.alpha_ci[1]


def test_crossed_seeds_are_split(tmp_path: Path) -> None:
    effect = {0: 1.0, 1: 1.6}
    runs = [
        known(tmp_path, n, 10 * n * effect[a], **{"training.seed": a, "data.seed": b})
        for n in SIZES
        for a in (0, 1)
        for b in (0, 1)
    ]
    splits = fit_runs(runs).seeds
    assert set(splits) == {f"N = {n:,}" for n in SIZES}
    assert all(split.shares["training"] > 0.8 for split in splits.values())


def test_a_rule_learned_by_copying_is_left_out_of_its_law(tmp_path: Path) -> None:
    runs = pilots(tmp_path)
    late = known(tmp_path, 64, 12, slope=12.0)  # copies before the rule
    assert late.clocks().learned_by_memory
    assert len(fit_runs([*runs, late], "tau_rule").points) == len(runs)


@pytest.mark.parametrize("case", ["one size", "thresholds", "clock", "none"])
def test_what_cannot_be_fitted_is_refused(tmp_path: Path, case: str) -> None:
    runs = [known(tmp_path, n, 10 * n) for n in (SIZES if case != "one size" else (64, 64))]
    if case == "thresholds":
        runs.append(known(tmp_path, 1024, 10_240, **{"clocks.memory_threshold": 0.2}))
    word = {"one size": "at least 4 sizes", "thresholds": "different definitions", "clock": "unknown", "none": "none"}
    with pytest.raises(UserError, match=word[case]):
        fit_runs([] if case == "none" else runs, "tau" if case == "clock" else "tau_mem")  # type: ignore[arg-type]
    if case == "thresholds":
        assert fit_runs(runs, threshold=0.1).pooled.points == 5  # read with one threshold they go together


def test_forecast_at_a_larger_size_holds_and_reports_how_good_such_forecasts_are(tmp_path: Path) -> None:
    (found,), judged = forecast_sizes(pilots(tmp_path), [2048])
    assert found.low < 20_480 < found.high and found.median == pytest.approx(20_480, rel=0.3)
    assert judged.tried == 8 and judged.held >= 7 and judged.median_factor is not None and judged.median_factor < 1.3
    with pytest.raises(UserError, match="--n"):
        forecast_sizes(pilots(tmp_path), [1])


def test_forecast_of_a_run_in_training(tmp_path: Path) -> None:
    before = pilots(tmp_path)
    running = known(tmp_path, 1024, 10_240, evaluations=50, finished=False)
    now = running.metrics()["step"][-1]
    assert now < 6000 and running.clocks().gap.seen  # type: ignore[union-attr]
    alone, unjudged = forecast_running(running, [])
    assert unjudged.tried == 0 and alone.basis == "copies so far" and alone.low < 10_240
    found, judged = forecast_running(running, before)
    assert found.low < 10_240 < found.high < 25_000 and "8 pilots" in found.basis
    assert judged.tried > 20 and judged.held >= 0.9 * judged.tried
    with pytest.raises(UserError, match="memory has begun"):
        forecast_running(before[0], [])


def test_what_would_bias_a_law_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """A run that was stopped because copies rose, a fork beside its origin, a cell without an evaluation."""
    runs = pilots(tmp_path)
    stopped = known(tmp_path, 128, 1280, evaluations=20, finished=False, **{"clocks.stop": "caution"})
    stopped.directory.finish(stopped_at=100, reason="clocks.stop = caution")
    fork = known(tmp_path, 64, 640)
    manifest = {**fork.manifest, "forked_from": {"path": str(runs[0].path), "step": 1}}
    for path in fork.path.iterdir():
        if path.name == "manifest.json":
            path.write_bytes(encode_document(manifest))
    empty = known(tmp_path, 256, 2560, evaluations=0, finished=False)
    laws = fit_runs([*runs, stopped, Run(fork.path), empty])
    assert [point.run.path for point in laws.points] == [run.path for run in runs]
    assert laws.pooled == fit_runs(runs).pooled
    words = ("copies rose", "is a fork", "no evaluation")
    assert len(laws.left_out) == 3 and all(word in line for word, line in zip(words, laws.left_out, strict=True))
    with pytest.raises(UserError, match="none can be used"):
        fit_runs([empty])


def test_causes_that_cannot_be_distinguished_are_not_distinguished(tmp_path: Path) -> None:
    wide = [known(tmp_path, n, 5 * n, **{"training.batch": 128, "model.width": 32}) for n in SIZES]
    laws = fit_runs(pilots(tmp_path) + wide)
    assert isinstance(laws.collapse, str) and "model.width" in laws.collapse
    with pytest.raises(UserError, match="2 kinds"):
        forecast_sizes(pilots(tmp_path) + wide, [2048])


def test_forecasts_are_judged_on_what_they_have_not_seen(tmp_path: Path) -> None:
    """One size, and one pilot's gap, that nothing else predicts: left out they must be missed."""
    strange = [known(tmp_path, n, tau) for n, tau in ((64, 640), (128, 1280), (256, 2560), (512, 5120), (1024, 1500))]
    _, judged = forecast_sizes(strange, [2048])
    alone, _ = forecast_sizes(strange[:4], [1024])
    assert not alone[0].low <= 1500 <= alone[0].high and judged.held < judged.tried == judged.runs == 5
    assert judged.median_factor is not None and judged.median_factor > 1.2


def test_a_forecast_does_not_look_ahead(tmp_path: Path) -> None:
    """Two runs with the same beginning and different ends get the same forecasts, by the same pilots."""
    before = pilots(tmp_path)
    known_pairs = [pair for run in before if (pair := gap_and_onset(run, "tau_mem")) is not None]
    early, late = known(tmp_path, 1024, 9000), known(tmp_path, 1024, 9000)
    forecasts = replayed(early, known_pairs)
    assert len(forecasts) > 5
    last = int((early.metrics()["step"] < early.clocks().memory.lower).sum())
    for count, (forecast, truth) in zip(range(last - len(forecasts) + 1, last + 1), forecasts, strict=True):
        cut = first_part(late.series(), count)
        assert len(cut.steps) == count and forecast_series(late, cut, known_pairs) == forecast
        assert truth == early.clocks().memory


def test_a_pilot_is_not_judged_by_itself(tmp_path: Path) -> None:
    """The record is that of forecasts from the other pilots; with the pilot itself among them it would be better."""
    before = [known(tmp_path, 64 * 2**k, 640 * 2**k, ahead=ahead) for k, ahead in enumerate((2.0, 3.0, 4.0, 12.0))]
    running = known(tmp_path, 1024, 10_240, evaluations=45, finished=False)
    _, judged = forecast_running(running, before)
    pairs = [pair for run in before if (pair := gap_and_onset(run, "tau_mem")) is not None]
    assert len(pairs) == 4
    apart, leaked = [], []
    for index, run in enumerate(before):
        apart += replayed(run, pairs[:index] + pairs[index + 1 :])
        leaked += replayed(run, pairs)
    assert judged == judge(judged.how, apart)
    assert judge(judged.how, leaked) != judged


def test_chance_counts_in_laws_and_forecasts(tmp_path: Path) -> None:
    change = {"rule.length": 20, "clocks.memory_threshold": 0.2, "clocks.above_chance": True}
    run = known(tmp_path, 64, 3000, slope=3.0, **change)
    assert run.copy_chance == 1 / 16
    (point,), _ = read_points([run], "tau_mem")
    assert point.onset == run.clocks().memory and point.onset.threshold == pytest.approx(0.2 + 1 / 16)
    cut = first_part(run.series(), 40)
    direct = forecast_run(cut.steps, cut.copied, cut.trials, 0.2 + 1 / 16, 1 / 16)
    assert forecast_series(run, cut, []) == direct != forecast_run(cut.steps, cut.copied, cut.trials, 0.2 + 1 / 16)


def test_truths_that_were_not_seen_cannot_confirm() -> None:
    forecast = Forecast(1000, 500, 2000, 0.95, "")
    never = Onset(10, math.inf, "right-censored")
    assert judge("", [(forecast, never)]).tried == 0
    assert judge("", [(forecast, Onset(3000, math.inf, "right-censored"))]).held == 0
    pairs = [(forecast, Onset(900, 1100, "observed")), (forecast, Onset(3000, 4000, "observed"))]
    judged = judge("", pairs)
    assert (judged.tried, judged.held, judged.runs, judged.bounded) == (2, 1, 2, 2)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pilots(tmp_path)
    assert main(["fit", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "tau_mem = a·N^α over 8 runs" in out and "Weibull" in out
    assert main(["fit", str(tmp_path), "--json", "--clock", "tau_gap"]) == 0
    assert json.loads(capsys.readouterr().out)["clock"] == "tau_gap"
    assert main(["forecast", str(tmp_path), "--n", "1024", "4096"]) == 0
    assert "leaving out each size" in " ".join(capsys.readouterr().out.split())
    assert main(["forecast", str(tmp_path), "--n", "1024", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["of"] == "N = 1,024" and row["judged"]["tried"] == row["judged"]["runs"] == 8
    assert main(["clocks", str(tmp_path)]) == 0
    assert "τ_gap" in capsys.readouterr().out
    for words, line in (
        (["fit", str(tmp_path / "run-0")], "at least 4 sizes"),
        (["fit", str(tmp_path), "--clock", "tau"], "'tau' is unknown"),
        (["fit", str(tmp_path), "--threshold", "2"], "memory_threshold"),
        (["fit", str(tmp_path / "nothing")], "nothing"),
        (["forecast", str(tmp_path / "run-0")], "memory has begun"),
        (["forecast", str(tmp_path / "run-0"), "--n", "0"], "--n"),
        (["forecast", str(tmp_path), "--n", "99", "--pilots", str(tmp_path)], "--pilots"),
    ):
        assert main(words) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and len(printed.err.strip().split("\n")) == 1 and line in printed.err, printed.err


def test_report_draws_laws_with_arrows_for_what_is_censored(tmp_path: Path, tiny_gpt: Run) -> None:
    runs = [known(tmp_path, n, 10 * n, **{"training.steps": 4000}) for n in SIZES]
    infos, refused = law_data(runs)
    assert [info.name for info in infos] == ["τ_mem", "τ_rule", "τ_gap"] and not refused
    assert "1 of them censored" in infos[0].sentence
    arrows = [note for note in draw_laws(infos[:1]).axes[0].texts if note.arrow_patch is not None]
    assert len(arrows) == 1 and arrows[0].xy[1] > arrows[0].xyann[1] > 0  # upwards: later than the last evaluation
    few, reasons = law_data(runs[:3])
    assert not few and all("at least 4 sizes" in reason for reason in reasons) and len(reasons) == 3
    assert law_data([tiny_gpt]) == law_data(runs[:2]) == ([], [])
    page = write_report([tiny_gpt], tmp_path / "one.html").read_text(encoding="utf-8")
    assert "Laws:" not in page and "All onsets" in page and "Controls" in page


def test_a_figure_draws_no_line_where_there_is_no_law(tmp_path: Path) -> None:
    infos, _ = law_data([known(tmp_path, n, 300) for n in SIZES])  # τ_mem does not depend on N
    (tmp_path / "rising").mkdir()
    rising, _ = law_data([known(tmp_path / "rising", n, 10 * n) for n in SIZES])
    flat = infos[0]
    assert flat.sentence.startswith("τ_mem: no power law: ") and "contains 0" in flat.sentence
    assert law_rows(flat.laws)[0]["power law"].startswith("none: ")
    assert law_rows(rising[0].laws)[0]["power law"] == "yes" and "no power law" not in rising[0].sentence

    def lines(info: LawInfo) -> int:
        return sum(len(line.get_xdata()) == len(info.sizes) for line in draw_laws([info]).axes[0].lines)

    assert (lines(flat), lines(rising[0])) == (0, 1)
    assert "no power law" in draw_laws([flat]).axes[0].get_title(loc="left")
    axes = draw_laws([flat, rising[0]]).axes
    assert axes[0].get_subplotspec().get_geometry()[:2] == (2, 1)  # one panel per row
