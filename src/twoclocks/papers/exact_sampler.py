"""What a sampler alone costs: samples of an exact network are invalid only where several tokens change at once.

A step of a discrete sampler changes tokens without knowing of each other. The fewer steps, the more samples break the
rule, however good the network is. Nothing corrects for this; a clock that waits for 90% valid samples waits for the
sum of both errors.
"""

from __future__ import annotations

import torch

from twoclocks.core.errors import UserError
from twoclocks.core.proportion import clopper_pearson
from twoclocks.core.seeds import torch_stream
from twoclocks.objectives.base import Network, Objective, sample
from twoclocks.objectives.d3pm import D3PM
from twoclocks.objectives.masked import Masked
from twoclocks.oracles.discrete import Masking, UniformNoise, restoring_network
from twoclocks.oracles.posterior import rule_posterior
from twoclocks.rules.base import Rule

ROWS = 500  # strings at a time


def exact_network(objective: Objective, rule: Rule) -> Network:
    """The network whose every answer is the rule's exact posterior; UserError where the objective has none."""
    posterior = rule_posterior(rule)
    if isinstance(objective, D3PM):
        corruption = UniformNoise if objective.corruption == "uniform" else Masking
        return objective.network_of(restoring_network(posterior, corruption, rule.symbols))
    if isinstance(objective, Masked):
        return restoring_network(posterior, Masking, rule.symbols)
    raise UserError(f"objective: {type(objective).__name__} restores no tokens; use d3pm or masked")


@torch.no_grad()
def invalid_by_sampler(
    objective: Objective, rule: Rule, samples: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """The proportion of invalid samples of an exact network, with its 95% interval."""
    fitted = objective.fitted(rule.symbols)
    noise = fitted.draw_noise(samples, rule.shape, torch_stream(seed, "sampler alone"))
    network = exact_network(fitted, rule)
    valid = sum(int(rule.is_valid(sample(fitted, network, part)).sum()) for part in noise.split(ROWS))
    low, high = clopper_pearson(samples - valid, samples, 0.025)
    return (samples - valid) / samples, float(low), float(high)
