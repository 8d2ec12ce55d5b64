"""Random streams that depend on (seed, purpose, step) and on nothing else.

No stream is shared: data, initial weights, batches, noise and evaluation each have their own, and the draw at step t
does not depend on what was drawn before. A run that resumes at step t is therefore the same run, and evaluating more
or less often cannot change the weights.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


def derive(seed: int, purpose: str, step: int = 0) -> int:
    """A 63-bit seed for one purpose at one step."""
    digest = blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def numpy_stream(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """For data: the Philox counter generator gives the same numbers on every platform."""
    return np.random.Generator(np.random.Philox(key=derive(seed, purpose, step)))


def random_order(count: int, seed: int, purpose: str) -> npt.NDArray[np.int64]:
    """A random order of 0 … count−1, the same on every machine and with every version of numpy.

    >>> random_order(6, 0, "order of images").tolist()
    [0, 4, 1, 2, 3, 5]
    """
    keys = numpy_stream(seed, purpose).bit_generator.random_raw(count)  # a stream that numpy never changes
    return np.argsort(keys, kind="stable").astype(np.int64)


def torch_stream(seed: int, purpose: str, step: int = 0, device: str = "cpu") -> torch.Generator:
    """For everything drawn on the training device."""
    import torch

    return torch.Generator(device=device).manual_seed(derive(seed, purpose, step))
