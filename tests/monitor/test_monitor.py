from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.clocks import ClockSettings
from twoclocks.core.errors import UserError
from twoclocks.data import cube_set
from twoclocks.monitor import Criterion, Distance, Exact, Hamming, Look, Ratio
from twoclocks.monitor.training_set import TrainingSet

RULE = tc.rules.create("parity", length=24, group=2)
TRAIN = tc.data.training_set(RULE, n=40, seed=0)


def is_copy(criterion: Criterion, samples: object, train: object) -> np.ndarray:
    rows = TrainingSet(train)
    return criterion.matcher(rows)(rows.checked(samples, "samples")).copied


def mixture(step: int, valid: float, copied: float, n: int = 400) -> torch.Tensor:
    """Samples of a model that is known to copy and to obey the rule at given rates."""
    copies, good = round(copied * n), round(valid * n)
    rows = torch.cat(
        [TRAIN[torch.arange(copies) % 40], RULE.sample(good - copies, step), cube_set(RULE, n - good, step)]
    )
    assert len(rows) == n
    return rows


def test_phases_and_stop_follow_a_known_model() -> None:
    monitor = tc.Monitor(rule=RULE, train=TRAIN)
    story = [(0.0, 0.0)] * 3 + [(0.95, 0.0)] * 5 + [(0.97, 0.3)] * 4
    decisions = [monitor.observe(100 * (i + 1), mixture(i, *rates)) for i, rates in enumerate(story)]
    assert [d.phase for d in decisions] == ["learning"] * 5 + ["rule learned"] * 3 + ["copying suspected"] * 2 + [
        "copying"
    ] * 2
    assert [d.stop for d in decisions] == [False] * 10 + [True] * 2
    assert (decisions[-1].clocks.rule.lower, decisions[-1].clocks.rule.upper) == (300, 400)
    assert (decisions[-1].clocks.memory.lower, decisions[-1].clocks.memory.upper) == (800, 900)
    low, high = decisions[-1].copy_rate_ci
    assert low < 0.3 < high and decisions[-1].copy_rate == pytest.approx(0.3, abs=0.02)
    assert decisions[-1].copy_chance == 40 / 2**12


def test_without_a_rule_it_watches_copies_alone() -> None:
    monitor = tc.Monitor(train=TRAIN.numpy())
    for step in (1, 2, 3):
        decision = monitor.observe(step, lambda: TRAIN.numpy()[:30])
    assert decision.stop and decision.phase == "copying" and decision.valid_rate is None
    assert decision.clocks.verdict == "unknown"  # without a rule, it is not known whether the window was open


def test_repeated_training_rows_count_once_and_impossible_thresholds_are_refused_at_once() -> None:
    assert tc.Monitor(rule=RULE, train=torch.cat([TRAIN] * 5)).copy_chance == 40 / 2**12
    with pytest.raises(UserError, match="chance"):
        tc.Monitor(rule=RULE, train=tc.data.training_set(RULE, n=1000))


def test_a_refused_observation_leaves_the_monitor_as_it_was() -> None:
    monitor = tc.Monitor(rule=RULE, train=TRAIN)
    with pytest.raises(UserError, match="nothing was observed"):
        monitor.clocks()
    monitor.observe(2, TRAIN)
    for step in (2.5, -1, 2):
        with pytest.raises(UserError, match="step"):
            monitor.observe(step, TRAIN)  # type: ignore[arg-type]
    assert monitor.observe(3, TRAIN).step == 3


def test_what_does_not_fit_is_refused_at_once() -> None:
    for words in (
        {"rule": "parity"},
        {"rule": tc.rules.create("parity", length=26, group=2)},
        {"settings": {"sustain": 1}},
        {"policy": "always"},
        {"policy": "rule"},
        {"copies": "nearly"},
        {"copies": Hamming(24)},
        {"held_out": np.zeros((3, 23), dtype=int)},
    ):
        with pytest.raises(UserError):
            tc.Monitor(train=TRAIN, **words)  # type: ignore[arg-type]


def test_observations_from_step_zero_on_work() -> None:
    monitor = tc.Monitor(train=TRAIN)
    for step in (0, 1, 2):
        decision = monitor.observe(step, TRAIN)
    assert decision.stop and decision.clocks.memory.status == "left-censored"


