"""Legends that cover no data: each stays, moves to a free corner, or goes below its panel, by measurement."""

from __future__ import annotations

from typing import Any

import numpy as np

PLACES = (1, 2, 3, 4, 6, 7, 8, 9)  # matplotlib's codes of the corners and the middles of the sides
SMALLER = {"fontsize": 7.5, "handlelength": 1.6, "labelspacing": 0.25, "columnspacing": 1.0}


def clear_legends(figure: Any) -> None:
    """Move every legend of a panel that lies on data."""
    legends = [(axis, axis.get_legend()) for axis in figure.axes if axis.get_legend() is not None]
    if not legends:
        return
    figure.draw_without_rendering()  # the layout, without which nothing has a place
    moved = False
    for axis, legend in legends:
        if not covers_data(axis, legend):
            continue
        moved = True
        for place in PLACES:
            legend.set_loc(place)
            if not covers_data(axis, legend):
                break
        else:
            put_below(axis, legend)
    if moved:
        figure.draw_without_rendering()


def covers_data(axis: Any, legend: Any) -> bool:
    """Whether a line, a mark, a bar, an area or a text of the panel lies under its legend."""
    box = legend.get_window_extent()
    if not box.overlaps(axis.get_window_extent()):
        return False
    return (
        any(line_crosses(line, box) for line in axis.get_lines())
        or any(area_crosses(axis, area, box) for area in axis.collections)
        or any(
            bar.get_window_extent().overlaps(box)
            for bars in axis.containers
            for bar in bars
            if hasattr(bar, "get_width")
        )
        or any(text.get_window_extent().overlaps(box) for text in axis.texts if text.get_text().strip())
        or bool(axis.images)
    )


def line_crosses(line: Any, box: Any) -> bool:
    path = line.get_transform().transform_path(line.get_path())
    if line.get_linestyle() in ("None", "none", "", " "):  # marks alone
        return bool(np.any(inside(path.vertices, box)))
    return bool(len(path.vertices) and path.intersects_bbox(box, filled=False))


def area_crosses(axis: Any, area: Any, box: Any) -> bool:
    """Whether a band, a stack or the points of a scatter plot lie in the box; a heat map fills its panel."""
    from matplotlib.collections import PathCollection, QuadMesh

    if isinstance(area, QuadMesh):
        return True
    if isinstance(area, PathCollection):
        return bool(np.any(inside(axis.transData.transform(area.get_offsets()), box)))
    paths = (area.get_transform().transform_path(path) for path in area.get_paths())
    return any(path.intersects_bbox(box, filled=True) for path in paths if len(path.vertices))


def inside(points: Any, box: Any) -> Any:
    x, y = np.asarray(points, dtype=np.float64).reshape(-1, 2).T
    return (x >= box.x0) & (x <= box.x1) & (y >= box.y0) & (y <= box.y1)


def legend_below(axis: Any, points: float = 36, **options: Any) -> None:
    """A legend below a panel and its labels, where it covers no data; ``points``: how far below."""
    from matplotlib.transforms import ScaledTranslation

    below = axis.transAxes + ScaledTranslation(0, -points / 72, axis.figure.dpi_scale_trans)
    place = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": below, "borderaxespad": 0}
    axis.legend(**{**SMALLER, "ncols": 3, **place, **options})


def put_below(axis: Any, legend: Any) -> None:
    """The same legend below its panel."""
    title = legend.get_title().get_text()
    named = {"title": title, "title_fontsize": SMALLER["fontsize"]} if title else {}
    words = [text.get_text() for text in legend.get_texts()]
    legend_below(axis, handles=legend.legend_handles, labels=words, **named)
