"""How many seeds a verdict rests on, and of what: of the training set, of training, or of both."""

from __future__ import annotations

from collections.abc import Iterable


class Seeds(int):
    """A number of repetitions that also says how many training sets and how many seeds of training they have.

    The seed of the data draws the training set; the seed of training draws initial weights, batches and noise. Runs
    that differ in the latter alone say nothing about another training set.

    >>> [Seeds(*counts).words for counts in [(3, 1, 3), (3, 3, 1), (3, 3, 3), (3, 2, 3), (1, 1, 1), (0, 0, 0)]]
    ['3 (training)', '3 (data)', '3 (data and training)', '3 (2 data, 3 training)', '1', '']
    """

    data: int
    training: int

    def __new__(cls, count: int, data: int, training: int) -> Seeds:
        found = super().__new__(cls, count)
        found.data, found.training = data, training
        return found

    def __getnewargs__(self) -> tuple[int, int, int]:  # type: ignore[override]
        """For copies and pickles."""
        return int(self), self.data, self.training

    @property
    def varied(self) -> tuple[str, ...]:
        """What differs between the repetitions."""
        return tuple(name for name in ("data", "training") if getattr(self, name) > 1)

    @property
    def words(self) -> str:
        """The number and what it counts, for a table."""
        if self > 1 and not self.varied:
            return f"{int(self)} (data or training)"
        if len(self.varied) == 2 and not self == self.data == self.training:
            return f"{int(self)} ({self.data} data, {self.training} training)"
        return f"{int(self)} ({' and '.join(self.varied)})" if self.varied else f"{int(self) or ''}"

    def as_json(self) -> dict[str, int]:
        return {"seeds": int(self), "data_seeds": self.data, "training_seeds": self.training}


NO_SEEDS = Seeds(0, 0, 0)


def fewest(found: Iterable[Seeds]) -> Seeds:
    """What every one of several settings has at least: a verdict on all of them rests on no more.

    >>> fewest([Seeds(3, 1, 3), Seeds(5, 3, 5)]).words, fewest([]) == NO_SEEDS
    ('3 (training)', True)
    >>> fewest([Seeds(3, 1, 3), Seeds(3, 3, 1)]).words  # some settings vary the one, some the other
    '3 (data or training)'
    """
    every = list(found)
    if not every:
        return NO_SEEDS
    return Seeds(min(every), min(one.data for one in every), min(one.training for one in every))
