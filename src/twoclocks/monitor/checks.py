"""Checks of what a monitor is given: mistakes that would make its answers wrong without an error."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from twoclocks.clocks.chance import Chance
from twoclocks.clocks.looks import least_samples
from twoclocks.clocks.settings import ClockSettings, MemoryLevels, Policy
from twoclocks.core.errors import UserError
from twoclocks.monitor.criteria.base import Criterion
from twoclocks.monitor.criteria.exact import equal_rows
from twoclocks.monitor.decision import Copies
from twoclocks.monitor.inputs import is_bfloat16
from twoclocks.monitor.record import is_count
from twoclocks.monitor.training_set import TrainingSet, flat, value_range

MANY_LOOKS = 100  # for which the number of samples per look is checked
SCALE = 4.0  # factor between the spreads of samples and training rows that is warned of
ONE_ROW = 0.8  # part of the copies that are matched with one row, from which on it is warned of
FEW_COPIES = 20  # with fewer it says nothing

log = logging.getLogger("twoclocks")


def unseen(train: TrainingSet, held_out: Any) -> Any:
    """Held-out floats that are not among the training rows; a warning says how many were."""
    if train.kind != "floats":
        return held_out  # two rows of symbols can be equal by chance
    same = equal_rows(flat(held_out), flat(train.values)) >= 0
    if same.all():
        raise UserError("held_out: every row is also in the training set; give samples that were not trained on")
    if same.any():
        log.warning(f"held_out: {int(same.sum())} of {len(same)} rows are also in the training set; they are left out")
    return held_out[~same]


def check_precision(criterion: Criterion, train: TrainingSet, samples: Any) -> None:
    """Raise UserError where equal floats would differ, because one side was rounded to bfloat16."""
    if getattr(criterion, "floats", False) and train.kind == "floats" and is_bfloat16(samples) != train.bfloat16:
        ours, theirs = (("float32", "bfloat16")[flag] for flag in (is_bfloat16(samples), train.bfloat16))
        raise UserError(f"samples: {ours}, but train is {theirs}, and no entry would be equal; give both as one dtype")


def warn_of_scale(train: TrainingSet, samples: Any, name: str) -> bool:
    """Warn if the values of samples have another scale than the training rows; returns whether it did."""
    if train.kind != "floats":
        return False
    (low, high), (least, most) = value_range(samples), train.value_range
    ratio = (high - low) / max(most - least, 1e-300)
    if 1 / SCALE < ratio < SCALE and low < most and least < high:
        return False
    ranges = f"mostly lie in {low:.3g}…{high:.3g}, those of the training set in {least:.3g}…{most:.3g}"
    log.warning(f"{name}: its values {ranges}; give both on one scale, or copies are not found")
    return True


def warn_of_few_held_out(levels: MemoryLevels, chance: Chance) -> None:
    """Warn where held-out samples are so few that chance may explain a copy rate above the threshold."""
    if levels.confirm > max(2 * levels.nominal, levels.nominal + 0.1):
        found = f"the chance level of copies may be up to {chance.high:.2g} ({chance.basis})"
        log.warning(f"held_out: {found}; copying is only confirmed above {levels.confirm:.2g}; give more samples")


def check_enough(samples: int, policy: Policy, settings: ClockSettings, chance: Chance | None) -> None:
    """Say if there are too few samples per look: an error for "caution", which would stop at once, else a warning."""
    confidence, levels = settings.look_confidence(chance), settings.memory_levels(chance)
    if policy == "caution":
        rate = 0.0 if chance is None else chance.rate
        need, many = (least_samples(rate, levels.exclude, looks, confidence) for looks in (1, MANY_LOOKS))
        if samples < need:
            fix = f"policy caution cannot exclude copies above {levels.exclude:.3g} with them; give at least {need}"
            raise UserError(f"samples: {samples} are too few; {fix}, or {many} for {MANY_LOOKS} looks")
        return
    target = {"memory": levels.confirm, "rule": settings.rule_threshold}.get(policy)
    if target is None or not settings.confidence or target >= 1:
        return
    need = least_samples(1.0, target, MANY_LOOKS, confidence)
    if samples < need:
        why = f"after {MANY_LOOKS} looks, policy {policy} could not be certain, whatever they are"
        log.warning(f"samples: {samples} per look are too few; {why}; give at least {need}")


def check_guesses(look: Any, settings: ClockSettings) -> None:
    """Raise UserError where so many held-out pieces count as copied that no rate is a threshold above them."""
    hits, trials = (getattr(look, name, None) for name in ("held_out_copied", "held_out_trials"))
    if hits is None or trials is None or not (is_count(hits) and is_count(trials) and hits <= trials):
        return  # there is no control, or the record says what is wrong with it
    if hits + settings.memory_threshold * trials >= trials:
        found = f"{hits} of {trials} held-out pieces are continued verbatim, so that copies cannot be told from guesses"
        raise UserError(f"samples: {found}; ask for more tokens, or give pieces that are harder to guess")


def warn_of_one_row(copies: Copies, samples: int) -> bool:
    """Warn if nearly all copies are matched with one training row; returns whether it did.

    A model that makes always the same sample is near to one row, without having learned it.
    """
    rows = copies.rows[copies.rows >= 0]
    if len(rows) < FEW_COPIES:
        return False
    row, number = max(zip(*np.unique(rows, return_counts=True), strict=True), key=lambda pair: pair[1])
    if number < ONE_ROW * len(rows):
        return False
    what = f"{number} of {len(rows)} copies among {samples} samples are matched with training row {row}"
    log.warning(f"copies: {what}; see the gallery: the model may have collapsed instead of copying")
    return True
