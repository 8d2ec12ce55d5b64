"""Rules as energies (P1 §5.2): the force on each bit, split into a local term and a term of the rule.

E(x) = Σ_i (x_i² − 1)² + E_rule(x) is zero exactly on the valid corners of the cube. The first term is local: it makes
every corner an attractor, and is learned first. How hard the second is to learn depends on its degree: the number of
bits that are multiplied in its gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from twoclocks.core.errors import UserError
from twoclocks.oracles.gaussian import Sigma, as_floats, broadcast_sigma, check_finite
from twoclocks.rules.automaton import LOG_ZERO
from twoclocks.rules.base import Rule
from twoclocks.rules.counts import Counted, GlobalK
from twoclocks.rules.parity import Parity


def cube_energy(x: Tensor) -> Tensor:
    """Energy of the cube, Σ_i (x_i² − 1)² of x (n, …): zero on the corners of the cube."""
    return (x.square() - 1).square().flatten(1).sum(dim=1)


def rule_energy(rule: Rule, x: Tensor) -> Tensor:
    """Energy of a rule (n,) for x (n, *shape) in ±1: zero on valid corners and positive on the others.

    Parity: Σ_groups (1 − s·Π x)², of degree G in its product. Counts: Σ_lines Π_k (Σ x − c_k)², of degree 2 for one k.
    """
    if isinstance(rule, Parity):
        sign = -1.0 if rule.group % 2 else 1.0  # the product over a valid group: an even number of entries is +1
        return (1 - sign * rule.grouped(x).prod(dim=2)).square().sum(dim=1)
    if isinstance(rule, Counted) and not isinstance(rule, GlobalK):
        _, lines, width = rule.lines
        sums = x.reshape(len(x), lines, width).sum(dim=2)
        excess = [sums - (2 * ones - width) for ones in rule.allowed]
        return torch.stack(excess).prod(dim=0).square().sum(dim=1)
    raise UserError(f"rule: {rule} has no energy here; use parity, exact_k, row_k or row_variable_k")


def local_and_rule_terms(rule: Rule, y: Tensor, sigma: Sigma) -> tuple[Tensor, Tensor]:
    """Split half the posterior log-odds of each bit into a local term, y_i/σ², and the term that the rule adds.

    E[x_i | y] is the tanh of their sum; the local term alone gives the cube's denoiser. Both (n, *shape), float64.
    """
    if rule.symbols != 2:
        raise UserError(f"rule: {rule} has {rule.symbols} symbols; the split is defined for bits")
    y = as_floats(y).double()
    check_finite(y)
    local = y.flatten(1) / broadcast_sigma(sigma, y)[..., 0] ** 2  # (n, entries)
    n, entries = local.shape
    logits = torch.stack([-local, local], dim=2)
    weights = []
    for bit in (0, 1):  # log Z with each entry in turn held at this bit: a posterior would underflow at small σ
        held = logits[:, None].repeat(1, entries, 1, 1)  # (n, held entry, entry, symbol)
        held.diagonal(dim1=1, dim2=2)[:, 1 - bit] = LOG_ZERO
        total = rule.log_partition(held.reshape(n * entries, entries, 2))
        if total is None:
            raise UserError(f"rule: {rule} has no closed form; the split needs one")
        weights.append(total.reshape(n, entries))
    rest = (weights[1] - weights[0]) / 2 - local
    return local.reshape(y.shape), rest.reshape(y.shape)


def corners(bits: int) -> Tensor:
    """All corners (2^bits, bits) of the cube, ±1, float64; bit b of the row's number is entry b."""
    return 2.0 * (torch.arange(1 << bits)[:, None] >> torch.arange(bits) & 1).double() - 1


def degree_spectrum(function: Callable[[Tensor], Tensor], bits: int) -> Tensor:
    """Share of a function's squared norm at each degree 0 … bits of its Walsh–Fourier series on the cube.

    ``function`` maps the corners (2^bits, bits) to (2^bits,) or (2^bits, k); a product of d bits has degree d.

    >>> degree_spectrum(lambda x: 3 * x[:, 0] * x[:, 1] + x[:, 2], bits=3).tolist()
    [0.0, 0.1, 0.9, 0.0]
    """
    if not 1 <= bits <= 20:
        raise UserError(f"bits: {bits} is not allowed; use 1 to 20, since all 2^bits corners are visited")
    values = function(corners(bits)).double().reshape(1 << bits, -1)
    transformed = values.reshape(*[2] * bits, -1)
    for axis in range(bits):
        low, high = transformed.unbind(dim=axis)
        transformed = torch.stack([high + low, high - low], dim=axis)
    size = transformed.reshape(1 << bits, -1).square().sum(dim=1)
    # Axis 0 of the reshape is the highest bit, so rows are in the order of ``corners``.
    degree = (corners(bits) > 0).sum(dim=1)
    if float(size.sum()) == 0:
        raise UserError("function: it is zero on every corner; there are no shares to report")
    return torch.zeros(bits + 1, dtype=torch.float64).index_add(0, degree, size) / size.sum()
