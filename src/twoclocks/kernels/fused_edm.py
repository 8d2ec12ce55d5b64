"""EDM with its corruption and preconditioning as one Triton kernel."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor

from twoclocks.kernels.corruption import precondition
from twoclocks.objectives.base import Objective
from twoclocks.objectives.edm import EDM


@dataclass(frozen=True, kw_only=True)
class FusedEDM(EDM):
    """EDM for tensors on a GPU; its inputs and targets equal those of ``EDM.precondition``."""

    def precondition(self, clean: Tensor, log_sigma: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return precondition(clean.contiguous(), log_sigma, noise, self.sigma_data)


def fused_objective(objective: Objective) -> Objective:
    """The same objective with fused operations where there are some."""
    if type(objective) is not EDM:
        return objective
    return FusedEDM(**{item.name: getattr(objective, item.name) for item in fields(objective)})
