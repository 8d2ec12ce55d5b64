"""The GPU's Tensor Memory Accelerator (TMA), which copies tiles of matrices into a multiprocessor."""

from __future__ import annotations

from torch import Tensor


def fits(*matrices: Tensor) -> bool:
    """Whether it can read all of them in our kernels: 16-bit numbers without gaps, in rows of whole 16 bytes."""
    return all(one.element_size() == 2 and one.is_contiguous() and one.shape[-1] % 8 == 0 for one in matrices)
