"""Adam and AdamW on flat memory: values and moments of all parameters in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from twoclocks.kernels.flat import Flat


class FlatAdam(torch.optim.Optimizer):
    """torch's Adam, or with ``decoupled`` its AdamW, for the parameters of a ``Flat``; its state is interchangeable."""

    def __init__(
        self,
        flat: Flat,
        lr: float,
        weight_decay: float = 0.0,
        decoupled: bool = False,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.flat = flat
        self.first, self.second = torch.zeros_like(flat.values), torch.zeros_like(flat.values)
        self.steps = torch.zeros(len(flat.parameters), device=flat.values.device)  # all the same, one a parameter
        chosen = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "decoupled": decoupled}
        super().__init__(flat.parameters, chosen)
        self.share()

    def share(self) -> None:
        """Show the flat moments under the names that torch's Adam gives them."""
        for step, parameter in zip(self.steps, self.flat.parameters, strict=True):
            self.state[parameter] = {
                "step": step,
                "exp_avg": self.flat.view(self.first, parameter),
                "exp_avg_sq": self.flat.view(self.second, parameter),
            }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copies the moments into the flat memory, where a captured step may look for them."""
        super().load_state_dict(state_dict)
        for parameter, moments in list(self.state.items()):
            self.flat.view(self.first, parameter).copy_(moments["exp_avg"])
            self.flat.view(self.second, parameter).copy_(moments["exp_avg_sq"])
            self.steps.fill_(float(moments["step"]))
        if not self.state:
            for memory in (self.first, self.second, self.steps):
                memory.zero_()
        self.share()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        (group,) = self.param_groups
        self.steps += 1
        update = torch._fused_adamw_ if group["decoupled"] else torch._fused_adam_
        beta_1, beta_2 = group["betas"]
        update(
            [self.flat.values], [self.flat.gradients], [self.first], [self.second], [], [self.steps[0]],
            lr=group["lr"], beta1=beta_1, beta2=beta_2, weight_decay=group["weight_decay"], eps=group["eps"],
            amsgrad=False, maximize=False,
        )  # fmt: skip