@pytest.mark.parametrize(
    ("samples", "word"),
    [
        (np.full((3, 24), np.nan), "NaN"),
        (np.full((3, 24), np.inf), "infinite"),
        (np.full((3, 24), 0.5), "floats, but the training set has integers"),
        (np.full((3, 24), None), "dtype object"),
        (np.ma.masked_all((3, 24), dtype=int), "masked"),
        ([[0, 1], [1]], "not an array"),
        (lambda: np.full((3, 24), np.nan), "NaN"),
        (np.zeros((0, 24), dtype=int), "at least one row"),
        (np.zeros((3, 23), dtype=int), "24"),
        (np.zeros(24, dtype=int), "at least one row"),
    ],
)
def test_missing_samples_are_an_error_never_a_miss(samples: object, word: str) -> None:
    with pytest.raises(UserError, match=word):
        tc.Monitor(train=TRAIN).observe(1, samples)


def test_steps_must_increase() -> None:
    monitor = tc.Monitor(train=TRAIN)
    monitor.observe(5, TRAIN)
    with pytest.raises(UserError, match="not after the last one"):
        monitor.observe(5, TRAIN)


def story(monitor: tc.Monitor, rates: np.ndarray, n: int, rng: np.random.Generator) -> int | None:
    """The number of the look after which a loop that obeys the monitor stops; it sees binomial counts."""
    for look, rate in enumerate(rates):
        if monitor.observe_counts(Look(look + 1, int(rng.binomial(n, rate)), n)).stop:
            return look
    return None


def test_caution_stops_before_the_copy_rate_exceeds_the_threshold_as_often_as_it_says() -> None:
    """A copy rate that creeps up and is looked at 60 times; the loop must not pass the look at which it is above 5%."""
    rng = np.random.default_rng(0)
    rates = 0.08 * np.linspace(0, 1, 60) ** 2
    above = int(np.argmax(rates > 0.05))
    settings = ClockSettings(memory_threshold=0.05)
    stops = [story(tc.Monitor(train=TRAIN, settings=settings, policy="caution"), rates, 1000, rng) for _ in range(150)]
    late = [stop is None or stop > above for stop in stops]
    assert np.mean(late) <= 0.05
    assert np.median([stop for stop in stops if stop is not None]) > above / 2  # nor does it stop at the first sight


@pytest.mark.slow
def test_peeking_at_every_step_keeps_the_error_rate() -> None:
    """Copies at 4% forever, threshold 5%, 200 looks: a policy that needs certainty hardly ever stops by mistake."""
    rng = np.random.default_rng(1)
    settings = ClockSettings(memory_threshold=0.05, sustain=1)
    stops = [story(tc.Monitor(train=TRAIN, settings=settings), np.full(200, 0.04), 400, rng) for _ in range(20)]
    assert sum(stop is not None for stop in stops) <= 2
    wrong = 0
    for _ in range(20):
        monitor = tc.Monitor(train=TRAIN, settings=settings, policy="never")
        ends = [monitor.observe_counts(Look(s, int(rng.binomial(400, 0.04)), 400)).copy_rate_ci for s in range(1, 150)]
        wrong += any(not low <= 0.04 <= high for low, high in ends)
    assert wrong <= 4  # 10% of 20 in expectation at most


def test_caution_wants_enough_samples_and_says_how_many() -> None:
    monitor = tc.Monitor(train=TRAIN, policy="caution")
    with pytest.raises(UserError, match=r"samples: 10 are too few; .* give at least 36"):
        monitor.observe(1, TRAIN[:10])
    assert monitor.last_step is None


def test_policies() -> None:
    good, bad = Look(1, 0, 2000, 1990), Look(1, 1000, 2000, 1990)
    settings = ClockSettings(sustain=1)
    table = {"never": (False, False), "rule": (True, True), "memory": (False, True), "caution": (False, True)}
    for policy, expected in table.items():
        stops = tuple(
            tc.Monitor(TRAIN, RULE, settings, policy=policy).observe_counts(look).stop for look in (good, bad)
        )  # type: ignore[arg-type]
        assert stops == expected, policy


