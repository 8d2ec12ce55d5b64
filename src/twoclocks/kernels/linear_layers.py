"""Networks whose time is spent in linear layers: on the CPU, the textbook forward pass with oneDNN's products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from twoclocks.kernels import cpu_functions
from twoclocks.models.base import Network
from twoclocks.models.unet1d import UNet1d
from twoclocks.models.unet1d_normalised import NormalisedUNet1d

NETWORKS: tuple[type[Network], ...] = (UNet1d, NormalisedUNet1d)


class LinearForm:
    """The network's own forward pass, its linear layers with the products of the CPU's fused operations."""

    def __call__(self, network: Network, *inputs: Any, **named: Any) -> Tensor:
        with OneDnnLinear():
            out: Tensor = network.forward(*inputs, **named)
        return out

    def finish_gradients(self) -> None:
        """Autograd has completed them."""

    def weights_changed(self) -> None:
        """Nothing is derived from the weights."""


class OneDnnLinear(TorchFunctionMode):
    """While it is entered, ``functional.linear`` is ``cpu_functions.Linear``."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        given: tuple[Any, ...] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is functional.linear:
            return linear(*given, **(named or {}))
        return function(*given, **(named or {}))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return cpu_functions.Linear.apply(input, weight, bias)
