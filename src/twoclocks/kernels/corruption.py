"""EDM's corruption and preconditioning of a batch as one Triton kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


def precondition(clean: Tensor, log_sigma: Tensor, noise: Tensor, sigma_data: float) -> tuple[Tensor, Tensor, Tensor]:
    """Input, noise label and target of a denoiser's network; see ``EDM.precondition``."""
    scaled, target, label = torch.empty_like(clean), torch.empty_like(clean), torch.empty_like(log_sigma)
    entries = clean.numel() // len(clean)
    _precondition[(len(clean), triton.cdiv(entries, BLOCK))](
        clean, log_sigma, noise, scaled, label, target, entries, sigma_data, BLOCK=BLOCK, num_warps=4
    )
    return scaled, label, target


@triton.jit
def _precondition(clean, log_sigma, noise, scaled, label, target, entries, sigma_data, BLOCK: tl.constexpr):
    sample = tl.program_id(0)
    entry = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = entry < entries
    at = sample.to(tl.int64) * entries + entry
    logarithm = tl.load(log_sigma + sample)
    sigma = tl.exp(logarithm)
    inverse = 1.0 / tl.sqrt(sigma * sigma + sigma_data * sigma_data)
    x = tl.load(clean + at, mask=here, other=0.0)
    n = tl.load(noise + at, mask=here, other=0.0)
    tl.store(scaled + at, (x + sigma * n) * inverse, mask=here)
    tl.store(target + at, (sigma / sigma_data * x - sigma_data * n) * inverse, mask=here)
    if tl.program_id(1) == 0:
        tl.store(label + sample, logarithm / 4)
