"""A transformer's operations for an NVIDIA GPU: matrix products in bfloat16, all between them in few Triton kernels.

Weights stay in float32. Each matrix has a bfloat16 shadow that the products read, renewed after every update. A bias is
added where the product is next read. Gradients of weights are made on other streams during the backward pass: they
fill the multiprocessors that memory-bound kernels leave idle. They are written where the optimizer reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.kernels import (
    attention,
    modulation_functions,
    skinny,
    skinny_functions,
    triton_functions,
    weight_gradient,
)
from twoclocks.kernels.column_sums import column_sums
from twoclocks.kernels.flat import Flat
from twoclocks.kernels.noise_functions import NoiseCondition
from twoclocks.kernels.operations import Update
from twoclocks.kernels.registry import Stacks, fusions
from twoclocks.models.attention import merge_heads, split_heads
from twoclocks.models.base import Network
from twoclocks.models.dit import NoiseEmbedding

NOTHING: tuple[None, None, None] = (None, None, None)
STREAMS = 2  # beside the backward pass: several small gradients at a time
MODULATIONS = STREAMS  # one more, for the layers that make modulations: theirs need not wait for the others


class TritonForm:
    """A network's fused forward pass with the operations that it uses."""

    def __init__(self, network: Network, dtype: torch.dtype = torch.bfloat16) -> None:
        fusion = fusions()[type(network)]
        self.forward, self.operations = fusion.forward, TritonOperations(network, dtype, fusion.stacks(network))

    @property
    def flat(self) -> Flat:
        return self.operations.flat

    def __call__(self, network: Network, *inputs: Any, **named: Any) -> Tensor:
        return self.forward(network, self.operations, *inputs, **named)

    def __deepcopy__(self, memo: Any) -> None:
        """A copy of the network has none, and computes as the textbook does: this one's memory is not its weights."""

    def finish_gradients(self) -> None:
        self.operations.join()

    def weights_changed(self) -> None:
        self.flat.refresh()


class Ready(NamedTuple):
    """Parameters whose gradients are complete, and the update of the backward pass in which they were made."""

    parameters: Sequence[Tensor]
    early_update: Callable[[int, int, bool], None] | None