def test_what_a_copy_is() -> None:
    rng = np.random.default_rng(2)
    train = rng.integers(0, 2, (50, 20))
    samples = np.concatenate([train[:5], train[5:10] ^ (np.arange(20) == 3), rng.integers(0, 2, (90, 20))])
    distance = (samples[:, None] != train[None]).sum(-1)
    for most in range(4):
        assert np.array_equal(is_copy(Hamming(most), samples, train), distance.min(1) <= most)
    assert np.array_equal(is_copy(Exact(), samples, train), distance.min(1) == 0)
    assert np.array_equal(
        is_copy(Distance(lambda a, b: (a[:, None] != b).sum(-1), 1.5), samples, train), distance.min(1) <= 1
    )
    near = 1000 + rng.normal(size=(30, 8))
    points = np.concatenate([near[:10] + 0.05 * rng.normal(size=(10, 8)), near[10:20], 1000 + rng.normal(size=(40, 8))])
    two = np.sort(np.linalg.norm(points[:, None] - near[None], axis=-1), axis=1)[:, :2]
    found = is_copy(Ratio(), points, near)
    assert np.array_equal(found, two[:, 0] < two[:, 1] / 3) and found[:20].all() and not found.all()
    assert is_copy(Exact(floats=True), np.array([[-0.0, 1.0]]), np.array([[0.0, 1.0]])).all()


def test_memory_of_comparisons_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    train, samples = TRAIN.numpy(), RULE.sample(100, 1).numpy()
    whole = is_copy(Hamming(6), samples, train)
    monkeypatch.setattr("twoclocks.monitor.criteria.hamming.TILE", 3 * train.size)
    assert np.array_equal(is_copy(Hamming(6), samples, train), whole) and whole.any() and not whole.all()


def test_own_distances_that_are_missing_are_an_error() -> None:
    for answer, word in ((np.full(40, np.nan), "NaN"), (np.zeros(3), "shape")):
        monitor = tc.Monitor(TRAIN, copies=Distance(lambda a, b, answer=answer: answer, 0.1))
        with pytest.raises(UserError, match=word):
            monitor.observe(1, TRAIN)


def test_chance_is_the_rate_of_copies_among_samples_that_were_never_seen() -> None:
    held_out = tc.data.held_out(RULE, TRAIN, 2000, seed=0)
    near = tc.Monitor(TRAIN, None, ClockSettings(above_chance=True), copies=Hamming(2), held_out=held_out)
    truth = (held_out[:, None] != TRAIN[None]).sum(-1).amin(1) <= 2
    assert near.copy_chance == pytest.approx(float(truth.float().mean())) and near.copy_chance > 0
    assert tc.Monitor(TRAIN, copies=Hamming(2)).copy_chance is None
    assert tc.Monitor(TRAIN, RULE).copy_chance == 40 / 2**12


def test_floats_are_monitored_too() -> None:
    rng = np.random.default_rng(3)
    train = rng.normal(size=(30, 3, 4))
    monitor = tc.Monitor(train, copies="ratio")
    assert monitor.observe(1, train + 0.001 * rng.normal(size=train.shape)).copy_rate == 1
    assert monitor.observe(2, rng.normal(size=(200, 3, 4))).copy_rate < 0.2
    with pytest.raises(UserError, match="integers, but the training set has floats"):
        monitor.observe(3, np.zeros((3, 12), dtype=int))


def test_the_loss_gap_has_a_clock_and_an_error() -> None:
    rng = np.random.default_rng(4)
    monitor = tc.Monitor(TRAIN)
    for step in range(1, 9):
        held = 1.0 + 0.1 * (step > 4) + 0.1 * rng.normal(size=400)
        decision = monitor.observe(step, TRAIN[:1], 1.0 + 0.1 * rng.normal(size=400), held)
    assert decision.clocks.gap is not None and str(decision.clocks.gap) == "4–5"
    for losses, word in (((1.0, None), "both or none"), ((1.0, np.nan), "not finite"), ((np.array([]), 1.0), "empty")):
        with pytest.raises(UserError, match=word):
            monitor.observe(99, TRAIN, *losses)


def test_state_goes_through_a_file_and_fits_its_training_set_only(tmp_path: Path) -> None:
    first, second = tc.Monitor(TRAIN, RULE), tc.Monitor(TRAIN, RULE)
    for step in (1, 2, 3):
        first.observe(step, mixture(step, 0.95, 0.3), 0.5, 0.6)
    first.save(tmp_path / "state.json")
    second.load(tmp_path / "state.json")
    a, b = (monitor.observe(4, mixture(4, 0.95, 0.3), 0.5, 0.6) for monitor in (first, second))
    assert a.clocks == b.clocks and a.stop and a.copy_rate_ci == b.copy_rate_ci and first.state() == second.state()
    with pytest.raises(UserError, match="its train is"):
        tc.Monitor(TRAIN[:30], RULE).load(tmp_path / "state.json")
    with pytest.raises(UserError, match="its settings"):
        tc.Monitor(TRAIN, RULE, ClockSettings(sustain=2)).load_state(first.state())
    for bad in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            second.load(bad)
    with pytest.raises(UserError, match="not the state"):
        second.load_state({"looks": []})
    for looks in ([{"step": 3}], [vars(Look(2, 0, 9, 1)), vars(Look(1, 0, 9, 1))], None):
        with pytest.raises(UserError, match="damaged"):
            second.load_state({**first.state(), "looks": looks})
    assert second.state() == first.state()  # what was refused changed nothing
    own, again = (tc.Monitor(TRAIN, copies=Distance(own_distance, 0.5)) for _ in range(2))
    own.observe(1, TRAIN)
    again.load_state(own.state())
    with pytest.raises(UserError, match="its chance"):
        tc.Monitor(TRAIN, copies=Distance(own_distance, 0.5), held_out=RULE.sample(50, 1)).load_state(own.state())


