"""What an objective that offers a capability must do: denoise, list its noise levels, give losses or probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from twoclocks.objectives.base import Denoiser, Network, Objective, sample


def check_capabilities(objective: Objective, network: Network, clean: Tensor, symbols: int) -> None:
    """Every capability that the objective offers works on ``clean`` (n, *shape); those it lacks return None."""
    with torch.no_grad():
        check_predictions(objective, network, clean, symbols)
        check_denoiser(objective, network, clean)
        check_sampler_sigmas(objective, network, clean)
        check_token_losses(objective, network, clean)


def check_predictions(objective: Objective, network: Network, clean: Tensor, symbols: int) -> None:
    found = objective.predictions(network, clean, *objective.draw(clean, torch.Generator().manual_seed(5)))
    assert (found is not None) == objective.offers("predictions"), "predictions must not return None where overridden"
    if found is not None:
        assert tuple(found.shape) == (*clean.shape, symbols), "predictions must have shape (n, length, symbols)"
        assert bool((found >= 0).all()) and torch.allclose(found.sum(dim=-1), torch.ones(clean.shape), atol=1e-4), (
            "predictions must be probabilities"
        )


def check_denoiser(objective: Objective, network: Network, clean: Tensor) -> None:
    """The denoiser keeps the shape, treats every row for itself, and is defined at the ends of its range of σ."""
    denoiser, ends = objective.denoiser(network), objective.sigma_range()
    assert (denoiser is not None) == objective.offers("denoiser"), "denoiser must not return None where overridden"
    assert (denoiser is None) == (ends is None), "sigma_range must be given with a denoiser, and only then"
    if denoiser is None or ends is None:
        return
    assert 0 <= ends[0] <= ends[1], f"sigma_range {ends} must be two numbers, the smaller first"
    for sigma in (min(max(end, 1e-2), 1e2) for end in ends):
        level = clean.new_full((len(clean),), sigma)
        found = denoiser(clean, level)
        assert found.shape == clean.shape, "a denoiser must return the shape that it is given"
        assert bool(torch.isfinite(found).all()), f"the denoiser is not finite at σ = {sigma:g}"
        parts = [denoiser(part, level[: len(part)]) for part in clean.split(2)]
        assert torch.allclose(torch.cat(parts), found, atol=1e-4), "a row's denoising must not depend on its neighbours"


def check_sampler_sigmas(objective: Objective, network: Network, clean: Tensor) -> None:
    """Noise levels fall to 0, and steps by the denoiser lead to the samples of the reverse process."""
    sigmas, denoiser = objective.sampler_sigmas(), objective.denoiser(network)
    # Where overridden it may be None: settings can choose a random sampler.
    assert sigmas is None or objective.offers("sampler_sigmas"), "sampler_sigmas must override that of Objective"
    if sigmas is None:
        return
    assert denoiser is not None, "an objective with sampler_sigmas must offer a denoiser"
    levels = objective.levels
    assert levels is not None and len(sigmas) == levels + 1, "sampler_sigmas must have levels + 1 entries"
    assert float(sigmas[-1]) == 0 and bool((sigmas.diff() < 0).all()), "the noise levels must fall to 0"
    noise = objective.draw_noise(len(clean), tuple(clean.shape[1:]), torch.Generator().manual_seed(1))
    state = objective.begin(network, noise)
    for level in range(levels):
        called: list[tuple[Tensor, Tensor]] = []
        after = objective.denoising_step(recorded(denoiser, called), state, level)
        assert after is not None, "an objective with sampler_sigmas must have a denoising_step"
        first, sigma = called[0]
        assert torch.equal(first, state) and torch.allclose(sigma.double(), sigmas[level], rtol=1e-5), (
            "denoising_step must first evaluate the denoiser at the state and the σ of its level"
        )
        state = after
    assert torch.allclose(objective.finish(state), sample(objective, network, noise), atol=1e-4), (
        "denoising_step must do what reverse_step does"
    )


def recorded(denoiser: Denoiser, calls: list[tuple[Tensor, Tensor]]) -> Denoiser:
    """The same denoiser; adds the arguments of every call to ``calls``."""

    def denoise(y: Tensor, sigma: Tensor) -> Tensor:
        calls.append((y, sigma))
        return denoiser(y, sigma)

    return denoise


def check_token_losses(objective: Objective, network: Network, clean: Tensor) -> None:
    """Losses are finite, one per token, and no token's loss depends on the tokens behind it."""
    found = objective.token_losses(network, clean)
    assert (found is not None) == objective.offers("token_losses"), "token_losses must not return None where overridden"
    if found is None:
        return
    assert found.shape == clean.shape and bool(torch.isfinite(found).all()), "token_losses must be one number per token"
    changed = clean.clone()
    changed[:, -1] = clean[:, -1].roll(1)
    again = objective.token_losses(network, changed)
    assert again is not None and torch.allclose(again[:, :-1], found[:, :-1], atol=1e-4), (
        "a token's loss must not depend on the tokens behind it"
    )
