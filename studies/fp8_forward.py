"""Could forward products be made in FP8? Loss curves with products of rounded numbers, beside those of float32.

    python studies/fp8_forward.py --out results/fp8_forward.json

A GPU multiplies numbers of 8 bits (e4m3) twice as fast as bfloat16. Here products are made in float32 of operands that
are rounded as each kind of product rounds them, which a CPU can do: TF32 and bfloat16 in all products of the blocks,
FP8 in those of the forward pass (each tensor scaled to its largest number), with bfloat16 in the backward pass.

The criterion is that of the fast path in tests/kernels/test_gpu.py, on the same 200 steps: mean losses of 20 steps each
may differ from those of float32 by 2%, or by twice as much as those of TF32. It is judged per seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

STEPS, WINDOW, BOUND = 200, 20, 0.02
LARGEST = 448.0  # of e4m3
Rounding = Callable[[Tensor], Tensor]


def tf32(x: Tensor) -> Tensor:
    """Rounded to 10 bits behind the leading one."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)


def bfloat16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def fp8(x: Tensor) -> Tensor:
    """Rounded to e4m3, scaled so that the largest number is the format's largest."""
    scale = LARGEST / x.abs().max().clamp(min=1e-12)
    return (x * scale).to(torch.float8_e4m3fn).float() / scale


# Of the forward and of the backward pass.
KINDS: dict[str, tuple[Rounding, Rounding]] = {
    "tf32": (tf32, tf32),
    "bfloat16": (bfloat16, bfloat16),
    "fp8 forward": (fp8, bfloat16),
}


class RoundedLinear(Function):
    """A linear layer with products of rounded numbers."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rounding: Rounding, behind: Rounding
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.behind, ctx.has_bias = behind, bias is not None
        return functional.linear(rounding(x), rounding(weight), bias)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        x, weight = (ctx.behind(part) for part in ctx.saved_tensors)
        rounded = ctx.behind(d_out)
        d_weight = rounded.flatten(0, -2).T @ x.flatten(0, -2)
        d_bias = d_out.flatten(0, -2).sum(dim=0) if ctx.has_bias else None
        return rounded @ weight, d_weight, d_bias, None, None


class RoundedProducts(TorchFunctionMode):
    """While it is entered, these weights are multiplied as ``kind`` says."""

    def __init__(self, weights: Sequence[Tensor], kind: str) -> None:
        super().__init__()
        self.weights, self.roundings = {id(weight) for weight in weights}, KINDS[kind]

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        given: tuple[Any, ...] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is functional.linear and id(given[1]) in self.weights:
            x, weight, *more = given
            bias = more[0] if more else (named or {}).get("bias")
            return RoundedLinear.apply(x, weight, bias, *self.roundings)
        return function(*given, **(named or {}))


def losses(preset: str, seed: int, kind: str | None, change: Mapping[str, Any]) -> Tensor:
    """Mean losses of consecutive windows, on the data and noise of (seed, step); ``kind`` None: in float32."""
    plain = {"training.precision": "float32", "training.kernels": "plain", "training.capture": False}
    made = Experiment(load_settings(preset, {**plain, "training.seed": seed, **change}))
    blocks: nn.Module = made.network.blocks  # type: ignore[assignment]
    weights = [layer.weight for layer in blocks.modules() if isinstance(layer, nn.Linear)]
    step, found = made.make_step(captures=False), []
    for number in range(1, STEPS + 1):
        if kind is None:
            step(number)
        else:
            with RoundedProducts(weights, kind):
                step(number)
        if number % WINDOW == 0:
            found.append(float(made.loop.loss_sum) / WINDOW)
            made.loop.loss_sum.zero_()
    return torch.tensor(found)


def row(preset: str, seed: int, change: Mapping[str, Any]) -> dict[str, Any]:
    """The largest difference from float32 of each kind, and whether the criterion lets FP8 pass."""
    exact = losses(preset, seed, None, change)
    apart = {kind: float((losses(preset, seed, kind, change) / exact - 1).abs().max()) for kind in KINDS}
    bound = max(BOUND, 2 * apart["tf32"])
    passes = {kind: value < bound for kind, value in apart.items()}
    return {"preset": preset, "seed": seed, "loss": exact.tolist(), "apart": apart, "bound": bound, "passes": passes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--presets", nargs="+", default=["demo", "demo-gpt", "p1-gpt-mini"])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    rows = []
    for preset in asked.presets:
        for seed in range(asked.seeds):
            rows.append(row(preset, seed, {"training.device": asked.device, "training.threads": 1}))
            print({key: value for key, value in rows[-1].items() if key != "loss"}, flush=True)
            origin = {"commit": commit(), "versions": versions(), "machine": machine(asked.device)}
            chosen = f" --presets {' '.join(asked.presets)} --seeds {asked.seeds}"
            command = f"python studies/fp8_forward.py --out results/{asked.out.name}{chosen}"
            write_json(asked.out, {"command": command, **origin, "steps": STEPS, "window": WINDOW, "rows": rows})


if __name__ == "__main__":
    main()