class TritonOperations:
    """``Operations`` on the weights of one network; ``join`` before its gradients are read."""

    def __init__(self, network: nn.Module, dtype: torch.dtype, stacks: Stacks = ()) -> None:
        self.dtype, self.tokens = dtype, dtype  # of the products, and of what blocks add to
        self.flat = Flat(network, dtype, stacks)
        self.streams: list[torch.cuda.Stream] = []
        self.busy: set[int] = set()  # streams that this backward pass has given work to
        self.turn = 0
        self.held: list[Tensor] = []  # what the other streams still read
        self.vectors: modulation_functions.VectorGradients | None = None  # of this forward pass
        self.ready: dict[int, list[Ready]] = {}  # by stream: those whose gradients it has made

    def shadow(self, parameter: Tensor) -> Tensor:
        return self.flat.view(self.flat.shadows, parameter)

    # The side streams

    def layer_gradient(self, layer: nn.Linear, d_out: Tensor, x: Tensor) -> None:
        """The gradients of a layer's weight and bias, beside what else goes on."""
        weight = self.flat.slot(layer.weight)
        bias = self.flat.slot(layer.bias) if layer.bias is not None else None
        both = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
        self.on_side_stream(lambda: weight_gradient.layer_gradient(d_out, x, weight, bias), d_out, x, ready=both)

    def norm_gradient(self, norm: nn.LayerNorm, sums: Tensor) -> None:
        """The gradients of gain and bias, of which ``sums`` (rows, 2·width) are parts side by side."""
        both = [norm.weight, norm.bias]
        for parameter in both:
            self.flat.slot(parameter)
        gradient = self.flat.stacked(self.flat.gradients, both)
        self.on_side_stream(lambda: column_sums(sums, out=gradient), sums)

    def modulation_gradient(self, layer: nn.Linear, d_out: Tensor, x: Tensor) -> None:
        """The gradients of a layer that makes modulations; its shadow is read once more, so it stays as it is.

        All on one stream, so that ``refresh_modulations`` comes after them.
        """
        weight, bias = self.flat.slot(layer.weight), self.flat.slot(layer.bias)

        def work() -> None:
            weight_gradient.float_product(d_out.T, x, out=weight)
            column_sums(d_out, out=bias)
            self.flat.update_early([layer.weight], shadows=False)

        self.on_side_stream(work, d_out, x, turn=MODULATIONS)

    def refresh_modulations(self, weights: Sequence[Tensor]) -> None:
        """Renew the shadows of layers that make modulations; what the current stream has begun still reads old ones."""
        if self.flat.early_update is not None:  # without it, the optimizer's step renews them
            self.on_side_stream(lambda: self.flat.refresh(weights), turn=MODULATIONS)

    def on_side_stream(
        self, work: Callable[[], object], *reads: Tensor, ready: Sequence[Tensor] = (), turn: int | None = None
    ) -> None:
        """Do the work beside the backward pass; ``ready`` has its gradients afterwards, and may then be updated.

        By the next turn of its stream, the backward pass has begun all that reads the weights in ``ready``. ``turn``
        names a stream; by default it is the next one.
        """
        if turn is None:
            turn = self.turn = (self.turn + 1) % STREAMS
        self.held.extend(reads)  # memory given back now could be overwritten before the other stream has read it
        with self.side_stream(turn):
            self.update_ready(turn)
            work()
        if ready:
            self.ready.setdefault(turn, []).append(Ready(ready, self.flat.early_update))

    @contextmanager
    def side_stream(self, turn: int) -> Iterator[None]:
        """Inside, work goes to a stream that waits for what the current one has begun; a CPU has none."""
        if not self.flat.values.is_cuda:
            yield
            return
        if not self.streams:
            self.streams = [torch.cuda.Stream() for _ in range(STREAMS + 1)]
        self.busy.add(turn)
        self.streams[turn].wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.streams[turn]):
            yield

    def update_ready(self, turn: int) -> None:
        """Update what this stream has made the gradients of, in this backward pass."""
        for parameters, early_update in self.ready.pop(turn, []):
            if early_update is self.flat.early_update:
                self.flat.update_early(parameters)

    def join(self) -> None:
        for turn in sorted(self.busy):  # a CUDA graph cannot wait for a stream that has no part in it
            torch.cuda.current_stream().wait_stream(self.streams[turn])
        self.busy.clear()
        self.held.clear()
        self.ready.clear()  # the optimizer's step updates them
        self.flat.gather()

    # The operations

    def noise_condition(self, label: Tensor, embedding: NoiseEmbedding) -> Tensor:
        """silu of the embedding of labels (n,), in the type of the products; (1, width) where all share one label."""
        if label.requires_grad:  # which the kernels do not offer
            return functional.silu(embedding(label)).to(self.dtype)
        return NoiseCondition.apply(embedding.layers[0].weight, label, self, embedding)

    def modulations(self, condition: Tensor, layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
        """The outputs of all layers for ``condition`` (n, width), cut into vectors (n, width) in their order."""
        vectors: tuple[Tensor, ...] = modulation_functions.Stacked.apply(condition.to(self.dtype), self, tuple(layers))
        return vectors

    def modulate(
        self, tokens: Tensor, update: Update | None, shift: Tensor, scale: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        """Tokens with the update, and these normalised, scaled and shifted, each sample by its own vector."""
        return modulation_functions.Normalise.apply(self, None, eps, tokens, *(update or NOTHING), shift, scale)

    def normalise(self, tokens: Tensor, update: Update | None, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Tokens with the update, and these normalised with the layer's gain and bias."""
        vectors = norm.bias.detach(), norm.weight.detach()
        return modulation_functions.Normalise.apply(self, norm, norm.eps, tokens, *(update or NOTHING), *vectors)

    def attend(self, normed: Tensor, layer: nn.Linear, heads: int, causal: bool = False) -> Tensor:
        """Attention (n, length, width); ``layer`` makes its queries, keys and values."""
        if attention.fits(normed.shape[1], normed.shape[2], heads):
            return triton_functions.Attend.apply(normed, self, layer, heads, causal)
        q, k, v = split_heads(self.linear(normed, layer), heads)
        return merge_heads(functional.scaled_dot_product_attention(q, k, v, is_causal=causal))

    def activate(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        """GELU of the layer's output."""
        return triton_functions.Activate.apply(self.product(normed, layer), self, layer)

    def feed_forward(
        self, normed: Tensor, expand: nn.Linear, contract: nn.Linear, gate: Tensor | None = None
    ) -> Update:
        """Both layers with GELU between them, as an update of the tokens."""
        return Update(triton_functions.FeedForward.apply(normed, self, expand, contract), contract.bias, gate)

    def update(self, hidden: Tensor, layer: nn.Linear, gate: Tensor | None = None) -> Update:
        """The layer's output as an update of the tokens."""
        return Update(self.product(hidden, layer), layer.bias, gate)

    def product(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """x Wᵀ, without the bias."""
        return triton_functions.Product.apply(x, self, layer)

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """The layer's output."""
        if torch.is_grad_enabled():  # the product's backward pass gives the bias its gradient
            return self.product(x, layer) + layer.bias.detach().to(self.dtype)
        return triton_functions.with_bias(x, self, layer)

    def embed(self, x: Tensor, layer: nn.Linear, positions: Tensor) -> Tensor:
        """Tokens (n, length, width) of entries (n, length, channels), each at its position (length, width)."""
        if layer.in_features > skinny.MOST:
            embedded: Tensor = layer(x) + positions
            return embedded
        return skinny_functions.Embed.apply(layer.weight, x, self, layer, positions)

    def look_up(self, symbols: Tensor, table: nn.Embedding, positions: Tensor) -> Tensor:
        """Tokens (n, length, width) of symbols (n, length), each at its position (length, width)."""
        if table.num_embeddings > skinny.MOST:
            embedded: Tensor = table(symbols) + positions
            return embedded
        return skinny_functions.LookUp.apply(table.weight, positions, symbols, self, table)

    def read_out(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        """The output of the network's last layer, in float32."""
        if layer.out_features > skinny.MOST:
            out: Tensor = layer(normed.to(layer.weight.dtype))
            return out
        return skinny_functions.ReadOut.apply(normed, self, layer)
