"""Exact posteriors, denoisers and loss floors for data from the cube, the rule or the training set."""

from twoclocks.core.constants import MASK
from twoclocks.oracles import energy
from twoclocks.oracles.discrete import (
    Masking,
    UniformNoise,
    restoring_network,
    token_layer_posteriors,
    token_posterior,
)
from twoclocks.oracles.empirical import empirical_denoiser
from twoclocks.oracles.floors import Floor, cube_floor, empirical_floor, rule_floor, token_floor
from twoclocks.oracles.gaussian import Denoiser, cube_denoiser, rule_denoiser
from twoclocks.oracles.kernel_descent import KernelDescent
from twoclocks.oracles.ntk import memory_eigenvalue, tangent_kernel
from twoclocks.oracles.posterior import cube_posterior, layer_posteriors, list_posterior, rule_posterior

__all__ = [
    "MASK",
    "Denoiser",
    "Floor",
    "KernelDescent",
    "Masking",
    "UniformNoise",
    "cube_denoiser",
    "cube_floor",
    "cube_posterior",
    "empirical_denoiser",
    "empirical_floor",
    "energy",
    "layer_posteriors",
    "list_posterior",
    "memory_eigenvalue",
    "restoring_network",
    "rule_denoiser",
    "rule_floor",
    "rule_posterior",
    "tangent_kernel",
    "token_floor",
    "token_layer_posteriors",
    "token_posterior",
]
