"""Powers of anything that runs differ in, from onsets whose true power is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twoclocks.clocks.law import fit_law
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.power import fit_power
from twoclocks.core.errors import UserError


def seen(tau: float) -> Onset:
    return Onset(0.95 * tau, 1.05 * tau, "observed", definition="gap")


def test_it_is_the_law_s_fit_for_whole_numbers() -> None:
    sizes, rng = [128, 256, 512, 1024], np.random.default_rng(0)
    onsets = [seen(3 * n**0.9 * math.exp(0.1 * rng.standard_normal())) for n in sizes]
    law, power = fit_law(sizes, onsets), fit_power(sizes, onsets)
    assert (power.a, power.power) == pytest.approx((law.a, law.alpha), rel=1e-3)
    assert power.interval == pytest.approx(law.alpha_ci, abs=1e-3)
    assert power.predict(300) == pytest.approx(law.predict(300), rel=1e-3)


def test_values_may_be_floats_and_runs_censored() -> None:
    sigmas = [0.05, 0.1, 0.2, 0.4]
    onsets = [seen(10 / sigma) for sigma in sigmas]
    onsets[0] = Onset(150, math.inf, "right-censored", definition="gap")
    found = fit_power(sigmas, onsets)
    assert found.power == pytest.approx(-1, abs=0.02) and found.censored == 1
    assert found.agrees_with(-1, 0.0) and not found.agrees_with(0, 0.5) and found.agrees_with(-0.9, 0.15)
    assert found.overlaps(fit_power(sigmas[1:], onsets[1:]))
    assert not found.overlaps(fit_power(sigmas, [seen(10 * sigma) for sigma in sigmas]))


@pytest.mark.parametrize(
    ("values", "onsets", "message"),
    [
        ([1.0, 2.0], [seen(1), seen(2)], "at least 3 different"),
        ([1.0, 2.0, -1.0], [seen(1)] * 3, "positive"),
        ([1.0, 2.0, 3.0], [seen(1)] * 2, "2 for 3 values"),
        ([1.0, 2.0, 3.0], [Onset(9, math.inf, "right-censored")] * 3, "run longer"),
        ([1.0, 2.0, 3.0], [seen(1), seen(2), Onset(1, 2, "observed")], "fit them separately"),
    ],
)
def test_runs_that_do_not_identify_a_power_are_refused(values: list[float], onsets: list[Onset], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fit_power(values, onsets)
