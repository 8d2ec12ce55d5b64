"""Where a step's time goes: the time of its kernels (on the CPU, of its operations) by what they are for."""

from __future__ import annotations

import re
from typing import Any

from torch.profiler import ProfilerActivity, profile

from twoclocks.bench.conditions import with_precision
from twoclocks.bench.reference import plain_step
from twoclocks.bench.timing import Work, rate, wait
from twoclocks.bench.workloads import Row, Workload, seeded
from twoclocks.core.theme import light, style

PURPOSES = {  # the first whose pattern is found in a name
    # Before the products: some of its kernels are called after theirs, and on the CPU its own products are batched.
    "attention": r"attention|fmha|flash|softmax|aten::bmm|aten::baddbmm",
    "matrix products": r"gemm|nvjet|cutlass|xmma|splitk|gemv|aten::(add)?mm|_linear_pointwise|resident_product"
    r"|(weight|input|hidden|first|second)_gradient|_(first|second)_layer",
    "normalisation": r"_normalise|layer_norm|layernorm|gammabeta",
    "activation": r"_activate|gelu|silu",
    "optimizer": r"adam|multi_tensor|foreach",
    "the rest": r"",
}
COLOURS = ("memory", "rule", "new", "broken", "muted", "line")
STEPS = 10


def purpose(name: str) -> str:
    return next(key for key, pattern in PURPOSES.items() if re.search(pattern, name, re.IGNORECASE))


def breakdown(step: Work, device: str) -> dict[str, float]:
    """Microseconds a step by purpose. Kernels that run side by side count each, so they may add up to more than it."""
    for _ in range(3):
        step()
    wait(device)
    cuda = device != "cpu"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as seen:
        for _ in range(STEPS):
            step()
        wait(device)
    found = dict.fromkeys(PURPOSES, 0.0)
    for event in seen.key_averages():
        spent = event.self_device_time_total if cuda else event.self_cpu_time_total
        found[purpose(event.key)] += spent / STEPS
    return found


def where_rows(workload: Workload, device: str, seconds: float) -> list[Row]:
    """Before: the textbook loop (on the GPU in TF32). After: ours."""
    # On the CPU with one thread each: the profiler sees only the thread that calls it.
    exact = workload.experiment(device, precision="float32", capture=False, kernels="plain", threads=1)
    before: Work = plain_step(exact)
    before = with_precision(before, "high") if device != "cpu" else before
    after = seeded(workload.experiment(device, threads=1))
    steps: dict[str, Work] = {"before: textbook loop": before, "after: ours": after}
    return [
        {
            "work": workload.label,
            "loop": name,
            "microseconds": breakdown(step, device),
            "step_microseconds": 1e6 / rate(step, device, seconds),
        }
        for name, step in steps.items()
    ]


def draw(rows: list[Row]) -> Any:
    """One bar a loop, divided by purpose; a line marks how long the step takes from end to end."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(9.6, 1.2 + 0.55 * len(rows)), layout="constrained")
        axis = figure.subplots()
        axis.set_axisbelow(True)
        places = list(range(len(rows)))[::-1]
        left = [0.0] * len(rows)
        for name, colour in zip(PURPOSES, COLOURS, strict=True):
            widths = [row["microseconds"][name] / 1e3 for row in rows]
            axis.barh(places, widths, left=left, color=light(colour), label=name, height=0.62)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        ends = [row["step_microseconds"] / 1e3 for row in rows]
        axis.plot(ends, places, "|", color=light("ink"), markersize=22, markeredgewidth=2, label="whole step")
        axis.set_yticks(places, [f"{row['work']}\n{row['loop']}" for row in rows], fontsize=8)
        axis.set_xlabel("milliseconds per step")
        axis.legend(ncols=4, fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.25 / (0.2 + 0.2 * len(rows))))
        return figure
