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
    if "accelerate" in sys.modules:
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(True)
        GradientState._reset_state()
