"""A figure that changes over training: one picture a moment, shown by the page with a slider."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Film:
    """Pictures (PNG) with the step of each."""

    steps: tuple[int, ...]
    pictures: tuple[bytes, ...]

    def addresses(self) -> list[str]:
        """The pictures as addresses that hold them whole."""
        return [f"data:image/png;base64,{base64.b64encode(picture).decode()}" for picture in self.pictures]


def shoot(figure: Any, steps: Iterable[int], show: Callable[[int], None], dpi: int = 110) -> Film:
    """One picture for each step; ``show(index)`` changes what the figure holds, its layout stays that of the first."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.image import imsave

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    pictures, taken = [], []
    for index, step in enumerate(steps):
        show(index)
        canvas.draw()
        figure.set_layout_engine("none")
        stream = io.BytesIO()
        imsave(stream, canvas.buffer_rgba(), format="png")
        pictures.append(stream.getvalue())
        taken.append(int(step))
    return Film(tuple(taken), tuple(pictures))
