"""The exact posterior of every entry, given what noise made of it: P(x_i = a | y) for x uniform on a set.

Whatever the noise, if it treats entries independently, all that y says is a table of log-likelihoods
``logits[:, i, a] = log p(y_i | x_i = a)`` (n, entries, symbols), up to a constant for each entry. A rule answers with
the log of its partition sum, and the gradient of that is the posterior.
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
    """Uniform over all arrays: every entry alone."""
    return logits.double().softmax(dim=2)


def rule_posterior(rule: Rule) -> Posterior:
    """Uniform over what the rule draws: in closed form where the rule has one, by listing where it is small."""
    if rule.log_partition(torch.zeros(1, rule.empty(1).numel(), rule.symbols, dtype=torch.float64)) is not None:
        return in_pieces(lambda logits: gradient(rule, logits), rows=512)
    try:
        return list_posterior(rule.enumerate(), rule.symbols)
    except UserError as error:
        raise UserError(f"{error}; without a closed form, that is its only exact oracle") from None


def gradient(rule: Rule, logits: Tensor) -> Tensor:
    """∂ log Z / ∂ logits: the probability of each symbol at each entry."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = logits.detach().double().clone().requires_grad_()
        total = rule.log_partition(leaf)
        assert total is not None
        check_possible(total)
        return normalised(torch.autograd.grad(total.sum(), leaf)[0])


def layer_posteriors(rule: RandomHierarchy, logits: Tensor) -> list[Tensor]:
    """Belief propagation: P(node = a | y) at levels 0 (leaves) … depth (root), (n, nodes, vocabulary) each."""
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
    """Without the rounding by which the sum over the symbols misses one."""
    return probabilities / probabilities.sum(dim=2, keepdim=True)


def list_posterior(rows: Tensor, symbols: int, chunk: int = 4096) -> Posterior:
    """Uniform over the rows (N, *shape), read in pieces of ``chunk``: memory for n × chunk weights, whatever N."""
    rows = rows.flatten(1).to(torch.int16 if symbols < 1 << 15 else torch.int64)

    def posterior(logits: Tensor) -> Tensor:
        flat = logits.double().flatten(1)  # (n, entries·symbols)
        mean = torch.zeros_like(flat)
        total = flat.new_full((len(flat),), -torch.inf)
        for piece in rows.split(chunk):
            one_hot = functional.one_hot(piece.to(flat.device).long(), symbols).flatten(1).double()
            weights = flat @ one_hot.T  # (n, chunk)
            new = torch.logaddexp(total, weights.logsumexp(dim=1))
            mean = (total - new).exp()[:, None] * mean + (weights - new[:, None]).exp() @ one_hot
            total = new
        check_possible(total)
        return normalised(mean.reshape(logits.shape))

    return in_pieces(posterior, rows=4096)


def in_pieces(posterior: Posterior, rows: int) -> Posterior:
    """The same posterior, computed for a bounded number of rows at once."""
    return lambda logits: torch.cat([posterior(piece) for piece in logits.split(rows)])


def check_possible(log_total: Tensor) -> None:
    """Refuse evidence that no member of the set can explain; its posterior does not exist."""
    impossible = int((log_total <= LOG_ZERO / 2).sum())
    if impossible:
        raise UserError(f"tokens: what is observed in {impossible} rows fits no valid array; check them with is_valid")
