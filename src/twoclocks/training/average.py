"""An exponential moving average of a network's weights: a second network that follows the one that is trained."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from twoclocks.kernels.flat import FlatForm
from twoclocks.models.base import Network


class Average:
    """``network`` has the averaged weights of ``raw``; training never reads them.

    Both have the same architecture and the same form (``kernels/``). ``update`` waits for nothing on the host and
    writes to the same memory every time, so a CUDA graph can contain it.
    """

    def __init__(self, raw: Network, network: Network, decay: float) -> None:
        self.raw, self.network, self.decay = raw, network.eval().requires_grad_(False), decay
        self.updates = torch.zeros((), dtype=torch.int64, device=next(raw.parameters()).device)
        self.weights = weights_of(network)
        self.start()

    @property
    def sources(self) -> list[Tensor]:
        """The raw weights, where they lie now."""
        return weights_of(self.raw)

    def memory(self) -> list[Tensor]:
        """All that ``update`` changes."""
        return [self.updates, *self.weights]

    @torch.no_grad()
    def start(self) -> None:
        """Begin again with the weights of now."""
        self.updates.zero_()
        torch._foreach_copy_(self.weights, self.sources)

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the weights: to be called after every step of the optimizer."""
        self.updates += 1
        # The decay of update t is min(decay, (1 + t) / (10 + t)): early averages reach back over about a tenth of the
        # steps so far. With the full decay, or with a correction of its bias alone, they would be means over all steps
        # since the first, and the clocks of averaged weights would be late for that reason.
        weight = (9 / (10 + self.updates)).clamp_(min=1 - self.decay)
        sources = self.sources
        if len(self.weights) == 1:
            self.weights[0].lerp_(sources[0], weight)
            return
        change = torch._foreach_sub(sources, self.weights)
        torch._foreach_mul_(change, weight)
        torch._foreach_add_(self.weights, change)

    @torch.no_grad()
    def current(self) -> Network:
        """The averaged network, ready to be sampled; buffers are those of the raw network, not averages."""
        for mine, other in zip(self.network.buffers(), self.raw.buffers(), strict=True):
            mine.copy_(other)
        if self.network.fused is not None:
            self.network.fused.weights_changed()
        return self.network

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint needs, by name."""
        named = {f"weights.{name}": value.detach().cpu() for name, value in self.network.named_parameters()}
        return {"updates": self.updates.cpu(), **named}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what ``tensors`` returned; without any, as in a fork of a run that had no average, start here."""
        if not tensors:
            return self.start()
        self.updates.copy_(tensors["updates"])
        for name, value in self.network.named_parameters():
            value.copy_(tensors[f"weights.{name}"])


def weights_of(network: Network) -> list[Tensor]:
    """The weights as few tensors as there are: one, where they lie in one piece of memory."""
    if isinstance(network.fused, FlatForm):
        return [network.fused.flat.values]
    return [parameter.detach() for parameter in network.parameters()]
