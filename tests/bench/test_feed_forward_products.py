"""The candidate kernels of a feed-forward branch compute what float32 does, on Triton's interpreter or on a GPU."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytest.importorskip("triton")
pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parents[2] / "benchmarks" / "feed_forward_products.py"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # which the interpreter cannot multiply in bfloat16


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("feed_forward_products", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("shape", [(64, 32, 128), (50, 32, 80), (33, 48, 72)], ids=str)
def test_both_passes_are_those_of_float32(program: ModuleType, shape: tuple[int, int, int], persistent: bool) -> None:
    """Rows and columns that fill no whole tile, and an inner width that is no multiple of the depth."""
    tiling = program.Tiling(rows=32, columns=64, depth=32, warps=4, stages=2, persistent=persistent)
    case = program.make_case(shape, 0, DEVICE, HALF)
    assert max(program.errors(case, tiling).values()) < (1e-2 if DEVICE == "cuda" else 2e-3)
