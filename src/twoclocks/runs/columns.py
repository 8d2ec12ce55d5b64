"""Columns of a run besides those of the metrics (step and losses), and which of all columns others read."""

from __future__ import annotations

from collections.abc import Iterable

from twoclocks.clocks.series import SeriesColumns
from twoclocks.evaluation.pieces import PartAccuracy
from twoclocks.evaluation.quantization import Invalid
from twoclocks.evaluation.whole_samples import HoldoutMemorization, SampleAccuracy, SampleMemorization, ValidNew

STEP = "step"
LOSS = "loss"  # mean of the training loss since the last evaluation


def loss_column(split: str) -> str:
    """The mean loss on one of the splits ``train``, ``held_out`` and ``cube``."""
    return f"{LOSS}_{split}"


LOSS_TRAIN, LOSS_HELD_OUT, LOSS_CUBE = (loss_column(split) for split in ("train", "held_out", "cube"))
LOSS_GAP_ERROR = loss_column("gap_error")  # standard error of held-out minus training loss

# What a table of many runs shows of the last evaluation of each.
SUMMARY = (SampleAccuracy.name, SampleMemorization.name, ValidNew.name, LOSS, LOSS_TRAIN, LOSS_HELD_OUT, LOSS_CUBE)


WHOLE_SAMPLES = {SampleAccuracy.name, SampleMemorization.name, ValidNew.name, HoldoutMemorization.name}


def counts_samples(name: str) -> bool:
    """Whether a column of format 2 is a proportion of samples; its rows do not say of what they hold proportions."""
    return name in WHOLE_SAMPLES or name.startswith(f"{Invalid.name}_")


def clock_columns(part_kinds: Iterable[str]) -> SeriesColumns:
    """The columns from which the clocks of a run are read; ``part_kinds`` are the kinds of pieces of its rule."""
    return SeriesColumns(
        copied=SampleMemorization.name,
        valid=SampleAccuracy.name,
        train_loss=LOSS_TRAIN,
        held_out_loss=LOSS_HELD_OUT,
        gap_error=LOSS_GAP_ERROR,
        step=STEP,
        parts={kind: PartAccuracy.column(kind) for kind in part_kinds},
    )
