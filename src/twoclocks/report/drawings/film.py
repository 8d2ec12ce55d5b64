"""A figure that changes over training: one picture per checkpoint, which the page shows with a slider."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from twoclocks.core.theme import drawn


@dataclass(frozen=True)
class Film:
    """Pictures (PNG) with the step of each."""

    steps: tuple[int, ...]
    pictures: tuple[bytes, ...]

    def addresses(self) -> list[str]:
        """The pictures as data URLs."""
        return [f"data:image/png;base64,{base64.b64encode(picture).decode()}" for picture in self.pictures]


def shoot(figure: Any, steps: Iterable[int], show: Callable[[int], None], dpi: int = 110) -> Film:
    """One picture per step; ``show(index)`` updates the figure, whose layout stays that of the first picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.image import imsave

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    pictures, taken = [], []
    for index, step in enumerate(steps):
        show(index)
        with drawn(figure):
            canvas.draw()
        figure.set_layout_engine("none")
        stream = io.BytesIO()
        imsave(stream, canvas.buffer_rgba(), format="png")
        pictures.append(stream.getvalue())
        taken.append(int(step))
    return Film(tuple(taken), tuple(pictures))
