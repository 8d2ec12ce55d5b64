"""Figures of a page: compact, with their numbers for people who cannot see them, and legends beside the data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from twoclocks.core.svg import compact_svg, with_palette
from twoclocks.core.theme import plain_svg
from twoclocks.report.curves import curves_data, draw_curves
from twoclocks.report.legends import clear_legends, covers_data
from twoclocks.report.plot import plot
from twoclocks.runs import Run


def values_in(page: str) -> Any:
    found = re.search(r'<script type="application/json" class="values">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def test_a_plot_carries_the_stored_values_and_a_label(tiny_dit: Run) -> None:
    info, columns = curves_data(tiny_dit), tiny_dit.metrics()
    page = plot(draw_curves([info]), "x", 'all "numbers" <b>')
    assert 'role="img" aria-label="all &quot;numbers&quot; &lt;b&gt;"' in page
    above, below = values_in(page)
    assert above["id"] == "x-panel0" and f'id="{below["id"]}"' in page
    assert above["at"] == [columns["step"][1:].tolist()] and above["x"][2] == 1
    lines = {name: values for name, _, _, values in above["lines"]}
    assert lines["valid (rule accuracy)"] == pytest.approx(columns["sample_accuracy"][1:], rel=1e-3)
    assert lines["copies of training samples"] == pytest.approx(columns["sample_memorization"][1:], rel=1e-3)
    assert not any("chance" in name for name in lines)  # a level is no curve
    assert above["lines"][0][1] == "var(--rule)"


def test_names_in_the_values_end_no_script(tiny_dit: Run) -> None:
    info = curves_data(tiny_dit)
    named = replace(info, proportions=(replace(info.proportions[0], label="</script><b>"), *info.proportions[1:]))
    page = plot(draw_curves([named]), "x", "")
    assert "</script><b>" not in page and values_in(page)[0]["lines"][0][0] == "</script><b>"


def test_missing_values_are_null() -> None:
    figure = Figure()
    figure.subplots().plot([1, 2, 3], [0.123456, np.nan, 12345.6], label="one")
    assert values_in(plot(figure, "x", ""))[0]["lines"][0][3] == [0.1235, None, 12346]


def test_compact_drawings_keep_every_place_and_text(tiny_dit: Run) -> None:
    plain = plain_svg(draw_curves([curves_data(tiny_dit)]), "x")
    small = compact_svg(plain)
    assert len(small) < 0.6 * len(plain)
    texts = [re.findall(r"<text[^>]*>([^<]*)", one) for one in (plain, small)]
    assert texts[0] == texts[1]

    def places(svg: str) -> list[float]:
        return [float(one) for d in re.findall(r' d="([^"]*)"', svg) for one in re.findall(r"-?\d+\.?\d*", d)]

    assert places(small) == pytest.approx(places(plain), abs=0.006)
    assert set(re.findall(r"url\(#([^)]*)\)", small)) <= set(re.findall(r' id="([^"]*)"', small))


def test_transparent_paths_are_not_joined() -> None:
    two = '<path d="M0 0" style="opacity:0.2"/><path d="M1 1" style="opacity:0.2"/>'
    assert compact_svg(f"<svg>{two}</svg>") == f"<svg>{two}</svg>"
    assert compact_svg(f"<svg>{two}</svg>".replace("opacity:0.2", "fill:red")).count("<path") == 1


def test_pictures_with_few_colours_lose_nothing() -> None:
    import base64
    import io

    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 8, (20, 20, 3), dtype=np.uint8) // 4 * 200
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    small = with_palette(base64.b64encode(stream.getvalue()).decode(), 256)
    again = Image.open(io.BytesIO(base64.b64decode(small.split(",")[1]))).convert("RGB")
    assert np.array_equal(np.asarray(again), pixels)


def test_legends_leave_the_data() -> None:
    figure = Figure(figsize=(4, 3), layout="constrained")
    free, full = figure.subplots(1, 2)
    free.plot([0, 1], [0, 1], label="rising")
    free.legend(loc="upper right")
    full.plot(np.linspace(0, 1, 50), np.tile([0, 1], 25), label="everywhere")
    full.legend(loc="upper right")
    clear_legends(figure)
    for axis in (free, full):
        assert not covers_data(axis, axis.get_legend())
    assert free.get_legend().get_window_extent().overlaps(free.get_window_extent())  # it found a free corner
    assert full.get_legend().get_window_extent().y1 <= full.get_window_extent().y0  # it went below
    assert [text.get_text() for text in full.get_legend().get_texts()] == ["everywhere"]
