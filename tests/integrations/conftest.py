"""State that Accelerate keeps per process, which also the Trainer of Transformers uses, is new for every test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    reset()
    yield
    reset()


def reset() -> None:
    if (state := sys.modules.get("accelerate.state")) is not None:
        state.AcceleratorState._reset_state(True)
        state.GradientState._reset_state()
