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
    """Keys and values of the positions read so far: one pair of buffers (n, heads, length, width/heads) per block."""

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

    causal: ClassVar[bool] = True

    def __init__(self, settings: GPTSettings, length: int, symbols: int) -> None:
        super().__init__()
        width, depth, heads = settings.dimensions
        self.length = length
        self.token_embedding = nn.Embedding(symbols + 1, width)
        self.position_embedding = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, self.causal) for _ in range(depth))
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, symbols, bias=False)
        self._initialise(depth)

    def _initialise(self, depth: int) -> None:
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                # GPT-2 shrinks the layers that write to the residual stream with its depth.
                residual = name.endswith(("project", "contract"))
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * depth) if residual else 0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def new_cache(self) -> Cache:
        return Cache(len(self.blocks), self.length)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """With a cache, ``tokens`` are those behind what it holds."""
        hidden = self.embed(tokens, 0 if cache is None else cache.filled)
        for index, block in enumerate(self.blocks):
            hidden = block(hidden) if cache is None else block.forward_cached(hidden, cache, index)  # type: ignore[operator]
        if cache is not None:
            cache.filled += tokens.shape[1]
        return in_float32(self.head, in_float32(self.final_norm, hidden))

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Tokens (n, t) from a position on, as (n, t, width)."""
        positions = self.position_embedding.weight[start : start + tokens.shape[1]]
        embedded: Tensor = self.token_embedding(tokens % self.token_embedding.num_embeddings)
        return embedded + positions


class Block(nn.Module):
    """Pre-norm attention and MLP, each added to its input."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden states (n, t, width) after the block."""
        mixed = self_attention(self.query_key_value(self.attention_norm(hidden)), self.heads, self.causal)
        return self.mlp(hidden + self.project(mixed))

    def forward_cached(self, hidden: Tensor, cache: Cache, index: int) -> Tensor:
        """The same for positions behind those whose keys and values are in the cache."""
        packed = self.query_key_value(self.attention_norm(hidden))
        return self.mlp(hidden + self.project(cached_attention(packed, self.heads, cache, index)))

    def mlp(self, hidden: Tensor) -> Tensor:
        out: Tensor = hidden + self.contract(functional.gelu(self.expand(self.mlp_norm(hidden))))
        return out


def cached_attention(packed: Tensor, heads: int, cache: Cache, index: int) -> Tensor:
    """Causal attention of new positions (n, t, 3·width) to all that are in the cache and to each other."""
    q, k, v = split_heads(packed, heads)
    k, v = cache.extended(index, k, v)
    steps, before = q.shape[2], k.shape[2] - q.shape[2]
    if before == 0 or steps == 1:
        return merge_heads(functional.scaled_dot_product_attention(q, k, v, is_causal=steps > 1))
    seen = torch.ones(steps, before + steps, dtype=torch.bool, device=q.device).tril(before)
    return merge_heads(functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))
