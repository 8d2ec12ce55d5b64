"""Causal transformer in the style of GPT-2, with a key-value cache for sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.models.attention import merge_heads, self_attention, split_heads
from twoclocks.models.base import MODELS, Network, TransformerSettings, in_float32
from twoclocks.models.dropout import RowDropout
from twoclocks.models.noise_features import FEATURES
from twoclocks.models.registers import Registers
from twoclocks.models.step_key import StepKey


@MODELS.register("gpt")
@dataclass(frozen=True, kw_only=True)
class GPTSettings(TransformerSettings):
    """Causal transformer (GPT-2 style): learned positions, pre-norm blocks, untied head over the symbols."""

    sizes: ClassVar[dict[str, tuple[int, int, int]]] = {
        "nano": (384, 3, 6),
        "mini": (384, 6, 6),
        "B": (768, 12, 12),
    }
    written: ClassVar[str] = "GPT"
    task: ClassVar[str] = "predict the next token"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((36,), 2)

    def build(self, shape: tuple[int, ...], symbols: int) -> GPT:
        return GPT(self, length=math.prod(shape), symbols=symbols)


class Cache:
    """Keys and values of the positions read so far: one pair of buffers (n, heads, length, width/heads) per block.

    Registers are read first and count as positions here.
    """

    def __init__(self, blocks: int, length: int) -> None:
        self.filled, self.length = 0, length
        self.entries: list[tuple[Tensor, Tensor] | None] = [None] * blocks

    def extended(self, block: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write new keys and values (n, heads, t, size) behind the old ones; return all that are filled."""
        entry = self.entries[block]
        if entry is None:
            shape = (*k.shape[:2], self.length, k.shape[3])
            entry = self.entries[block] = k.new_empty(shape), v.new_empty(shape)
        end = self.filled + k.shape[2]
        entry[0][:, :, self.filled : end] = k
        entry[1][:, :, self.filled : end] = v
        return entry[0][:, :, :end], entry[1][:, :, :end]


class GPT(Network):
    """Logits (n, t, symbols) of the next symbol after each of t tokens; the start token is −1 or ``symbols``.

    The head covers the symbols only, so the start token can never be generated.
    """

    divisible: ClassVar[bool] = True
    recordable: ClassVar[bool] = True
    causal: ClassVar[bool] = True

    def __init__(self, settings: GPTSettings, length: int, symbols: int, reads_noise: bool = False) -> None:
        super().__init__()
        width, depth, heads = settings.dimensions
        self.length = length
        self.token_embedding = nn.Embedding(symbols + 1, width)
        self.position_embedding = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, self.causal, settings.dropout, i) for i in range(depth))
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, symbols, bias=False)
        self._initialise(depth)
        self.noise = noise_layer(width) if reads_noise else None  # where a task has noise
        self.step_key = StepKey() if settings.dropout else None
        self.registers = Registers(settings.registers, width)  # last: the other weights do not depend on their number

    def _initialise(self, depth: int) -> None:
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                # GPT-2 shrinks the layers that write to the residual stream with its depth.
                residual = name.endswith(("project", "contract"))
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * depth) if residual else 0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def new_cache(self) -> Cache:
        return Cache(len(self.blocks), self.registers.count + self.length)

    def begin_step(self, key: int) -> None:
        if self.step_key is not None:
            self.step_key.begin(key)

    def dropout_keys(self, *inputs: Tensor) -> Tensor | None:
        """Keys (n,) of the masks of this step, from the rows of all inputs (n, …); None where nothing is dropped."""
        if self.step_key is None or not self.training:
            return None
        return self.step_key(self.position_embedding.weight[:1], *inputs)  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """With a cache, ``tokens`` are those behind what it holds, and nothing is dropped: samples are drawn so."""
        begins = cache is None or cache.filled == 0  # later calls find the registers in the cache
        hidden = self.embed(tokens, 0 if cache is None else max(0, cache.filled - self.registers.count))
        hidden = self.registers.in_front(hidden) if begins else hidden
        keys = self.dropout_keys(tokens) if cache is None else None
        for index, block in enumerate(self.blocks):
            hidden = block(hidden, keys) if cache is None else block.forward_cached(hidden, cache, index)  # type: ignore[operator]
        if cache is not None:
            cache.filled += hidden.shape[1]
        hidden = self.registers.without_front(hidden) if begins else hidden
        return in_float32(self.head, in_float32(self.final_norm, hidden))

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Tokens (n, t) from a position on, as (n, t, width)."""
        positions = self.position_embedding.weight[start : start + tokens.shape[1]]
        embedded: Tensor = self.token_embedding(tokens % self.token_embedding.num_embeddings)
        return embedded + positions


class Block(nn.Module):
    """Pre-norm attention and MLP, each added to its input."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float, index: int) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.attention_dropout, self.mlp_dropout = (RowDropout(dropout, 2 * index + branch) for branch in range(2))

    def forward(self, hidden: Tensor, keys: Tensor | None = None) -> Tensor:
        """Hidden states (n, t, width) after the block; keys (n,) of the rows, for dropout."""
        mixed = self_attention(self.query_key_value(self.attention_norm(hidden)), self.heads, self.causal)
        return self.mlp(hidden + self.attention_dropout(self.project(mixed), keys), keys)

    def forward_cached(self, hidden: Tensor, cache: Cache, index: int) -> Tensor:
        """The same for positions behind those whose keys and values are in the cache."""
        packed = self.query_key_value(self.attention_norm(hidden))
        return self.mlp(hidden + self.project(cached_attention(packed, self.heads, cache, index)))

    def mlp(self, hidden: Tensor, keys: Tensor | None = None) -> Tensor:
        update = self.contract(functional.gelu(self.expand(self.mlp_norm(hidden))))
        out: Tensor = hidden + self.mlp_dropout(update, keys)
        return out


def noise_layer(width: int) -> nn.Linear:
    """Turns features of the noise level into what it adds to every position."""
    layer = nn.Linear(FEATURES, width)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def cached_attention(packed: Tensor, heads: int, cache: Cache, index: int) -> Tensor:
    """Causal attention of new positions (n, t, 3·width) to all that are in the cache and to each other."""
    q, k, v = split_heads(packed, heads)
    k, v = cache.extended(index, k, v)
    steps, before = q.shape[2], k.shape[2] - q.shape[2]
    if before == 0 or steps == 1:
        return merge_heads(functional.scaled_dot_product_attention(q, k, v, is_causal=steps > 1))
    seen = torch.ones(steps, before + steps, dtype=torch.bool, device=q.device).tril(before)
    return merge_heads(functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))
