"""Standard errors of losses where small sets are repeated: against the scatter of many simulated sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twoclocks.core.counts import Row
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.loss_errors import error_of_gap, error_of_mean


def simulated(distinct: int, rows: int, noise: float, rng: np.random.Generator) -> torch.Tensor:
    """Losses of rows that are repeated: a loss of its own for each distinct row, and new noise each time."""
    own = rng.normal(2.0, 1.0, distinct)
    return torch.from_numpy(own[np.arange(rows) % distinct] + noise * rng.normal(size=rows))


@pytest.mark.parametrize(("distinct", "rows"), [(32, 256), (48, 256), (256, 256), (100, 250)])
@pytest.mark.parametrize("noise", [0.0, 1.5])
def test_the_error_is_the_scatter_of_the_mean(distinct: int, rows: int, noise: float) -> None:
    rng = np.random.default_rng(0)
    sets = [simulated(distinct, rows, noise, rng) for _ in range(1500)]
    scatter = float(np.std([float(one.mean()) for one in sets]))
    told = float(np.mean([error_of_mean(one, distinct) for one in sets]))
    assert told == pytest.approx(scatter, rel=0.08)


def test_of_a_whole_set_only_the_noise_is_uncertain() -> None:
    rng = np.random.default_rng(1)
    own = rng.normal(2.0, 1.0, 32)[np.arange(256) % 32]
    sets = [torch.from_numpy(own + 0.7 * rng.normal(size=256)) for _ in range(1500)]
    scatter = float(np.std([float(one.mean()) for one in sets]))
    assert np.mean([error_of_mean(one, 32, is_whole=True) for one in sets]) == pytest.approx(scatter, rel=0.08)


def test_pairs_share_their_noise_where_no_row_is_repeated() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(size=400)
    train, held_out = (torch.from_numpy(noise + 0.1 * rng.normal(size=400)) for _ in range(2))
    paired = error_of_gap(train, held_out, (400, 400), is_whole=False)
    assert paired == pytest.approx(0.1 * 2**0.5 / 20, rel=0.2)
    apart = error_of_gap(train, held_out, (400, 200), is_whole=False)
    assert apart == pytest.approx(np.hypot(error_of_mean(train, 400), error_of_mean(held_out, 200)))


def test_a_run_on_text_has_these_errors() -> None:
    """64 training strings fill 256 rows four times; a GPT's loss has no noise, so the training loss is exact."""
    made = Experiment(load_settings("text-small"))
    row: Row = made.losses()
    values = made.objective.loss(made.network, made.splits["held_out"], torch.Generator()).double()
    assert len(torch.unique(made.splits["held_out"], dim=0)) == 256
    expected = float(values.std()) / 16
    assert row["loss_held_out_error"] == pytest.approx(expected, rel=1e-6)
    assert row["loss_gap_error"] == pytest.approx(expected, rel=1e-4)
