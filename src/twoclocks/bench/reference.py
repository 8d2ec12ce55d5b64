"""What the fast paths are compared to: the textbook loop and sampler, on the same weights and data.

Written as papers and tutorials write them: one line per equation, torch's defaults for everything. The networks are
those of ``models/`` without a fused form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.core.constants import MASK
from twoclocks.objectives import EDM, Autoregressive
from twoclocks.objectives.base import Objective
from twoclocks.objectives.masked import Masked
from twoclocks.runs.assembly import Experiment

Loss = Callable[..., Tensor]  # of objective, network and clean rows


def edm_loss(objective: EDM, network: nn.Module, clean: Tensor) -> Tensor:
    """Karras et al., table 1, line by line."""
    sigma = (
        (torch.randn(len(clean), 1, 1, 1, device=clean.device) * objective.log_sigma_std)
        .add(objective.log_sigma_mean)
        .exp()
    )
    data = objective.sigma_data
    weight = (sigma**2 + data**2) / (sigma * data) ** 2
    noisy = clean + torch.randn_like(clean) * sigma
    c_skip = data**2 / (sigma**2 + data**2)
    c_out = sigma * data / (sigma**2 + data**2).sqrt()
    c_in = 1 / (data**2 + sigma**2).sqrt()
    denoised = c_skip * noisy + c_out * network(c_in * noisy, sigma.log().flatten() / 4)
    loss: Tensor = (weight * (denoised - clean) ** 2).mean()
    return loss


def next_token_loss(objective: Autoregressive, network: nn.Module, clean: Tensor) -> Tensor:
    logits = network(objective.shifted(clean))
    return functional.cross_entropy(logits.flatten(0, 1), clean.flatten())


def masked_token_loss(objective: Masked, network: nn.Module, clean: Tensor) -> Tensor:
    """Shi et al.: the cross-entropy of masked tokens, weighted by −α′/(1 − α)."""
    time = torch.rand(len(clean), 1, device=clean.device)
    alpha, rate = objective.chosen_schedule.alpha(time), objective.chosen_schedule.rate(time)
    is_masked = torch.rand(clean.shape, device=clean.device) >= alpha
    logits = network(torch.where(is_masked, MASK, clean), (1 - alpha).flatten())
    nll = functional.cross_entropy(logits.flatten(0, 1), clean.flatten(), reduction="none").view_as(clean)
    return (rate / (1 - alpha) * is_masked * nll).mean()


def textbook_loss(objective: Objective) -> Loss:
    """The mean loss of a batch, as the publication of the objective writes it."""
    if isinstance(objective, EDM):
        return edm_loss
    if isinstance(objective, Masked):
        return masked_token_loss
    assert isinstance(objective, Autoregressive)
    return next_token_loss


def plain_step(experiment: Experiment, transform: Callable[[Loss], Loss] = lambda loss: loss) -> Callable[[], None]:
    """One step of the loop that everybody writes first; the loss is read, as people do who want to see it.

    ``transform`` changes how the loss is computed, such as ``torch.compile``.
    """
    settings, objective = experiment.settings.training, experiment.objective
    network, data = experiment.network, experiment.encode(experiment.train_rows)
    cls = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    optimizer = cls(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    loss_of = transform(textbook_loss(objective))

    def step() -> None:
        batch = data[torch.randint(len(data), (settings.batch,), device=data.device)]
        loss = loss_of(objective, network, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


@torch.no_grad()
def plain_samples(experiment: Experiment) -> Tensor:
    """Samples of the run's noise by the textbook form: Heun's sampler, or the whole prefix again for every token."""
    network, noise, objective = experiment.network, experiment.noise, experiment.objective
    if isinstance(objective, EDM):
        return heun(objective, network, noise)
    assert isinstance(objective, Autoregressive)
    tokens = torch.full((len(noise), 1), -1, dtype=torch.int64, device=noise.device)
    for place in range(noise.shape[1]):
        chances = functional.softmax(network(tokens)[:, -1] / objective.temperature, dim=-1)
        symbol = (noise[:, place, None] >= chances.cumsum(dim=-1)[:, :-1]).sum(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, symbol], dim=1)
    return tokens[:, 1:]


def heun(objective: EDM, network: nn.Module, noise: Tensor) -> Tensor:
    """Karras et al., algorithm 1, without churn."""
    denoise = objective.denoiser(network)
    sigmas = objective.sampler_sigmas().to(noise)
    x = noise * sigmas[0]
    for now, after in itertools.pairwise(sigmas):
        slope = (x - denoise(x, now.expand(len(x)))) / now
        ahead = x + (after - now) * slope
        if after > 0:
            slope_ahead = (ahead - denoise(ahead, after.expand(len(x)))) / after
            ahead = x + (after - now) * (slope + slope_ahead) / 2
        x = ahead
    return x
