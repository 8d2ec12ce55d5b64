"""The choice of a criterion: by name, by the kind of the data, or the one that was given."""

from __future__ import annotations

import logging

import numpy as np

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.core.text import show
from twoclocks.monitor.criteria.base import CRITERIA, Criterion
from twoclocks.monitor.criteria.exact import Exact
from twoclocks.monitor.criteria.ratio import Ratio
from twoclocks.monitor.criteria.verbatim import Verbatim
from twoclocks.monitor.training_set import TrainingSet

MANY_SYMBOLS = 64  # integers with more different values are probably pixels or tokens: whole rows are rarely equal

log = logging.getLogger("twoclocks")


def criterion_of(copies: str | Criterion, train: TrainingSet) -> Criterion:
    """A criterion by name, or the given one; "auto" chooses by the kind of the data."""
    if isinstance(copies, Criterion):
        return copies
    if not isinstance(copies, str):
        raise UserError(f"copies: {show(copies)} is neither a name nor a criterion; use 'auto', or one of tc.monitor")
    if copies == "auto":
        if train.kind == "texts":
            return Verbatim()
        if train.kind == "floats":
            return Ratio(below=None)
        if (symbols := len(np.unique(train.values))) > MANY_SYMBOLS:
            fix = "for pixels give copies='ratio', for tokens copies='verbatim'"
            log.warning(f"copies: equality of whole rows, of integers with {symbols} different values; {fix}")
        return Exact()
    if copies not in CRITERIA.names():
        raise UnknownNameError("copies", copies, ["auto", *CRITERIA.names()])
    return CRITERIA.get(copies)()
