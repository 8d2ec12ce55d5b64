"""The figure of the kernel recipe shows the content of a result, finished or not."""

from __future__ import annotations

from typing import Any

import pytest

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.power import fit_power
from twoclocks.papers.early_stopping.kernel_figure import AXES, draw_kernel, kernel_data


def sweep(places: list[float], power: float, predicted: bool = True) -> dict[str, Any]:
    onsets = [Onset(90 * x**power, 110 * x**power, "observed") for x in places]
    return {
        "rates": [10.0],
        "places": places,
        "onsets": [one.as_json() for one in onsets],
        "predicted": [100 * x**power for x in places] if predicted else [],
        "power": fit_power(places, onsets).as_json() if len(places) > 2 else None,
    }


def result(sizes: list[float]) -> dict[str, Any]:
    sweeps = {}
    for limit in ("ntk", "mean_field"):
        sweeps[f"{limit}-size"] = sweep(sizes, 1)
        sweeps[f"{limit}-noise"] = sweep([0.1, 0.2, 0.4], -1)
        sweeps[f"{limit}-batch"] = sweep([8, 32, 128], 0)
    sweeps["adam-size"] = sweep(sizes, 1, predicted=False)
    return {"values": {"sweeps": sweeps}, "measured": "in words"}


def test_every_sweep_stands_in_its_panel_with_its_exponent() -> None:
    info = kernel_data(result([128, 256, 512]))
    assert {kind: [series.kind for series in found] for kind, found in info.panels.items()} == {
        "size": ["ntk", "mean_field", "adam"],
        "noise": ["ntk", "mean_field"],
        "batch": ["ntk", "mean_field"],
    }
    noise = info.panels["noise"][0]
    assert noise.label.startswith("NTK, rate 10: −1.00 (") and noise.fit is not None
    assert noise.fit[1] == pytest.approx([1000, 250], rel=0.01)
    axes = draw_kernel(info).axes
    assert [axis.get_xlabel() for axis in axes] == list(AXES.values())
    (predicted,) = [line for line in axes[0].lines if line.get_label().startswith("NTK, predicted")]
    assert list(predicted.get_ydata()) == [12_800, 25_600, 51_200]


@pytest.mark.parametrize("sizes", [[], [128], [128, 256]])
def test_an_unfinished_recipe_can_be_drawn(sizes: list[float]) -> None:
    info = kernel_data(result(sizes))
    assert len(info.panels["size"]) == (3 if sizes else 0)
    assert len(draw_kernel(info).axes) == 3