def own_distance(samples: np.ndarray, train: np.ndarray) -> np.ndarray:
    return (samples[:, None] != train).sum(-1)


def test_the_policy_is_the_settings_unless_it_is_given() -> None:
    assert tc.Monitor(TRAIN).policy == "memory"
    assert tc.Monitor(TRAIN, settings=ClockSettings(stop="caution")).policy == "caution"
    assert tc.Monitor(TRAIN, settings=ClockSettings(stop="caution"), policy="never").policy == "never"


def test_the_chance_level_counts_everywhere() -> None:
    """Copies at the rate of chance, 5%, under a threshold of chance + 3%: no memory, no stop, no forecast of any."""
    rng = np.random.default_rng(8)
    held_out = torch.cat([TRAIN[:25].repeat(4, 1), RULE.sample(1900, 9)])
    settings = ClockSettings(memory_threshold=0.03, above_chance=True)
    for policy in ("memory", "caution"):
        monitor = tc.Monitor(TRAIN, RULE, settings, held_out=held_out, policy=policy)  # type: ignore[arg-type]
        assert monitor.copy_chance == pytest.approx(0.05, abs=0.02)
        for step in range(1, 12):
            decision = monitor.observe_counts(Look(step, int(rng.binomial(4000, monitor.copy_chance)), 4000, 3990))
        assert not decision.stop and decision.phase == "rule learned" and decision.forecast is not None
        assert decision.forecast.high == float("inf") and decision.clocks.memory.threshold == monitor.copy_chance + 0.03


def test_near_copies_by_chance_are_measured_with_a_rule_and_warned_of_without(caplog: pytest.LogCaptureFixture) -> None:
    settings = ClockSettings(above_chance=True)
    near = tc.Monitor(TRAIN, RULE, settings, copies=Hamming(2))
    truth = (RULE.sample(4096, 5)[:, None] != TRAIN[None]).sum(-1).amin(1) <= 2
    assert near.copy_chance == pytest.approx(float(truth.float().mean()), abs=0.02)
    with caplog.at_level("WARNING", logger="twoclocks"):
        tc.Monitor(TRAIN, copies=Hamming(2))
    assert "give held_out" in caplog.text
    assert "up to 2 entries" in (near.observe_counts(Look(1, 0, 4000, 0)).clocks.memory.definition or "")


def test_floats_of_two_widths_are_compared_in_the_narrower() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (40, 12)) / 255
    for given in (pixels.astype(np.float32), torch.tensor(pixels, dtype=torch.float32)):
        for copies in (Exact(floats=True), Hamming(floats=True)):
            assert tc.Monitor(pixels, copies=copies).observe(1, given).copy_rate == 1
            assert tc.Monitor(given, copies=copies).observe(1, pixels).copy_rate == 1
    coarse = torch.tensor(pixels).bfloat16()
    assert tc.Monitor(coarse, copies=Exact(floats=True)).observe(1, coarse).copy_rate == 1


def test_the_ratio_is_exact_far_from_zero() -> None:
    rng = np.random.default_rng(2)
    train = 1e8 + rng.normal(size=(60, 8))
    copies = train + 1e-3 * rng.normal(size=train.shape)
    assert (
        is_copy(Ratio(), copies, train).all() and is_copy(Ratio(), 1e8 + rng.normal(size=(60, 8)), train).mean() < 0.3
    )


