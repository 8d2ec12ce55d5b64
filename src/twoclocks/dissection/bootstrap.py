"""Bootstrap bands of means."""

from __future__ import annotations

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.seeds import numpy_stream


def band(values: Floats, axis: int, low: float, high: float, resamples: int) -> tuple[Floats, Floats]:
    """Percentiles ``low`` and ``high`` of the mean over ``axis``, by bootstrap of its units."""
    moved = np.moveaxis(values, axis, 0)
    units = len(moved)
    drawn = numpy_stream(0, "bootstrap").multinomial(units, np.full(units, 1 / units), size=resamples) / units
    means = np.tensordot(drawn, moved, axes=1)
    lower, upper = np.percentile(means, [low, high], axis=0)
    return lower, upper
