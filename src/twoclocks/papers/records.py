"""A collection of runs, from committed rows or from run directories, and the selection of some by their settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

from twoclocks.analysis.groups import grouped
from twoclocks.core.config import flat, to_mapping
from twoclocks.papers.families import fixed_settings, hashable, varied_settings
from twoclocks.papers.scales import GPU, Scale
from twoclocks.papers.seeds import NO_SEEDS, Seeds
from twoclocks.runs.load import Run
from twoclocks.runs.rows import identity
from twoclocks.runs.settings import RunSettings
from twoclocks.sweeps.grid import Cell

ALIKE = 0.01


@dataclass(frozen=True)
class Record:
    """A run with its settings by dotted name; ``preset`` is the name of the preset that it changes.

    ``others``: further runs of the same identity, the longest first. One of them may have what this one lacks: a view,
    or the comparison with a twin.
    """

    run: Run
    others: tuple[Record, ...] = field(default=(), compare=False, repr=False)

    @property
    def versions(self) -> tuple[Record, ...]:
        """This run, then the others of the same identity."""
        return (self, *self.others)

    def among(self, versions: Iterable[Record]) -> Record:
        """This run, which knows the others of these, the longest first."""
        others = {one: replace(one, others=()) for one in versions if one != self}
        return replace(self, others=tuple(sorted(others.values(), key=length, reverse=True)))

    @cached_property
    def settings(self) -> dict[str, Any]:
        return flat(to_mapping(self.run.settings, whole=True))

    @cached_property
    def identity(self) -> str:
        return identity(self.run.settings)

    @property
    def preset(self) -> str:
        return self.run.settings.name

    @property
    def n(self) -> int:
        return self.run.settings.data.n

    @property
    def seed(self) -> int:
        return self.run.settings.training.seed

    @property
    def seed_words(self) -> str:
        """Which repetition this is: ``seed 0``, or ``seed 0, data 1.0`` with seed and part of other training data."""
        data = self.run.settings.data
        return f"seed {self.seed}" + (f", data {data.seed}.{data.part}" if data.seed or data.part else "")

    @cached_property
    def last_step(self) -> int:
        return int(self.run.series().steps[-1])

    def value(self, name: str) -> Any:
        """A setting by dotted name, or ``preset``; None where its rule, model, … has none of this name."""
        return self.preset if name == "preset" else self.settings.get(name)

    def covers(self, cell: Cell) -> bool:
        """Whether this run is what a cell asks for: the same training, to the same end or beyond."""
        if self.identity != identity(cell.settings):
            return False
        average = cell.settings.training.average
        if average and average != self.run.settings.training.average:
            return False
        if self.run.status["status"] == "diverged":  # it would diverge again
            return True
        ended = self.run.status["status"] == "finished" and stops_alike(self.run.settings, cell.settings)
        return ended or self.last_step >= cell.settings.training.steps


def stops_alike(made: RunSettings, wanted: RunSettings) -> bool:
    """Whether a run ends by itself where another one would, up to ``ALIKE`` in the threshold."""
    if made.clocks.stop != wanted.clocks.stop:
        return False
    if made.clocks.stop == "rule":
        return abs(made.clocks.rule_threshold - wanted.clocks.rule_threshold) <= ALIKE
    chance = made.rule.copy_chance(made.data.n)
    levels = [one.clocks.memory_levels(chance).nominal for one in (made, wanted)]
    return made.clocks.stop != "never" and abs(levels[0] - levels[1]) <= ALIKE


class Records(Sequence[Record]):
    """Runs, each training once: of several runs of one identity, the one with the most steps, then evaluations.

    The others are kept with it: see ``having``.
    """

    def __init__(self, records: Iterable[Record], scale: Scale = GPU) -> None:
        self.scale = scale
        self._records = tuple(map(longest, grouped(records, lambda one: one.identity).values()))

    @classmethod
    def of(cls, runs: Iterable[Run], scale: Scale = GPU) -> Records:
        return cls((Record(run) for run in runs), scale)

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        return self._records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    @property
    def runs(self) -> list[Run]:
        return [one.run for one in self._records]

    def where(self, **conditions: Any) -> Records:
        """Those whose settings have these values; ``rule__group`` means rule.group, a tuple means one of its values.

        ``records.where(preset="p1-gpt-mini", rule__group=3, data__n=(512, 1024))``
        """
        wanted = {name.replace("__", "."): value for name, value in conditions.items()}
        return self.those(lambda one: all(is_among(one.value(name), value) for name, value in wanted.items()))

    def those(self, condition: Callable[[Record], bool]) -> Records:
        """Those that fulfil a condition."""
        return Records((one for one in self._records if condition(one)), self.scale)

    def having(self, condition: Callable[[Record], bool]) -> Records:
        """Of every training, the longest run that fulfils a condition, where ``those`` asks the longest alone.

        For what training does not depend on: which checkpoints were kept, what was measured on them.
        """
        found = (next(filter(condition, one.versions), None) for one in self._records)
        pairs = zip(found, self._records, strict=True)
        return Records((one.among(every.versions) for one, every in pairs if one is not None), self.scale)

    def alike(self, settings: Mapping[str, Any], varied: Collection[str]) -> Records:
        """Those that differ from these settings only in the ``varied`` ones, the seeds, the length and the machine."""
        shared = fixed_settings(settings, varied)
        return self.those(lambda one: fixed_settings(one.settings, varied) == shared)

    def baseline(self, preset: str, varied: Collection[str] = (), any_rule: bool = False, **conditions: Any) -> Records:
        """Those that are like a preset, as this scale has it, but for group size and N.

        ``varied``: settings that may be others too, by dotted name. ``any_rule``: so may the rule and the encoding.
        ``conditions`` select among them, as in ``where``.
        """
        any_of_them = ("rule.", "encoding.") if any_rule else ("rule.group",)
        own = self.where(preset=preset).alike(self.preset_settings(preset), (*any_of_them, "data.n", *varied))
        return own.where(**conditions)

    def family(self, varied: Collection[str]) -> Records:
        """The best set of runs that are alike but for the ``varied`` settings, with any changes to their preset.

        So runs with another batch or other data never mix with the plain ones. Of several such sets, one that varies
        at all is taken, then the one that is nearest to the preset (so P1's N before others), then the one with the
        most different values, the largest N, the most runs.
        """

        def rank(runs: list[Record]) -> tuple[bool, int, int, int, int]:
            first, values = runs[0], {varied_settings(one.settings, varied) for one in runs}
            preset = dict(fixed_settings(self.preset_settings(first.preset), varied))
            changed = sum(preset.get(name) != value for name, value in fixed_settings(first.settings, varied))
            return len(values) > 1, -changed, len(values), first.n, len(runs)

        sets = grouped(self._records, lambda one: fixed_settings(one.settings, varied))
        best: list[Record] = max(sets.values(), key=rank, default=[])
        return Records(best, self.scale)

    def preset_settings(self, preset: str) -> dict[str, Any]:
        """The settings of a preset as this scale has it, by dotted name; small scales have small N."""
        largest = {"data.n": self.scale.sizes_instead[-1]} if self.scale.sizes_instead else {}
        return flat(to_mapping(self.scale.cell(preset, largest).settings, whole=True))

    def of_largest_n(self) -> Records:
        """Those with the most training samples."""
        most = max((one.n for one in self._records), default=0)
        return self.those(lambda one: one.n == most)

    def by(self, name: str) -> dict[Any, Records]:
        """Groups of equal value of one setting, in order of the value."""
        found = grouped(self._records, lambda one: hashable(one.value(name)))
        ordered = sorted(found, key=lambda value: (str(type(value)), value))
        return {value: Records(found[value], self.scale) for value in ordered}

    @property
    def seeds(self) -> Seeds:
        """Number of different seeds, of training and of data; the parts of one seed are different training sets too."""
        pairs = {((one.value("data.seed"), one.value("data.part")), one.seed) for one in self._records}
        return Seeds(len(pairs), len({data for data, _ in pairs}), len({training for _, training in pairs}))

    @property
    def seeds_at_one_n(self) -> Seeds:
        """The seeds at the N with the most of them: runs of different N are no repetitions of each other."""
        return max((runs.seeds for runs in self.by("data.n").values()), default=NO_SEEDS)


def longest(runs: Sequence[Record]) -> Record:
    """The longest of some runs of one identity, which knows the others."""
    if len(runs) == 1:
        return runs[0]
    return max(runs, key=length).among(version for one in runs for version in one.versions)


def length(one: Record) -> tuple[int, int, float]:
    """Steps, then evaluations; of equally long runs, one that evaluates averaged weights has more columns."""
    return one.last_step, len(one.run.series().steps), one.run.settings.training.average


def is_among(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, or one of a tuple of wanted ones."""
    return value in wanted if isinstance(wanted, tuple) and not isinstance(value, list) else bool(value == wanted)
