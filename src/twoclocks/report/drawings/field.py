"""Drawing of ``field``: score and pull on the plane through four corners, learned and ideal."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.dissection.views.field import CORNERS, FieldInfo, Fields
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.film import Film, shoot
from twoclocks.report.drawings.parts import FIXED_INK, figure_of, shown_steps
from twoclocks.report.pictures import as_picture

MARKERS = {"a": ("white", "o"), "b": ("#56e0ff", "s"), "c": ("#ffe14d", "^"), "d": ("#ff9a3d", "v")}
NAMES = {"memory": "training set"}
ARROWS, FILM_ARROWS = 9, 7  # along each side of a panel
PIXELS: dict[str, Any] = {"origin": "lower", "aspect": "equal", "interpolation": "none"}  # one pixel per measured point


@DRAWINGS.register("field")
class FieldDrawing(Drawing):
    title = "Score field around a training sample"
    order = 60

    def draw(self, info: FieldInfo) -> Figure:
        """Chosen checkpoints at the critical σ, and the oracles beside them."""
        level, chosen = info.level, shown_steps(info.steps, info.clocks)
        panels: list[tuple[str, Fields, int]] = [(f"step {info.steps[at]:,}", info.learned, at) for at in chosen]
        panels += [(f"ideal: {NAMES.get(name, name)}", info.ideal, k) for k, name in enumerate(info.oracles)]
        figure = figure_of(1.45 * (len(panels) + (info.pictures is not None)) + 0.9, 3.6)
        place = figure if info.pictures is None else draw_originals(figure, info, len(panels))
        axes = place.subplots(2, len(panels), sharex=True, sharey=True, squeeze=False)
        top = largest_score(info, level)
        for column, (title, fields, index) in enumerate(panels):
            draw_score(axes[0, column], info, fields.score[index, level], fields.arrows[index, level], top)
            draw_pull(axes[1, column], info, fields.pull[index, level])
            axes[0, column].set_title(title, fontsize=8.5)
        axes[0, 0].set_ylabel("norm of the score", fontsize=8.5)
        axes[1, 0].set_ylabel("pull to a (blue), b (red)", fontsize=8.5)
        note = "; pixels from −1 to 1" if info.images else ""
        figure.suptitle(f"σ = {info.sigmas[level]:.2g}{note}", fontsize=9, x=0.02, ha="left")
        return figure

    def film(self, info: FieldInfo) -> Film | None:
        """Score and pull at all σ, one picture per checkpoint."""
        if len(info.steps) < 2:
            return None
        figure = figure_of(1.7 * len(info.sigmas), 3.7)
        axes = figure.subplots(2, len(info.sigmas), squeeze=False)
        learned, drawn = info.learned, []
        some = every(info, FILM_ARROWS)
        for level, sigma in enumerate(info.sigmas):
            top = largest_score(info, level)
            score = draw_score(
                axes[0, level], info, learned.score[0, level], learned.arrows[0, level], top, FILM_ARROWS
            )
            drawn.append((*score, draw_pull(axes[1, level], info, learned.pull[0, level])))
            axes[0, level].set_title(f"σ = {sigma:.2g}", fontsize=9)
        title = figure.suptitle(" ", fontsize=9)

        def show(index: int) -> None:
            for level, (picture, quiver, pull) in enumerate(drawn):
                picture.set_data(learned.score[index, level])
                quiver.set_UVC(*directions(learned.arrows[index, level][some, some]))
                pull.set_data(learned.pull[index, level])
            title.set_text(f"step {info.steps[index]:,}")

        return shoot(figure, info.steps, show)


def draw_originals(figure: Any, info: FieldInfo, panels: int) -> Any:
    """Draw the images at the corners, one below the other, with the marks of the plane; returns the rest's place."""
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.45 * panels])
    assert info.pictures is not None
    kinds = ("training image", "nearest training image", "nearest held-out image")
    for axis, pixels, name, kind in zip(left.subplots(3, 1), info.pictures, CORNERS, kinds, strict=False):
        axis.imshow(as_picture(pixels), interpolation="nearest")
        axis.set_title(f"{name}: {kind}", fontsize=6.5, pad=2)
        axis.set_axis_off()
    return right


def largest_score(info: FieldInfo, level: int) -> float:
    """The norm of the score at which the colours end: its 99th percentile over training."""
    return float(np.percentile(info.learned.score[:, level], 99))


def every(info: FieldInfo, arrows: int) -> slice:
    """The places on an axis that have an arrow."""
    step = max(1, len(info.axes[0]) // arrows)
    return slice(step // 2, None, step)


def draw_score(
    axis: Any, info: FieldInfo, score: Any, arrows: Any, top: float, number: int = ARROWS
) -> tuple[Any, Any]:
    """Draw the norm of the score and its direction; returns the picture and the arrows, which a film changes."""
    x, y = info.axes
    image_options = {"cmap": "magma", "vmin": 0, "vmax": top, **PIXELS}
    picture = axis.imshow(score, extent=extent(info), **image_options)
    some = every(info, number)
    u, v = directions(arrows[some, some])
    quiver = axis.quiver(x[some], y[some], u, v, color="white", scale=17, width=0.009, headwidth=3.5)
    mark_corners(axis, info)
    return picture, quiver


def directions(arrows: Any) -> tuple[Any, Any]:
    """Arrows scaled to length 1; a zero arrow stays zero."""
    size = np.linalg.norm(arrows, axis=-1, keepdims=True)
    unit = arrows / np.maximum(size, 1e-9)
    return unit[..., 0], unit[..., 1]


def draw_pull(axis: Any, info: FieldInfo, pull: Any) -> Any:
    """Draw whether points denoise towards a or b; returns the picture."""
    image_options = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, **PIXELS}
    picture = axis.imshow(pull, extent=extent(info), **image_options)
    mark_corners(axis, info)
    return picture


def extent(info: FieldInfo) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of the image, so that grid points lie in the middle of its cells."""
    ends = []
    for axis in info.axes:
        half = (axis[1] - axis[0]) / 2
        ends += [float(axis[0] - half), float(axis[-1] + half)]
    return ends[0], ends[1], ends[2], ends[3]


def mark_corners(axis: Any, info: FieldInfo) -> None:
    """Mark and name the corners; of images there are three."""
    for name, place in zip(CORNERS, info.corners, strict=False):
        colour, marker = MARKERS[name]
        axis.plot(*place, marker=marker, color=colour, markeredgecolor=FIXED_INK, markersize=5, linestyle="none")
        axis.annotate(name, place, xytext=(3, 3), textcoords="offset points", fontsize=7, color="#8d949e")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
