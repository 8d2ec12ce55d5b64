"""The neural tangent kernel (NTK) of one hidden ReLU layer of infinite width, and how fast it memorizes (P2 App. G).

For f(x) = m^(−1/2) Σ_j a_j relu(w_j·x/√d) with standard normal weights, both layers trained, the tangent kernel is the
same number Θ(x, y) for every output, a sum of arc-cosine kernels of degree 1 (from a) and 0 (from w); with θ the angle
between x and y it is (‖x‖‖y‖ sin θ + 2(π − θ) x·y) / (2πd).

A gradient step of size ``rate`` on the loss, which is a mean over the d outputs, multiplies the component of the error
that belongs to eigenvalue λ of Θ on the data by 1 − (2·rate/d)·λ: the 2 comes from the square, the 1/d from the mean.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from twoclocks.core.seeds import torch_stream


class Eigenvalue(NamedTuple):
    """A Monte-Carlo estimate of an eigenvalue, and its standard error."""

    value: float
    error: float


def tangent_kernel(x: Tensor, y: Tensor) -> Tensor:
    """Kernel Θ of every pair of rows of x (n, d) and y (k, d): (n, k)."""
    x, y = x.double(), y.double()
    return kernel_of(x.square().sum(dim=1)[:, None], y.square().sum(dim=1), x @ y.T, x.shape[1])


def kernel_of(squared_x: Tensor, squared_y: Tensor, product: Tensor, dimension: int) -> Tensor:
    """Kernel Θ from ‖x‖², ‖y‖² and x·y, of any shapes that broadcast."""
    across = (squared_x * squared_y - product.square()).clamp(min=0).sqrt()  # ‖x‖‖y‖ sin θ
    angle = torch.atan2(across, product)
    return (across + 2 * (math.pi - angle) * product) / (2 * math.pi * dimension)


def memory_eigenvalue(points: Tensor, sigma: float, draws: int = 256, seed: int = 0) -> Eigenvalue:
    """P2's Eq. (10): the Rayleigh quotient of ψ_i(x) = x − x_i, which is zero outside the noise cloud around point i.

    On p_σ, the mean over P clouds, it is E[u·v Θ(x_i + σu, x_i + σv)] / (P·d) for standard normal u and v, and here its
    mean over the points (P, d). All signs of u and v are averaged (antithetic sampling), which reduces the variance.
    """
    count, dimension = points.shape
    stream, values = torch_stream(seed, "memory eigenvalue"), []
    for _ in range(draws):
        u, v = (torch.randn(count, dimension, generator=stream, dtype=torch.float64) for _ in range(2))
        signed = [
            one * other * paired_kernel(points + one * sigma * u, points + other * sigma * v)
            for one in (1, -1)
            for other in (1, -1)
        ]
        values.append((u * v).sum(dim=1) * torch.stack(signed).mean(dim=0) / (count * dimension))
    found = torch.cat(values)
    return Eigenvalue(float(found.mean()), float(found.std()) / math.sqrt(len(found)))


def paired_kernel(x: Tensor, y: Tensor) -> Tensor:
    """Kernel Θ of row i of x (…, d) with row i of y."""
    products = (x * y).sum(dim=-1)
    return kernel_of(x.square().sum(dim=-1), y.square().sum(dim=-1), products, x.shape[-1])


def largest_eigenvalue(points: Tensor, sigma: float, draws: int = 4, seed: int = 0) -> float:
    """Largest eigenvalue of Θ on p_σ, estimated from noisy copies of every point (P, d)."""
    noise = torch.randn(draws, *points.shape, generator=torch_stream(seed, "noisy copies"), dtype=torch.float64)
    noisy = (points.double() + sigma * noise).flatten(0, 1)
    return float(torch.linalg.eigvalsh(tangent_kernel(noisy, noisy))[-1]) / len(noisy)


def decay_steps(eigenvalue: float, rate: float, dimension: int) -> float:
    """Number of steps τ = d / (2·rate·λ) in which a component of the error falls by the factor e."""
    return dimension / (2 * rate * eigenvalue)


def largest_rate(eigenvalue: float, dimension: int) -> float:
    """Largest stable learning rate d/λ_max: above it gradient descent diverges along the first eigenvector."""
    return dimension / eigenvalue
