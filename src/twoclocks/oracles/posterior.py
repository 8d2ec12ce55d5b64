"""Exact posterior marginals P(x_i = a | y) of the entries of x, for x uniform on a set and noisy y.

For any noise that is independent between entries, all information of y is in the log-likelihoods
``logits[:, i, a] = log p(y_i | x_i = a)`` (n, entries, symbols), up to a constant per entry. The gradient of a rule's
log partition function with respect to them is the posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.errors import UserError
from twoclocks.rules.automaton import LOG_ZERO
from twoclocks.rules.base import Rule
from twoclocks.rules.rhm import RandomHierarchy

Posterior: TypeAlias = Callable[[Tensor], Tensor]  # logits (n, entries, symbols) -> probabilities of the same shape


def cube_posterior(logits: Tensor) -> Tensor:
    """Posterior for x uniform over all arrays: entries are independent."""
    return logits.double().softmax(dim=2)


def rule_posterior(rule: Rule) -> Posterior:
    """Posterior for x uniform over the samples of a rule: in closed form, or by listing them if they are few."""
    if rule.log_partition(torch.zeros(1, rule.empty(1).numel(), rule.symbols, dtype=torch.float64)) is not None:
        return in_chunks(lambda logits: partition_gradient(rule, logits), rows=512)
    try:
        return list_posterior(rule.enumerate(), rule.symbols)
    except UserError as error:
        raise UserError(f"{error}; it has no closed form, so listing is its only exact oracle") from None


def partition_gradient(rule: Rule, logits: Tensor) -> Tensor:
    """∂ log Z / ∂ logits, which is the probability of each symbol at each entry."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = logits.detach().double().clone().requires_grad_()
        total = rule.log_partition(leaf)
        assert total is not None
        check_possible(total)
        return normalised(torch.autograd.grad(total.sum(), leaf)[0])


def layer_posteriors(rule: RandomHierarchy, logits: Tensor) -> list[Tensor]:
    """Posteriors P(node = a | y) by belief propagation: levels 0 (leaves) … depth (root), (n, nodes, vocabulary)."""
    if not isinstance(rule, RandomHierarchy):
        raise UserError(f"rule: {rule} has no layers; use rhm")
    with torch.inference_mode(False), torch.enable_grad():
        logits = logits.detach().double().clone()
        shapes = [(len(logits), rule.nodes(level), rule.vocabulary) for level in range(rule.depth + 1)]
        fields = [logits.new_zeros(shape, requires_grad=True) for shape in shapes]
        total = rule.upward_messages(logits, fields)[-1].squeeze(1).logsumexp(dim=1)
        check_possible(total)
        return [normalised(part) for part in torch.autograd.grad(total.sum(), fields)]


def normalised(probabilities: Tensor) -> Tensor:
    """Divide by the sum over symbols, which differs from 1 by rounding errors."""
    return probabilities / probabilities.sum(dim=2, keepdim=True)


def list_posterior(rows: Tensor, symbols: int, chunk: int = 4096) -> Posterior:
    """Posterior for x uniform over listed rows (N, *shape), in chunks: memory for n × ``chunk`` weights, for any N."""
    rows = rows.flatten(1).to(torch.int16 if symbols < 1 << 15 else torch.int64)

    def posterior(logits: Tensor) -> Tensor:
        flat = logits.double().flatten(1)  # (n, entries·symbols)
        mean = torch.zeros_like(flat)
        total = flat.new_full((len(flat),), -torch.inf)
        for part in rows.split(chunk):
            one_hot = functional.one_hot(part.to(flat.device).long(), symbols).flatten(1).double()
            weights = flat @ one_hot.T  # (n, chunk)
            new = torch.logaddexp(total, weights.logsumexp(dim=1))
            mean = (total - new).exp()[:, None] * mean + (weights - new[:, None]).exp() @ one_hot
            total = new
        check_possible(total)
        return normalised(mean.reshape(logits.shape))

    return in_chunks(posterior, rows=4096)


def in_chunks(posterior: Posterior, rows: int) -> Posterior:
    """The same posterior, computed for at most ``rows`` rows at once to bound memory."""
    return lambda logits: torch.cat([posterior(part) for part in logits.split(rows)])


def check_possible(log_total: Tensor) -> None:
    """Raise UserError if an observation has probability zero for all members of the set: it has no posterior."""
    impossible = int((log_total <= LOG_ZERO / 2).sum())
    if impossible:
        raise UserError(f"tokens: {impossible} rows have probability 0 under the rule; check them with is_valid")
