"""The branches of all blocks in exact float32, and the backward pass through them, by hand: for the CPU.

Compiled by TorchScript both run outside of Python, where several threads need not wait for each other. Each call is
one of PyTorch's own kernels; in Python the functions do the same.
"""

# No postponed annotations: TorchScript reads them.

import torch
from torch import Tensor


def forward(
    tokens: Tensor, conditionings: list[Tensor], weights: list[Tensor], heads: list[int], causal: bool, eps: float,
    keep: bool,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """Tokens (n, length, width) after all branches, and, if it is to be kept, what the backward pass needs.

    Of each branch: ``weights`` of the first layer and of the last, ``conditionings`` shift, scale and gate, or gain and
    bias of a LayerNorm.
    """
    kept: list[Tensor] = []
    each = len(conditionings) // len(heads)
    for number in range(len(heads)):
        tokens, more = branch(
            tokens, conditionings[each * number : each * (number + 1)], weights[4 * number : 4 * number + 4],
            heads[number], causal, eps,
        )  # fmt: skip
        if keep:
            kept.extend(more)
    return tokens, kept


def branch(
    tokens: Tensor, conditioning: list[Tensor], weights: list[Tensor], heads: int, causal: bool, eps: float
) -> tuple[Tensor, list[Tensor]]:
    """Tokens after one branch, and what its backward pass needs."""
    n, length, width = tokens.shape
    modulated = len(conditioning) == 3
    gain: Tensor | None = None if modulated else conditioning[0]
    offset: Tensor | None = None if modulated else conditioning[1]
    normed, mean, inverse = torch.native_layer_norm(tokens, [width], gain, offset, eps)
    steered = normed
    if modulated:
        steered = torch.addcmul(normed, normed, conditioning[1].unsqueeze(1)).add_(conditioning[0].unsqueeze(1))
    wide = affine(steered.view(n * length, width), weights[0], weights[1])
    if heads > 0:
        q, k, v = wide.view(n, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed, extra = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
        hidden = mixed.transpose(1, 2).reshape(n * length, width)
    else:
        hidden, extra = torch.ops.aten.gelu(wide), mean
    value = affine(hidden, weights[2], weights[3]).view(n, length, width)
    kept = [tokens, mean, inverse, normed, steered, wide, hidden, extra, value]
    if modulated:
        return torch.addcmul(tokens, value, conditioning[2].unsqueeze(1)), kept
    return tokens + value, kept[:8]


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x Wᵀ + b; given its place in memory, since otherwise TorchScript makes two passes of it."""
    return torch.addmm(bias, x, weight.t(), out=x.new_empty([len(x), len(weight)]))


def backward(
    d_tokens: Tensor, kept: list[Tensor], conditionings: list[Tensor], weights: list[Tensor], places: list[Tensor],
    heads: list[int], causal: bool,
) -> list[Tensor]:  # fmt: skip
    """Gradients of tokens and all conditionings; those of the weights are written to their ``places``."""
    number = len(heads)
    each, held = len(conditionings) // number, len(kept) // number
    d_conditionings: list[Tensor] = []
    while number > 0:
        number -= 1
        d_tokens, d_conditioning = branch_backward(
            d_tokens, kept[held * number : held * (number + 1)], conditionings[each * number : each * (number + 1)],
            weights[4 * number : 4 * number + 4], places[4 * number : 4 * number + 4], heads[number], causal,
        )  # fmt: skip
        d_conditionings = d_conditioning + d_conditionings
    return [d_tokens] + d_conditionings  # noqa: RUF005  TorchScript cannot unpack


def branch_backward(
    d_out: Tensor, kept: list[Tensor], conditioning: list[Tensor], weights: list[Tensor], places: list[Tensor],
    heads: int, causal: bool,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """The same of one branch."""
    tokens, mean, inverse, normed, steered, wide, hidden, extra = kept[:8]
    n, length, width = tokens.shape
    modulated = len(conditioning) == 3
    d_value = d_out * conditioning[2].unsqueeze(1) if modulated else d_out
    d_value = d_value.view(n * length, width)
    d_hidden = d_value.mm(weights[2])
    if heads > 0:
        q, k, v = wide.view(n, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = hidden.view(n, length, heads, width // heads).transpose(1, 2)
        d_mixed = d_hidden.view(n, length, heads, width // heads).transpose(1, 2)
        d_q, d_k, d_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            d_mixed, q, k, v, mixed, extra, 0.0, causal
        )
        d_parts = [d_q.transpose(1, 2), d_k.transpose(1, 2), d_v.transpose(1, 2)]
        d_wide = torch.stack(d_parts, 2).view(n * length, 3 * width)
    else:
        d_wide = torch.ops.aten.gelu_backward(d_hidden, wide, grad_input=d_hidden)
    d_steered = d_wide.mm(weights[0]).view(n, length, width)
    layer_gradient(d_wide, steered.view(n * length, width), places[0], places[1])
    layer_gradient(d_value, hidden, places[2], places[3])
    gain: Tensor | None = None if modulated else conditioning[0]
    offset: Tensor | None = None if modulated else conditioning[1]
    d_conditioning: list[Tensor] = []
    if modulated:
        d_conditioning = [d_steered.sum(1), (d_steered * normed).sum(1), (d_out * kept[8]).sum(1)]
        if len(conditioning[0]) != n:  # the same for all samples
            d_conditioning = [
                d_conditioning[0].sum(0, True),
                d_conditioning[1].sum(0, True),
                d_conditioning[2].sum(0, True),
            ]
        d_steered.addcmul_(d_steered, conditioning[1].unsqueeze(1))
    d_tokens, d_gain, d_offset = torch.ops.aten.native_layer_norm_backward(
        d_steered, tokens, [width], mean, inverse, gain, offset, [True, not modulated, not modulated]
    )
    if not modulated:
        d_conditioning = [d_gain, d_offset]
    return d_tokens.add_(d_out), d_conditioning


def layer_gradient(d_out: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Write a layer's gradients."""
    torch.mm(d_out.t(), x, out=weight)
    torch.sum(d_out, [0], out=bias)
