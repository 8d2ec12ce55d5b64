"""Multi-head attention of a packed projection, shared by the transformers."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def self_attention(packed: Tensor, heads: int, causal: bool = False) -> Tensor:
    """Attention (n, length, width) of packed queries, keys and values (n, length, 3·width)."""
    q, k, v = split_heads(packed, heads)
    return merge_heads(functional.scaled_dot_product_attention(q, k, v, is_causal=causal))


def split_heads(packed: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (n, heads, length, width/heads) of a packed (n, length, 3·width)."""
    n, length, triple = packed.shape
    q, k, v = packed.view(n, length, 3, heads, triple // (3 * heads)).permute(2, 0, 3, 1, 4)
    return q, k, v


def merge_heads(mixed: Tensor) -> Tensor:
    """(n, heads, length, size) to (n, length, heads·size)."""
    n, heads, length, size = mixed.shape
    return mixed.transpose(1, 2).reshape(n, length, heads * size)
