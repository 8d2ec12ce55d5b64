"""What a device offers the fused forward passes: operations on a network's layers, each larger than one of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from twoclocks.models.dit import NoiseEmbedding


class Update(NamedTuple):
    """What a branch adds to the tokens: gate ⊙ (value + bias).

    A branch does not add its update itself: it hands it to the next normalisation, which must read the tokens anyway.
    That saves a pass over memory.
    """

    value: Tensor  # (n, length, width)
    bias: Tensor | None = None  # (width,); None: it is in the value already
    gate: Tensor | None = None  # (n, width), or (1, width) for all samples; None: one


class Operations(Protocol):
    """The operations of one device, written once for every network (``transformers.py``)."""

    def noise_condition(self, label: Tensor, embedding: NoiseEmbedding) -> Tensor:
        """silu of the embedding of labels (n,), in the type of the products; (1, width) where all share one label."""

    def modulations(self, condition: Tensor, layers: Sequence[nn.Linear]) -> Sequence[Tensor]:
        """The outputs of all layers for ``condition`` (n, width), cut into vectors (n, width) in their order."""

    def modulate(
        self, tokens: Tensor, update: Update | None, shift: Tensor, scale: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        """Tokens with the update, and these normalised, scaled and shifted, each sample by its own vector."""

    def normalise(self, tokens: Tensor, update: Update | None, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Tokens with the update, and these normalised with the layer's gain and bias."""

    def attend(self, normed: Tensor, layer: nn.Linear, heads: int, causal: bool = False) -> Tensor:
        """Attention (n, length, width); ``layer`` makes its queries, keys and values."""

    def activate(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        """GELU of the layer's output."""

    def feed_forward(
        self, normed: Tensor, expand: nn.Linear, contract: nn.Linear, gate: Tensor | None = None
    ) -> Update:
        """Both layers with GELU between them, as an update of the tokens."""

    def update(self, hidden: Tensor, layer: nn.Linear, gate: Tensor | None = None) -> Update:
        """The layer's output as an update of the tokens."""

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """The layer's output."""

    def embed(self, x: Tensor, layer: nn.Linear, positions: Tensor) -> Tensor:
        """Tokens (n, length, width) of entries (n, length, channels), each at its position (length, width)."""

    def look_up(self, symbols: Tensor, table: nn.Embedding, positions: Tensor) -> Tensor:
        """Tokens (n, length, width) of symbols (n, length), each at its position (length, width)."""

    def read_out(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        """The output of the network's last layer, in float32."""
