"""Columns of a run besides those of the metrics (step and losses), and which of all columns others read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from twoclocks.clocks.series import SeriesColumns
from twoclocks.core.counts import TRIALS, Row
from twoclocks.evaluation.metric import AVERAGED, Column
from twoclocks.evaluation.pieces import PartAccuracy, PartMemorization
from twoclocks.evaluation.quality.metrics import FRECHET, FRECHET_ERROR
from twoclocks.evaluation.quantization import Invalid
from twoclocks.evaluation.whole_samples import HoldoutMemorization, SampleAccuracy, SampleMemorization, ValidNew

STEP = "step"
LOSS = "loss"  # mean of the training loss since the last evaluation


def loss_column(split: str) -> str:
    """The mean loss on one of the splits ``train``, ``held_out`` and ``cube``."""
    return f"{LOSS}_{split}"


LOSS_TRAIN, LOSS_HELD_OUT, LOSS_CUBE = (loss_column(split) for split in ("train", "held_out", "cube"))
LOSS_HELD_OUT_ERROR = loss_column("held_out_error")  # standard error of the held-out loss
LOSS_HELD_OUT_BITS = loss_column("held_out_bits")  # of texts: bits per character, exact (GPT) or an upper bound (MD4)
LOSS_GAP_ERROR = loss_column("gap_error")  # standard error of held-out minus training loss

EXTRACTED = {"train": "extracted", "held_out": "extracted_held_out"}  # by split: texts continued verbatim from a prefix

# What a table of many runs shows of the last evaluation of each.
SUMMARY = (SampleAccuracy.name, SampleMemorization.name, ValidNew.name, LOSS, LOSS_TRAIN, LOSS_HELD_OUT, LOSS_CUBE)


WHOLE_SAMPLES = {SampleAccuracy.name, SampleMemorization.name, ValidNew.name, HoldoutMemorization.name}


def counts_samples(name: str) -> bool:
    """Whether a column of format 2 is a proportion of samples; its rows do not say of what they hold proportions."""
    return name in WHOLE_SAMPLES or name.startswith(f"{Invalid.name}_")


Weights = Literal["raw", "averaged"]  # as training left them, or their moving average (training.average)
# What is also computed from samples of the averaged weights: what the clocks are read from, and its controls.
AVERAGED_METRICS = frozenset({*WHOLE_SAMPLES, PartAccuracy.name, PartMemorization.name})


def averaged(name: str) -> str:
    """The column of the averaged weights that stands beside one of the raw weights."""
    return f"{AVERAGED}{name}"


def averaged_row(row: Row) -> dict[str, float]:
    """What an evaluation of averaged weights adds to the row of its step; the number of samples is the same."""
    return {averaged(key): value for key, value in row.items() if key != TRIALS}


def averaged_columns(columns: Iterable[Column]) -> list[Column]:
    """Meaning and chance levels of the columns of the averaged weights."""
    return [replace(one, name=averaged(one.name), about=f"averaged weights: {one.about}") for one in columns]


def clock_columns(part_kinds: Iterable[str], weights: Weights = "raw") -> SeriesColumns:
    """The columns from which the clocks of a run are read; ``part_kinds`` are the kinds of pieces of its rule.

    Losses of averaged weights are not computed: their clocks have no gap.
    """
    name = averaged if weights == "averaged" else str
    return SeriesColumns(
        copied=name(SampleMemorization.name),
        valid=name(SampleAccuracy.name),
        train_loss=name(LOSS_TRAIN),
        held_out_loss=name(LOSS_HELD_OUT),
        gap_error=name(LOSS_GAP_ERROR),
        step=STEP,
        extracted=(name(EXTRACTED["train"]), name(EXTRACTED["held_out"])),
        parts={kind: name(PartAccuracy.column(kind)) for kind in part_kinds},
        quality={
            "Fréchet distance": (name(FRECHET), name(FRECHET_ERROR)),
            "held-out loss": (name(LOSS_HELD_OUT), name(LOSS_HELD_OUT_ERROR)),
        },
    )
