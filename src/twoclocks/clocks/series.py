"""What was counted at the evaluations of a run: the numbers that the clocks are read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from twoclocks.clocks.onset import Numbers
from twoclocks.clocks.quality import Quality
from twoclocks.core.arrays import Floats
from twoclocks.core.counts import TRIALS, Row, hits_key, hits_of, is_stored, scaled_hits, trials_key


@dataclass(frozen=True)
class SeriesColumns:
    """Which columns of stored rows the clocks are read from; ``parts`` by kind of piece."""

    copied: str
    valid: str
    train_loss: str
    held_out_loss: str
    gap_error: str
    step: str = "step"
    extracted: tuple[str, str] = ("", "")  # training texts and held-out texts that are continued verbatim
    parts: Mapping[str, str] = field(default_factory=dict)
    quality: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name: columns of value and error, best first


@dataclass(frozen=True)
class Look:
    """What was counted at one step."""

    step: int
    copied: int
    trials: int
    valid: int | None = None
    gap: float | None = None  # loss on held-out minus loss on training samples
    gap_error: float | None = None  # None: not known
    copied_valid: int | None = None  # copies that are valid too; None: all copies are (exact copies of valid samples)
    held_out_copied: int | None = None  # held-out pieces that count as copied, where chance is measured at each look
    held_out_trials: int | None = None  # all held-out pieces that were tried
    similarity: float | None = None  # mean cosine of each sample with its nearest training row, where copies have one

    @classmethod
    def from_row(cls, row: Row, columns: SeriesColumns) -> Look:
        """The counts of a stored row, of any format."""
        train, held_out = row.get(columns.train_loss), row.get(columns.held_out_loss)
        return cls(
            step=int(row[columns.step]),
            copied=hits_of(row, columns.copied),
            trials=int(row[TRIALS]),
            valid=hits_of(row, columns.valid) if is_stored(row, columns.valid) else None,
            gap=None if train is None or held_out is None else held_out - train,
            gap_error=row.get(columns.gap_error),
        )


@dataclass(frozen=True)
class Series:
    """What was counted at every evaluation of a run, or so far."""

    steps: Numbers
    trials: Numbers
    copied: Numbers
    valid: Numbers | None = None  # None where no rule is known
    gaps: Numbers | None = None  # loss on held-out minus loss on training samples
    gap_errors: Numbers | None = None  # None: not known, and then the gap's onset has no bounds
    parts: Mapping[str, Numbers] | None = None  # valid pieces of a kind, as a number of samples
    copies: str = "copies"  # what was counted as one, in words
    copied_valid: Numbers | None = None  # copies that are valid too; None: all copies are
    quality: Quality | None = None  # of samples without a rule
    similarity: Numbers | None = None  # mean cosine of a sample with its nearest training row
    chance: float | None = None  # at which a copy was counted without copying, where the evaluations measured it
    extraction: Series | None = None  # the same with training texts continued from a prefix in place of samples

    @classmethod
    def from_looks(cls, looks: Sequence[Look], copies: str = "copies") -> Series:
        """The looks as columns; a column that some look lacks is None. ``copies`` says what counted as one."""
        valid = [look.valid for look in looks if look.valid is not None]
        gaps = [look.gap for look in looks if look.gap is not None]
        both = [look.copied_valid for look in looks if look.copied_valid is not None]
        errors = [look.gap_error for look in looks if look.gap_error is not None]
        similarity = [look.similarity for look in looks if look.similarity is not None]
        some = len(looks) > 0
        return cls(
            steps=[look.step for look in looks],
            trials=[look.trials for look in looks],
            copied=[look.copied for look in looks],
            valid=valid if len(valid) == len(looks) else None,
            gaps=gaps if some and len(gaps) == len(looks) else None,
            gap_errors=errors if some and len(errors) == len(looks) else None,
            copies=copies,
            copied_valid=both if some and len(both) == len(looks) else None,
            similarity=similarity if some and len(similarity) == len(looks) else None,
        )

    def copies_among_valid(self) -> tuple[Floats, Floats, Floats]:
        """Steps, valid copies and valid samples of the looks that have valid samples; without a rule, of all samples.

        A model that only learns the rule makes more copies by chance, but not more per valid sample.
        """
        step, copied, trial = (np.asarray(v, dtype=np.float64) for v in (self.steps, self.copied, self.trials))
        if self.valid is None:
            return step, copied, trial
        valid = np.asarray(self.valid, dtype=np.float64)
        if self.copied_valid is not None:
            copied = np.asarray(self.copied_valid, dtype=np.float64)
        some = valid > 0
        # A near copy may be invalid; where that was not counted, at most all valid samples are copies.
        return step[some], np.minimum(copied, valid)[some], valid[some]

    @classmethod
    def from_rows(cls, rows: Sequence[Row], columns: SeriesColumns) -> Series:
        """The counts of stored rows, of any format; a kind of pieces that some row lacks is left out.

        Pieces of one sample are not independent: they are one trial.
        """
        parts = columns.parts if rows else {}
        kinds = {kind: name for kind, name in parts.items() if all(is_stored(row, name) for row in rows)}
        found = {kind: [scaled_hits(row, name) for row in rows] for kind, name in kinds.items()}
        looks = [Look.from_row(row, columns) for row in rows]
        series = cls.from_looks(looks)
        return replace(
            series,
            parts=found,
            quality=quality_of(rows, columns.quality, columns.held_out_loss),
            extraction=extraction_of(series, rows, *columns.extracted),
        )


def extraction_of(series: Series, rows: Sequence[Row], extracted: str, held_out: str) -> Series | None:
    """The training texts that were continued verbatim, as copies; None where some row has none of these counts.

    Held-out texts are the chance level: the largest share that was guessed at one evaluation, 0 if none was tried.
    """
    if not rows or not all({hits_key(extracted), trials_key(extracted)} <= row.keys() for row in rows):
        return None
    guessed = [row[hits_key(held_out)] / row[trials_key(held_out)] for row in rows if row.get(trials_key(held_out))]
    return Series(
        steps=series.steps,
        trials=[int(row[trials_key(extracted)]) for row in rows],
        copied=[int(row[hits_key(extracted)]) for row in rows],
        gaps=series.gaps,
        gap_errors=series.gap_errors,
        copies="training texts continued verbatim",
        chance=max(guessed, default=0.0),
    )


def quality_of(rows: Sequence[Row], columns: Mapping[str, tuple[str, str]], held_out_loss: str) -> Quality | None:
    """The first measure of quality that every row has, with its error."""
    for name, (value, error) in columns.items():
        if rows and all(value in row and error in row for row in rows):
            is_loss = value == held_out_loss
            return Quality(name, [row[value] for row in rows], [row[error] for row in rows], is_loss)
    return None
