"""Exact oracles as "models": what a view says of them is known beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from twoclocks.data.sets import training_set
from twoclocks.dissection import Info, Models, dissect
from twoclocks.dissection.execution import choose_views
from twoclocks.objectives.autoregressive import START
from twoclocks.objectives.base import Network
from twoclocks.objectives.edm import EDM
from twoclocks.oracles import cube_denoiser, empirical_denoiser, list_posterior, rule_denoiser, rule_posterior
from twoclocks.oracles.posterior import Posterior
from twoclocks.rules.automaton import LOG_ZERO
from twoclocks.runs import RunSettings, load_settings

PARITY = {
    "rule": {"length": 12, "group": 3},
    "data": {"n": 6},
    "objective": {"sampler_steps": 24},
    "evaluation": {"samples": 300},
    "clocks": {"sustain": 1, "confidence": 0.9},
}


def diffusion(change: Mapping[str, Any] = PARITY) -> RunSettings:
    return load_settings("demo", change)


def networks(settings: RunSettings) -> dict[str, Network]:
    """The networks whose denoisers are exactly those of the cube, the rule and the training set."""
    assert isinstance(settings.objective, EDM)
    train = training_set(settings.rule, settings.data.n, settings.data.seed)
    found = {
        "cube": cube_denoiser(settings.rule, settings.encoding),  # type: ignore[arg-type]
        "rule": rule_denoiser(settings.rule, settings.encoding),  # type: ignore[arg-type]
        "memory": empirical_denoiser(train, settings.rule, settings.encoding),  # type: ignore[arg-type]
    }
    return {name: settings.objective.network_of(oracle) for name, oracle in found.items()}


def life(settings: RunSettings, phases: Sequence[str]) -> Models:
    """A training in which the model is one ideal after the other, at steps 10, 20, 30, …"""
    ideal = networks(settings)
    return Models(settings, {10 * (k + 1): ideal[name] for k, name in enumerate(phases)})


def measure_view(subject: Models, view: str, **settings: Any) -> Any:
    found = dissect(subject, choose_views([view], {view: settings}))
    assert not found.refused, found.refused
    info: Info = found.infos[view]
    assert info.sentences() and all("nan" not in sentence for sentence in info.sentences()), info.sentences()
    return info


def reader(posterior: Posterior | None, symbols: int) -> Network:
    """An ideal autoregressive network: reads a start token and symbols, says log P(next | prefix)."""

    def network(tokens: Tensor) -> Tensor:
        n, length = tokens.shape
        assert bool((tokens[:, 0] == START).all())
        said = torch.zeros(n, length, symbols)
        if posterior is None:
            return said
        evidence = torch.zeros(n, length, symbols, dtype=torch.float64)
        for place in range(length):
            if place:
                read = torch.nn.functional.one_hot(tokens[:, place], symbols)
                evidence[:, place - 1] = (1 - read.double()) * LOG_ZERO
            for row in range(n):
                try:
                    said[row, place] = posterior(evidence[row : row + 1])[0, place].clamp(min=1e-9).log().float()
                except Exception:  # a prefix that the set does not have: anything may follow
                    said[row, place] = 0.0
        return said

    return network


def readers(settings: RunSettings) -> dict[str, Network]:
    rule, train = settings.rule, training_set(settings.rule, settings.data.n, settings.data.seed)
    ideals = {"cube": None, "rule": rule_posterior(rule), "memory": list_posterior(train, rule.symbols)}
    return {name: reader(ideal, rule.symbols) for name, ideal in ideals.items()}
