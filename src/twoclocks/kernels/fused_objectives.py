"""Objectives whose corruption and loss are few Triton kernels, each registered against its textbook class."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor

from twoclocks.kernels import losses
from twoclocks.kernels.corruption import precondition
from twoclocks.objectives.autoregressive import Autoregressive
from twoclocks.objectives.base import Network, Objective
from twoclocks.objectives.edm import EDM


@dataclass(frozen=True, kw_only=True)
class FusedEDM(EDM):
    """EDM for tensors on a GPU; its inputs and targets equal those of ``EDM.precondition``."""

    def precondition(self, clean: Tensor, log_sigma: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return precondition(clean.contiguous(), log_sigma, noise, self.sigma_data)

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        scaled, label, target = self.precondition(clean, *drawn)
        out = network(scaled, label)
        if not losses.takes_images(out, target):
            return super().loss_given(lambda *given: out, clean, *drawn)
        return losses.mean_squared_error(out, target)


@dataclass(frozen=True, kw_only=True)
class FusedAutoregressive(Autoregressive):
    """Next-token prediction for tensors on a GPU."""

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        logits = network(self.shifted(clean))
        if not losses.takes_tokens(logits, clean):
            return super().loss_given(lambda tokens: logits, clean)
        return losses.mean_cross_entropy(logits, clean)


FUSED: dict[type[Objective], type[Objective]] = {EDM: FusedEDM, Autoregressive: FusedAutoregressive}


def fused_objective(objective: Objective) -> Objective:
    """The same objective with fused operations where its class, not one above it, has some."""
    fused = FUSED.get(type(objective))
    if fused is None:
        return objective
    return fused(**{item.name: getattr(objective, item.name) for item in fields(objective)})
