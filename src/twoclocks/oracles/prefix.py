"""The exact next-token distribution P(x_i | x_1 … x_{i−1}) for x uniform on a set, and its loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.oracles.posterior import Posterior
from twoclocks.rules.automaton import LOG_ZERO


def next_token_loss(posterior: Posterior, rows: Tensor, symbols: int) -> Tensor:
    """Exact next-token loss −log P(x_i | x_<i) in nats at every entry (n, entries) of valid rows (n, *shape).

    >>> from twoclocks import rules
    >>> from twoclocks.oracles import rule_posterior
    >>> rule = rules.create("parity", length=4, group=2)
    >>> [f"{loss:.3f}" for loss in next_token_loss(rule_posterior(rule), rule.sample(1, seed=0), symbols=2)[0].abs()]
    ['0.693', '0.000', '0.693', '0.000']
    """
    flat = rows.flatten(1)
    seen = (1 - functional.one_hot(flat, symbols).double()) * LOG_ZERO  # log-likelihoods at entries that are known
    found = []
    for entry in range(flat.shape[1]):
        logits = torch.zeros_like(seen)
        logits[:, :entry] = seen[:, :entry]
        probability = posterior(logits)[:, entry].gather(1, flat[:, entry : entry + 1])[:, 0]
        found.append(-probability.clamp(min=torch.finfo(torch.float64).tiny, max=1).log())
    return torch.stack(found, dim=1)


def listed_token_loss(members: Tensor, rows: Tensor, symbols: int) -> Tensor:
    """Exact next-token loss for x uniform on listed members (N, *shape), by counting those that share a prefix."""
    both = torch.cat([members.flatten(1), rows.flatten(1)]).long()
    prefix = torch.zeros(len(both), dtype=torch.int64)  # one integer per prefix that occurs
    before = torch.full((len(rows),), float(len(members)), dtype=torch.float64)
    found = []
    for entry in both.unbind(dim=1):
        _, prefix = torch.unique(prefix * symbols + entry, return_inverse=True)
        counts = torch.bincount(prefix[: len(members)], minlength=int(prefix.max()) + 1)
        now = counts[prefix[len(members) :]].double()
        found.append(-(now / before).log())
        before = now
    return torch.stack(found, dim=1)
