"""Predict training and held-out loss of gradient descent in the neural-tangent-kernel (NTK) limit at every step.

The prediction has no free parameter. The network learns the noise u in y = x_i + σu from P points. In the NTK limit
its error r obeys r ← r − (2·rate/d)·Θr, with (Θr)(x) = E_y[Θ(x, y) r(y)] over the noisy training set. In the noise
cloud around each point, r is expanded in the functions 1, u_1 … u_d (orthonormal under the noise). It starts as u, of
degree one; terms of higher degree that Θ adds are neglected. Integration by parts turns the matrix of Θ in these
functions into derivatives with respect to x and y. In high dimension these depend on lengths and angles that hardly
fluctuate: ‖y‖² is ‖x_i‖² + σ²d, and products of two noisy points are those of the clean ones. This leaves tables
(P, P), and a matrix of P(d + 1) rows that is never stored. Batches enter only through their mean; the variance of
their noise is neglected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from twoclocks.core.arrays import Floats
from twoclocks.oracles.ntk import kernel_of

VECTORS = 80  # dimension of the Krylov space; 160 change predicted losses by less than 1% until the gap opens


class Coefficients(NamedTuple):
    """k functions on the noise clouds around P points, given by their means (P, k) and slopes in u (P, d, k)."""

    mean: Tensor
    slope: Tensor

    def flat(self) -> Tensor:
        """Means and slopes in one matrix (P·(d + 1), k)."""
        return torch.cat([self.mean[:, None], self.slope], dim=1).flatten(0, 1)

    @classmethod
    def of(cls, flat: Tensor, points: int) -> Coefficients:
        """The inverse of ``flat``."""
        table = flat.unflatten(0, (points, -1))
        return cls(table[:, 0], table[:, 1:])


class CloudKernel:
    """The kernel Θ between noise clouds around evaluation points ``x`` (n, d) and training points ``y`` (P, d)."""

    def __init__(self, x: Tensor, y: Tensor, sigma: float) -> None:
        self.x, self.y, self.sigma = x.double(), y.double(), sigma
        spread = sigma**2 * x.shape[1]
        squared_x = (self.x.square().sum(dim=1) + spread)[:, None]
        squared_y = self.y.square().sum(dim=1) + spread
        product = self.x @ self.y.T
        across = (squared_x * squared_y - product.square()).sqrt()  # ‖x‖‖y‖ sin θ
        self.value = kernel_of(squared_x, squared_y, product, x.shape[1])
        unit = 2 * math.pi * x.shape[1]
        # Derivatives with respect to x·y (p), ‖x‖² (s) and ‖y‖² (t), all (n, P).
        self.p = (2 * (math.pi - torch.atan2(across, product)) + product / across) / unit
        self.s = (squared_y / 2 - product.square() / squared_x) / (across * unit)
        self.t = (squared_x / 2 - product.square() / squared_y) / (across * unit)
        self.pp = (3 / across + product.square() / across**3) / unit
        self.ps = -product * (1 / (squared_x * across) + squared_y / (2 * across**3)) / unit
        self.pt = -product * (1 / (squared_y * across) + squared_x / (2 * across**3)) / unit
        self.st = squared_x * squared_y / (4 * across**3) / unit

    def __call__(self, of: Coefficients) -> Coefficients:
        """Apply Θ to functions on the clouds of ``y``; the result are functions on those of ``x``."""
        sigma = self.sigma
        along_y = torch.einsum("jd,jdk->jk", self.y, of.slope)  # y_j·slope_j
        along_x = torch.einsum("id,jdk->ijk", self.x, of.slope)  # x_i·slope_j
        by_p = torch.einsum("ij,jdk->idk", self.p, of.slope)
        mean = self.value @ of.mean
        mean = mean + sigma * (torch.einsum("id,idk->ik", self.x, by_p) + 2 * self.t @ along_y)
        # The derivative with respect to x has components along y_j, along x_i, and along the slope itself.
        to_y = self.p[..., None] * of.mean + sigma * (self.pp[..., None] * along_x + 2 * self.pt[..., None] * along_y)
        to_x = 2 * self.s @ of.mean + sigma * (2 * (self.ps[..., None] * along_x).sum(dim=1) + 4 * self.st @ along_y)
        slope = sigma * by_p + torch.einsum("ijk,jd->idk", to_y, self.y) + self.x[:, :, None] * to_x[:, None]
        return Coefficients(mean / len(self.y), sigma * slope / len(self.y))


class Losses(NamedTuple):
    """Predicted training and held-out losses at some steps."""

    steps: Floats
    train: Floats
    held_out: Floats

    @property
    def gap(self) -> Floats:
        return self.held_out - self.train


class KernelDescent:
    """Gradient descent in the NTK limit on training points (P, d), with losses on held-out points (n, d).

    Only a few of the d outputs are computed; they represent all. The whole descent takes place in the Krylov space of
    the target, which Lanczos' method computes once; losses at any step and learning rate follow from it.
    """

    def __init__(self, train: Tensor, held_out: Tensor, sigma: float, outputs: int = 8, vectors: int = VECTORS) -> None:
        self.dimension, self.points, outputs = train.shape[1], len(train), min(outputs, train.shape[1])
        inside, outside = CloudKernel(train, train, sigma), CloudKernel(held_out, train, sigma)
        start = noise_target(self.points, self.dimension, outputs)
        basis = [start / start.norm(dim=0)]
        diagonal, off_diagonal, outputs_outside = [], [], []
        for _ in range(min(vectors, len(start))):
            here = Coefficients.of(basis[-1], self.points)
            outputs_outside.append(outside(here).flat())
            after = inside(here).flat()
            diagonal.append((after * basis[-1]).sum(dim=0))
            for _ in range(2):  # orthogonalise twice: after one pass rounding errors would grow again
                for old in basis:
                    after = after - (after * old).sum(dim=0) * old
            off_diagonal.append(after.norm(dim=0))
            basis.append(after / off_diagonal[-1].clamp(min=1e-300))
        across = torch.diag_embed(torch.stack(off_diagonal[:-1], dim=1), offset=1)  # (outputs, vectors, vectors)
        matrix = torch.diag_embed(torch.stack(diagonal, dim=1)) + across + across.mT
        self.values, self.vectors = torch.linalg.eigh(matrix)
        # Held-out losses need only products of Θ of the basis on the held-out clouds (vectors, n·(d + 1), outputs).
        table, aim = torch.stack(outputs_outside), noise_target(len(held_out), self.dimension, outputs)
        self.products = torch.einsum("vnk,wnk->kvw", table, table) * self.points / len(held_out)
        self.overlaps = torch.einsum("vnk,nk->kv", table, aim) * math.sqrt(self.points) / len(held_out)

    def losses(self, rate: float, steps: Sequence[float] | Floats) -> Losses:
        """Mean losses over points and outputs after given numbers of steps."""
        size, times = 2 * rate / self.dimension, torch.as_tensor(np.asarray(steps, dtype=np.float64))[:, None, None]
        first = self.vectors[:, 0]  # the target in eigenvectors (outputs, vectors)
        # Remaining fraction of each error component (steps, outputs, vectors); none changes sign at rates up to half
        # of the largest stable one.
        left = (1 - size * self.values).clamp(min=0) ** times
        train = (left * first).square().sum(dim=2).mean(dim=1)
        summed = torch.where(self.values > 1e-15, (1 - left) / self.values.clamp(min=1e-15), size * times)
        weights = torch.einsum("kvw,skw->skv", self.vectors, summed * first)
        squared = torch.einsum("skv,kvw,skw->sk", weights, self.products, weights)
        held_out = (1 - 2 * (weights * self.overlaps).sum(dim=2) + squared).mean(dim=1)
        return Losses(times.flatten().numpy(), train.numpy(), held_out.numpy())

    def gap_onset(self, rate: float, threshold: float, longest: float = 1e9) -> float:
        """The step at which held-out minus training loss rises above the threshold; inf if not by ``longest``."""
        steps = np.geomspace(1, longest, 400)
        gap = self.losses(rate, steps).gap
        above = np.flatnonzero(gap > threshold)
        if not len(above):
            return math.inf
        last = int(above[0])
        if last == 0:
            return 1.0
        share = (threshold - gap[last - 1]) / (gap[last] - gap[last - 1])
        return float(steps[last - 1] * (steps[last] / steps[last - 1]) ** share)


def noise_target(points: int, dimension: int, outputs: int) -> Tensor:
    """The noise u as a function on the clouds, one coordinate per column: (points·(d + 1), outputs)."""
    slope = torch.eye(dimension, dtype=torch.float64)[:, :outputs].repeat(points, 1, 1)
    return Coefficients(slope.new_zeros(points, outputs), slope).flat()
