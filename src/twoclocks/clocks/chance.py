"""The chance level of copies: how often a new sample of the true distribution counts as a copy, with an interval."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from twoclocks.core.proportion import clopper_pearson

SHARE = 0.2  # of the error probability that is spent on the chance level where it is estimated; looks get the rest


@dataclass(frozen=True)
class Chance:
    """Probability that a sample of the true distribution counts as a copy, and the ends of its interval."""

    rate: float
    low: float
    high: float
    basis: str  # where the number comes from, in words

    @classmethod
    def exact(cls, rate: float) -> Chance:
        """A chance level that the rule gives without error."""
        return cls(rate, rate, rate, "the rule, exactly")

    @classmethod
    def estimated(cls, copied: int, trials: int, confidence: float, basis: str) -> Chance:
        """From counts of samples that were not trained on; each end errs with a ``SHARE`` of 1 − confidence at most.

        >>> Chance.estimated(0, 500, 0.95, "500 held-out samples")
        Chance(rate=0.0, low=0.0, high=0.009..., basis='500 held-out samples')
        """
        low, high = clopper_pearson(copied, trials, SHARE * (1 - confidence))
        return cls(copied / trials, float(low), float(high), basis)

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        interval = "" if self.is_exact else f" ({self.low:.2g}–{self.high:.2g})"
        return f"{self.rate:.2g}{interval}, from {self.basis}"

    def as_json(self) -> dict[str, float | str]:
        return asdict(self)
