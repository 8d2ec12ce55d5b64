"""Twins: models whose agreement is known beforehand, real runs end to end, and pairs that are no twins."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ideals import PARITY, networks
from small_runs import SMALL_MODEL, TINY
from torch import Tensor

import twoclocks as tc
from twoclocks.analysis import TwinsInfo, compare_twins
from twoclocks.analysis.agreement import SharedTimes, agreement_of, closest_streak, cosines, hellinger, identical
from twoclocks.analysis.twins import compare_subjects, twin_pairs
from twoclocks.analysis.twins_info import shared_times
from twoclocks.cli import main
from twoclocks.clocks import Clocks, Onset
from twoclocks.clocks.settings import ClockSettings
from twoclocks.dissection import Models
from twoclocks.objectives.base import Network
from twoclocks.report.page import write_report
from twoclocks.report.twins import draw
from twoclocks.rules.parity import Parity
from twoclocks.runs import Run, RunSettings, load_run, load_settings, run


def both(change: dict[str, Any], preset: str = "demo") -> tuple[RunSettings, RunSettings]:
    first, second = (load_settings(preset, {**change, "data": {**change["data"], "part": part}}) for part in (0, 1))
    return first, second


def reader(rows: Tensor | None) -> Network:
    """An ideal autoregressive network of a set of rows (N, length) over bits; None, or no such prefix: uniform."""

    def network(tokens: Tensor) -> Tensor:
        logits = torch.zeros(*tokens.shape, 2, dtype=torch.float64)
        for place in range(tokens.shape[1] if rows is not None else 0):
            assert rows is not None
            match = (tokens[:, None, 1 : place + 1] == rows[None, :, :place]).all(dim=2).double()  # (n, N)
            counts = match @ torch.nn.functional.one_hot(rows[:, place], 2).double()
            known = counts.sum(dim=1, keepdim=True) > 0
            logits[:, place] = torch.where(known, (counts / counts.sum(dim=1, keepdim=True)).log().nan_to_num(), 0.0)
        return logits

    return network


GPT = {"rule": {"length": 8, "group": 2}, "data": {"n": 4}, "evaluation": {"samples": 200}, "clocks": {"sustain": 1}}
GPT["clocks"] = {"sustain": 1, "above_chance": True, "memory_threshold": 0.3}


def gpts(shared: list[str]) -> list[Models]:
    """Twins that are one ideal after the other, at steps 10, 20, …"""
    found = []
    for settings in both(GPT, "demo-gpt"):
        train = tc.data.training_set(settings.rule, 4, 0, settings.data.part)
        ideals = {"cube": None, "rule": settings.rule.enumerate(), "memory": train}
        found.append(Models(settings, {10 * (k + 1): reader(ideals[name]) for k, name in enumerate(shared)}))
    return found


def dits(shared: list[str]) -> list[Models]:
    found = []
    for settings in both(PARITY):
        ideal = networks(settings)
        train = tc.data.training_set(settings.rule, settings.data.n, 0, settings.data.part)
        memory = tc.oracles.empirical_denoiser(train, settings.rule, settings.encoding)
        ideal["memory"] = settings.objective.network_of(memory)  # type: ignore[attr-defined]
        found.append(Models(settings, {10 * (k + 1): ideal[name] for k, name in enumerate(shared)}))
    return found


def test_two_ideals_of_the_rule_are_the_same_and_two_memories_share_nothing() -> None:
    info = compare_subjects(*dits(["rule", "rule", "memory", "memory"]))
    assert info.images and info.outputs is None
    assert info.samples.mean[:2] == pytest.approx(0, abs=1e-12) and info.same[:2].tolist() == [1, 1]
    assert info.same[2:].tolist() == [0, 0]  # no sample of disjoint sets is the same
    assert info.copies[2:, [0, 1], [0, 1]] == pytest.approx(1) and (info.copies[2:, [0, 1], [1, 0]] == 0).all()
    assert (info.distance[2:, [0, 1], [0, 1]] == 0).all() and (info.distance[2:, [0, 1], [1, 0]] > 0.5).all()
    assert np.allclose(info.copies[:2], info.chance, atol=0.1)  # the rule's samples, in either set
    assert not info.leaking() and (info.samples.mean[2:] > 0.3).all()
    assert np.allclose(info.samples.chance[:2], 1, atol=0.05) and info.samples.closest == (10, 10)
    parting = info.samples.parting
    assert parting is not None and (parting.lower, parting.upper) == (20, 30)


def test_outputs_of_ideals_have_the_distance_of_their_distributions() -> None:
    rule, uniform = gpts(["rule"])[0], gpts(["cube"])[1]
    info = compare_subjects(rule, uniform, rows=64)
    assert info.outputs is not None and info.strings == 8  # 16 valid strings, 8 in the training sets
    expected = math.sqrt(1 - math.sqrt(0.5)) / 2  # the rule knows every second bit, the other none
    assert info.outputs.mean[0] == pytest.approx(expected, abs=1e-6)

    info = compare_subjects(*gpts(["rule", "rule", "memory", "memory"]), rows=64)
    assert info.outputs is not None and not info.images
    assert info.outputs.mean[:2].tolist() == [0, 0] and info.samples.mean[:2] == pytest.approx(0, abs=1e-12)
    assert info.outputs.mean[2] > 0.15 and info.samples.mean[2] > 0.2 and info.same[2] == 0
    assert info.outputs.parting is not None and (info.outputs.parting.lower, info.outputs.parting.upper) == (20, 30)
    assert info.copies[3].tolist() == [[1, 0], [0, 1]]


def test_hellinger_is_that_of_a_slow_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    p, q = (torch.rand(5, 7, 4, generator=generator).softmax(dim=-1) for _ in range(2))
    found = hellinger(p, q)
    for i in range(5):
        for j in range(7):
            squares = [(math.sqrt(float(p[i, j, k])) - math.sqrt(float(q[i, j, k]))) ** 2 for k in range(4)]
            assert float(found[i, j]) == pytest.approx(math.sqrt(sum(squares) / 2), abs=1e-6)
    assert torch.equal(found, hellinger(q, p)) and float(hellinger(p, p).max()) == 0


def test_outputs_at_a_step_are_averaged_over_strings_and_tokens_none_of_them_seen() -> None:
    a, b = gpts(["rule", "memory"])
    info = compare_subjects(a, b, rows=64)
    test = [row for row in a.rule.enumerate() if not any(torch.equal(row, seen) for seen in (*a.train, *b.train))]
    slow = []
    for row in test:
        p, q = (one.objective.predictions(one.networks[20], row[None]) for one in (a, b))
        slow += [float(hellinger(p[0, place], q[0, place])) for place in range(8)]  # type: ignore[index]
    assert info.outputs is not None and len(test) == info.strings
    assert info.outputs.mean[1] == pytest.approx(np.mean(slow))


def test_chance_is_the_mean_over_all_pairs_of_different_rows() -> None:
    rule = Parity(length=4, group=2)
    a, b = rule.sample(9, seed=0), rule.sample(9, seed=1)
    cosine, chance = cosines(2 * a - 1, 2 * b - 1)
    same, same_chance = identical(a, b, 2)
    pairs = [(i, j) for i in range(9) for j in range(9) if i != j]
    slow = {(i, j): float(((2 * a[i] - 1) * (2 * b[j] - 1)).sum()) / 4 for i in range(9) for j in range(9)}
    assert cosine.tolist() == pytest.approx([slow[i, i] for i in range(9)])
    assert chance == pytest.approx(np.mean([slow[pair] for pair in pairs]))
    assert same.tolist() == [torch.equal(a[i], b[i]) for i in range(9)]
    assert same_chance == pytest.approx(np.mean([torch.equal(a[i], b[j]) for i, j in pairs]))


def test_both_orders_say_the_same() -> None:
    a, b = gpts(["cube", "rule", "memory"])
    one, other = compare_subjects(a, b, rows=8), compare_subjects(b, a, rows=8)
    assert one.samples.numbers() == other.samples.numbers()
    assert one.outputs is not None and other.outputs is not None
    assert one.outputs.numbers() == other.outputs.numbers()
    assert np.array_equal(one.copies, other.copies[:, ::-1, ::-1])
    assert np.array_equal(one.distance, other.distance[:, ::-1, ::-1])
    assert one.same.tolist() == other.same.tolist() and one.same_chance.tolist() == other.same_chance.tolist()


def test_parting_begins_at_the_lasting_rise_above_what_lasted() -> None:
    rng = np.random.default_rng(0)
    steps = np.array([0, 10, 20, 30, 40, 50, 60, 70, 80], dtype=np.int64)
    level = np.array([0, 0.4, 0.11, 0.1, 0.1, 0.12, 0.3, 0.5, 0.6])  # equal at the start, far, near, far for good
    distance = level[:, None] + 0.02 * rng.standard_normal((9, 500))
    clocks = ClockSettings(sustain=3)
    found = agreement_of(steps, distance, np.ones(9), SharedTimes((20, 50), 0, 50, 80), clocks)
    assert found.closest == (20, 40) and found.parting is not None
    assert (found.parting.lower, found.parting.upper) == (50, 60)
    assert found.window is not None and found.window.mean == pytest.approx(0.1075, abs=0.002)
    assert found.window.low < found.window.mean < found.window.high
    assert found.after is not None and found.after.mean == pytest.approx(0.6, abs=0.003)
    still = agreement_of(steps, np.full((9, 500), 0.1), np.ones(9), SharedTimes(None, 0, math.inf, math.inf), clocks)
    assert still.parting is not None and not still.parting.seen and still.after is None and still.window is None
    short = agreement_of(steps[:3], distance[:3], np.ones(3), SharedTimes(None, 0, math.inf, math.inf), clocks)
    assert short.parting is None
    assert closest_streak(np.array([0.0, 3, 1, 2, 0, 9]), np.array([False] + [True] * 5), 3).tolist() == [2, 3, 4]


def test_phases_are_those_of_both() -> None:
    def clocks(rule: tuple[float, float], memory: tuple[float, float]) -> Clocks:
        return Clocks(
            Onset(*rule, "observed"), Onset(*memory, "observed" if memory[1] < math.inf else "right-censored")
        )

    one, other = clocks((10, 20), (100, 200)), clocks((15, 30), (80, 150))
    assert shared_times([one, other]) == SharedTimes((30, 80), 30, 80, 200)
    assert shared_times([one, clocks((15, 30), (80, math.inf))]) == SharedTimes((30, 100), 30, 100, math.inf)
    assert shared_times([one, clocks((100, 200), (10, 20))]) == SharedTimes(None, 200, 10, 200)
    suspected = Clocks(one.rule, Onset(60, math.inf, "right-censored", suspected=(60, 70)))
    assert shared_times([one, suspected]).window == (one.rule.upper, 60)  # not to the end of the other's window
    assert shared_times([one, suspected]).before == 60
    assert shared_times([None, None]) == SharedTimes(None, 0, math.inf, math.inf)


def test_where_no_window_opens_agreement_counts_from_the_first_part_that_is_learned() -> None:
    steps = np.array([1, 2, 5, 10, 20, 50, 100, 200, 400])
    distance = np.repeat(np.array([[0.0, 0.0, 0.0, 0.2, 0.2, 0.2, 0.6, 0.6, 0.6]]).T, 400, axis=1)
    clocks = ClockSettings()
    found = agreement_of(steps, distance, np.ones(9), SharedTimes(None, 10, 90, 200), clocks)
    assert found.closest == (10, 50) and found.parting is not None
    assert (found.parting.lower, found.parting.upper) == (50, 100)
    layers = {"layer_1": Onset(5, 10, "observed"), "layer_2": Onset(100, math.inf, "right-censored")}
    late = Clocks(Onset(100, math.inf, "right-censored"), Onset(20, 30, "observed"), parts=layers)
    assert shared_times([late, late]).learned == 10


def known(parting: Onset | None, copies: float = 0.0) -> TwinsInfo:
    """An info with clocks at 10–20 and 100–200, and samples that part in a given interval."""
    info = compare_subjects(*gpts(["rule", "memory"]), rows=8)
    clocks = Clocks(Onset(10, 20, "observed"), Onset(100, 200, "observed"))
    leaked = info.copies.copy()
    leaked[:, 0, 1] = copies
    return replace(info, clocks=(clocks, clocks), samples=replace(info.samples, parting=parting), copies=leaked)


def test_sentences_name_the_order_and_whether_the_control_holds() -> None:
    words = " ".join(known(Onset(30, 60, "observed")).sentences())
    assert "samples, closest at step 10, part with 95% confidence between steps 30 and 60" in words
    assert "before A's τ_mem (100–200)" in words and "before B's τ_mem (100–200)" in words and "Control: no" in words
    assert "after A's τ_mem" in " ".join(known(Onset(200, 300, "observed")).sentences())
    assert "is not certain" in " ".join(known(Onset(60, 150, "observed")).sentences())
    assert "do not part after it with 95% confidence" in " ".join(
        known(Onset(60, math.inf, "right-censored")).sentences()
    )
    leaking = known(None, copies=0.9)
    assert leaking.leaking() == ["A"] and "The control fails: A" in " ".join(leaking.sentences())
    assert all("nan" not in sentence for sentence in leaking.sentences())


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Run, Run]]:
    """Real twins of both kinds, which kept all their samples."""
    folder = tmp_path_factory.mktemp("twins")
    found = {}
    for preset, more in (("demo", {"objective": {"sampler_steps": 6}}), ("demo-gpt", {})):
        change = {**TINY, **more, "model": SMALL_MODEL, "evaluation": {**TINY["evaluation"], "keep_samples": 100}}
        settings = both(change, preset)
        first, second = (run(one, folder / f"{preset}-{one.data.part}") for one in settings)
        found[preset] = first, second
    return found


@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_real_twins_say_what_their_rows_say(preset: str, pairs: dict[str, tuple[Run, Run]]) -> None:
    info = tc.analysis.compare_twins(*pairs[preset], rows=8)
    for k, one in enumerate(pairs[preset]):
        columns = one.metrics()
        assert info.steps.tolist() == columns["step"].tolist()
        assert info.copies[:, k, k] == pytest.approx(columns["sample_memorization"])
        assert info.distance[:, k, k] == pytest.approx(columns["nearest_distance"])
    assert info.same_start and info.same[0] == 1 and info.samples.mean[0] == pytest.approx(0, abs=1e-12)
    assert 0 < info.samples.mean[-1] < 2 and (info.outputs is None) == (preset == "demo")
    json.dumps(info.numbers(), allow_nan=False)
    assert len(draw(info).axes) == (3 if preset == "demo" else 4)


def test_outputs_are_remembered_whichever_twin_is_named_first(
    pairs: dict[str, tuple[Run, Run]], tmp_path: Path
) -> None:
    a, b = copied(pairs["demo-gpt"], tmp_path)
    totals: list[int] = []
    before = compare_twins(a, b, rows=8, only_remembered=True)
    assert before.outputs is None and "Hellinger" not in " ".join(before.sentences())
    first = compare_twins(a, b, rows=8, report=lambda done, total, words: totals.append(total))
    again = compare_twins(b, a, rows=8, report=lambda done, total, words: totals.append(total), only_remembered=True)
    assert set(totals[:-1]) == {5} and totals[-1] == 0
    assert first.outputs is not None and again.outputs is not None
    assert again.outputs.numbers() == first.outputs.numbers()
    assert compare_twins(a, b, rows=7, only_remembered=True).outputs is None  # other strings


def copied(pair: tuple[Run, Run], folder: Path) -> tuple[Run, Run]:
    """Copies, so that what one test remembers or damages is not there for another."""
    for one in pair:
        shutil.copytree(one.path, folder / one.path.name, ignore=shutil.ignore_patterns("dissection"))
    return load_run(folder / pair[0].path.name), load_run(folder / pair[1].path.name)


def test_a_damaged_step_is_left_out_and_named(pairs: dict[str, tuple[Run, Run]], tmp_path: Path) -> None:
    a, b = copied(pairs["demo-gpt"], tmp_path)
    a.directory.artifacts["samples"].path(20).write_bytes(b"")
    b.directory.artifacts["weights"].path(40).unlink()
    info = compare_twins(a, b, rows=8)
    assert info.steps.tolist() == [0, 5, 40, 60] and info.outputs is not None
    assert info.outputs.steps.tolist() == [0, 5, 20, 60] and len(info.notes) == 2


def test_the_command_and_the_page(
    pairs: dict[str, tuple[Run, Run]],
    tiny_gpt: Run,
    work: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    a, b = copied(pairs["demo-gpt"], work)
    assert "Twins:" not in write_report([a, tiny_gpt], work / "other.html").read_text()
    cheap = write_report([a, b], work / "cheap.html").read_text()
    assert "Twins:" in cheap and "from the same noise" in cheap and "Hellinger" not in cheap
    assert main(["twins", str(a.path), str(b.path)]) == 0
    printed = capsys.readouterr().out
    assert "they share no training sample (4 each)" in printed and "Hellinger" in printed and "twins.html" in printed
    assert "Hellinger" in (a.path.parent / f"{a.path.name}-{b.path.name}-twins.html").read_text()
    assert "Hellinger" in write_report([a, b], work / "after.html").read_text()  # remembered
    request.getfixturevalue("empty_figures")
    assert main(["twins", str(a.path), str(b.path), "--rows", "6", "--json", "--out", "few.html"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["hellinger"]["strings"] == 6 and plain["report"] == "few.html" and len(plain["sentences"]) == 7
    assert twin_pairs([a, tiny_gpt, b]) == [(a, b)]


@pytest.mark.usefixtures("empty_figures")
def test_runs_can_be_named_from_inside(
    pairs: dict[str, tuple[Run, Run]], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = copied(pairs["demo-gpt"], work)
    page = work / f"{a.path.name}-{b.path.name}-twins.html"
    for place, first, second in (
        (a.path, ".", f"../{b.path.name}"),
        (a.path / "samples", "..", str(b.path)),
        (b.path, f"../{a.path.name}", "."),
        (b.path / "samples", f"../../{a.path.name}", ".."),
    ):
        monkeypatch.chdir(place)
        assert main(["twins", first, second, "--rows", "6"]) == 0  # again: the page is known as that of these runs
        assert [path.name for path in work.rglob("*.html")] == [page.name] and page.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "data.part: both runs have the same training set, part 0"),
        (
            {"data.part": 1, "training.learning_rate": 0.5},
            "training.learning_rate is 0.001 in one and 0.5 in the other",
        ),
        ({"data.part": 1, "evaluation.seed": 3}, "evaluation.seed is 0 in one and 3 in the other"),
        ({"data.seed": 1}, "samples (data.seed 0 and 1); use the same data.seed"),
    ],
)
def test_what_is_no_pair_of_twins_is_refused(change: dict[str, Any], words: str) -> None:
    settings = load_settings("demo-gpt", GPT)
    other = load_settings("demo-gpt", {**{f"{k}.{n}": v for k, s in GPT.items() for n, v in s.items()}, **change})
    with pytest.raises(tc.UserError, match=r"data|twins") as error:
        compare_subjects(Models(settings, {1: reader(None)}), Models(other, {1: reader(None)}))
    assert words in str(error.value)


def test_twins_may_begin_with_other_weights_and_then_say_so() -> None:
    first, second = both(GPT, "demo-gpt")
    second = replace(second, training=replace(second.training, seed=1, threads=1))
    info = compare_subjects(Models(first, {1: reader(None)}), Models(second, {1: reader(None)}), rows=4)
    assert not info.same_start and "different weights" in info.sentences()[0]


def test_wrong_words_get_one_line(
    pairs: dict[str, tuple[Run, Run]], tiny_gpt: Run, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (str(one.path) for one in pairs["demo"])
    for words, message in (
        ([a, a], "data.part"),
        ([a, str(tiny_gpt.path)], "no twins"),
        ([a, b, "--rows", "1"], "rows"),
        ([a, b, "--out", "page.txt"], ".html"),
        ([a, "nowhere"], "nowhere"),
        ([a, b, "--device", "tpu"], "tpu"),
    ):
        assert main(["twins", *words]) == 2
        captured = capsys.readouterr()
        assert message in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert not list(work.iterdir())


def test_runs_without_samples_say_what_to_set(tmp_path: Path) -> None:
    change = {**TINY, "model": SMALL_MODEL, "evaluation": {**TINY["evaluation"], "keep_samples": 0}}
    first, second = (run(one, tmp_path / str(one.data.part)) for one in both(change, "demo-gpt"))
    with pytest.raises(tc.UserError, match=r"evaluation\.keep_samples"):
        compare_twins(first, second)
    assert "Twins:" not in write_report([first, second], tmp_path / "page.html").read_text()