def test_losses_as_single_numbers_give_an_onset_without_bounds_and_must_always_come() -> None:
    monitor = tc.Monitor(TRAIN)
    for step in range(1, 6):
        decision = monitor.observe(step, TRAIN[:1], 1.0, 1.0 + 0.03 * step)
    assert decision.clocks.gap is not None and str(decision.clocks.gap) == "1–2"
    assert "no bounds" in (decision.clocks.gap.definition or "")
    with pytest.raises(UserError, match="every look or at none"):
        monitor.observe(9, TRAIN)


def test_refused_looks_are_not_added_and_numpy_counts_can_be_stored(tmp_path: Path) -> None:
    monitor = tc.Monitor(TRAIN)
    for bad in (Look(1, 0, 10, gap=0.1, gap_error=-1.0), Look(1, 0.5, 10), Look(1, 0, 10, gap=float("inf"))):  # type: ignore[arg-type]
        with pytest.raises(UserError, match="look"):
            monitor.observe_counts(bad)
    monitor.observe_counts(Look(np.int64(1), np.int64(2), np.int64(10)))  # type: ignore[arg-type]
    monitor.save(tmp_path / "state.json")


def test_training_rows_that_break_the_rule_and_odd_rules_are_refused() -> None:
    with pytest.raises(UserError, match="1 rows break the rule"):
        tc.Monitor(torch.cat([TRAIN, 1 - TRAIN[:1] * 0 - torch.eye(24, dtype=torch.long)[:1]]), RULE)

    class Odd:
        def is_valid(self, x: object) -> np.ndarray:
            return np.array([True])

        def copy_chance(self, n: int) -> float:
            return 0.0

    with pytest.raises(UserError, match="one value each"):
        tc.Monitor(TRAIN, Odd()).observe(1, TRAIN)


def test_without_a_rule_nothing_is_called_empty() -> None:
    monitor = tc.Monitor(TRAIN)
    for step in range(4):
        decision = monitor.observe(step, TRAIN)
    assert decision.clocks.verdict == "unknown"


def test_counts_that_cannot_be_are_refused() -> None:
    monitor = tc.Monitor(TRAIN, RULE)
    for look, word in (
        (Look(1, 5, 4, 1), "between 0 and trials"),
        (Look(1, 0, 0, 0), "between 0 and trials"),
        (Look(1, 1, 4, 5), "between 0 and trials"),
        (Look(1, 1, 4), "valid is missing"),
        (Look(1, 1, 4, 1, float("nan")), "not finite"),
    ):
        with pytest.raises(UserError, match=word):
            monitor.observe_counts(look)


def test_the_monitor_forecasts_memory_until_it_begins() -> None:
    monitor = tc.Monitor(TRAIN)
    steps = np.unique(np.geomspace(100, 8000, 25).astype(int))
    for step in steps:
        rate = 1 / (1 + 9 * (step / 10_000.0) ** -4)  # 10% at step 10,000
        decision = monitor.observe_counts(Look(int(step), round(2048 * rate), 2048))
    assert decision.forecast is not None and decision.forecast.low < 10_000 < decision.forecast.high < 60_000
    monitor.observe_counts(Look(20_000, 1500, 2048))
    monitor.observe_counts(Look(30_000, 1500, 2048))
    assert monitor.observe_counts(Look(40_000, 1500, 2048)).forecast is None


def test_integers_of_any_kind_are_compared_by_value() -> None:
    monitor = tc.Monitor([[0, 1], [255, 3], [255, 3]])
    assert monitor.observe(1, [[0, 1], [300, 2], [-1, 4]]).copy_rate == pytest.approx(1 / 3)
    assert monitor.observe(2, np.array([[255, 3], [0, 3]], dtype=np.int64)).copy_rate == 0.5
    assert tc.Monitor([[True, False], [True, True]]).observe(1, torch.tensor([[1, 0], [0, 0]])).copy_rate == 0.5


def test_a_flipped_bit_in_a_stored_state_is_noticed_and_links_are_not_followed(tmp_path: Path) -> None:
    monitor, path = tc.Monitor(TRAIN), tmp_path / "state.json"
    monitor.observe(1, TRAIN)
    monitor.save(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(UserError, match="cannot be read as a state"):
            tc.Monitor(TRAIN).load(path)
    victim = tmp_path / "victim"
    victim.write_text("dear")
    for name in ("state.json", "page.html", "copies.png"):
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(victim)
    monitor.save(path)
    monitor.report(tmp_path / "page.html")
    monitor.gallery(tmp_path / "copies.png")
    assert victim.read_text() == "dear" and not path.is_symlink()
    with pytest.raises(UserError, match="use one of"):
        monitor.gallery(tmp_path / "copies.txt")
