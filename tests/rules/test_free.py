"""The rule without constraints: counts are powers, entries have independent posteriors, and runs have clocks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twoclocks import oracles
from twoclocks.rules import Free
from twoclocks.testing import check_rule


@given(st.builds(Free, length=st.integers(1, 4), alphabet=st.integers(2, 9)))
@settings(max_examples=20, deadline=None)
def test_contract_holds_for_any_size(rule: Free) -> None:
    check_rule(rule)
    assert rule.chance() == 1 and rule.copy_chance(1) == rule.cube_copy_chance(1)


def test_its_oracle_is_that_of_the_cube() -> None:
    rule = Free(length=5, alphabet=4)
    y = torch.randn(20, 1, 1, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(oracles.rule_denoiser(rule)(y, 0.4), oracles.cube_denoiser(rule)(y, 0.4))


def test_every_array_of_symbols_is_equally_likely() -> None:
    rows = Free(length=2, alphabet=3).sample(90_000, seed=0)
    counts = torch.bincount(3 * rows[:, 0] + rows[:, 1], minlength=9)
    assert counts.double().tolist() == pytest.approx([10_000] * 9, rel=0.04)
