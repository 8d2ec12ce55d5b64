"""Real images as pictures: arrays that matplotlib draws, and PNG files inside a page."""

from __future__ import annotations

import base64
import io
from typing import Any, cast

import numpy as np
import numpy.typing as npt


def as_picture(pixels: Any) -> npt.NDArray[np.uint8]:
    """Pixels (1 or 3, height, width), 0 to 255, as (height, width, 3): grey or RGB."""
    image = np.moveaxis(np.asarray(pixels), 0, 2).astype(np.uint8)
    return image.repeat(3, axis=2) if image.shape[2] == 1 else image


def data_url(pixels: Any) -> str:
    """Pixels (1 or 3, height, width) as a PNG that stands in the page itself."""
    from matplotlib.image import imsave

    stream, options = io.BytesIO(), cast(dict[str, Any], {"metadata": {"Software": None}})  # half of a small file
    imsave(stream, as_picture(pixels), format="png", **options)
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
