"""Claim A18: rows are learned before columns in Latin squares and Sudoku (P1 §5.3, C.6, Figs. 22 and 23).

Rule and positions are symmetric under transposition. So rows that come first may be due to the network, to the sampler
or to the seed; only rows that come first again when all training samples are transposed are due to the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from twoclocks.clocks.onset import Onset
from twoclocks.papers.as_printed import STRUCTURED, printed_clocks, stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, all_of, not_run, verdict_of
from twoclocks.papers.intervals import interval_of, is_earlier, is_within
from twoclocks.papers.records import Record, Records
from twoclocks.papers.seeds import fewest

PRESETS = ("p1-dit-row-latin", "p1-dit-latin", "p1-dit-sudoku")
BOTH_AXES = ("latin", "sudoku", "latin_cyclic", "sudoku_cyclic")
ENCODINGS = ("scalar", "one_hot")
SOON = 1_000  # steps within which rows alone are learned


class Structured(Claim):
    """DiT-mini on 6×6 grids of symbols; a base class."""

    figures: ClassVar[tuple[str, ...]] = ("fig22", "fig23")

    @staticmethod
    def chosen(records: Records) -> Records:
        """The baselines of this scale, with any rule and encoding, transposed or not; none that diverged."""
        own = [records.baseline(preset, ("data.transposed",), any_rule=True) for preset in PRESETS]
        return stable(Records((one for some in own for one in some), records.scale))


@CLAIMS.register("A18-rows-first")
class RowsFirst(Structured):
    """The order of rows and columns."""

    id: ClassVar[str] = "A18"
    title: ClassVar[str] = "Rows are learned before columns in Latin squares and Sudoku"
    paper: ClassVar[str] = "the column-valid ratio rises much later than the row-valid ratio"
    criterion: ClassVar[str] = (
        "85% valid rows before 85% valid columns in every run: Latin squares and Sudoku, both encodings, drawn "
        "uniformly and from the cyclic square, and again when all training samples are transposed"
    )
    grids: ClassVar[tuple[str, ...]] = ("structured", "structured-cyclic", "structured-transposed")

    def judge(self, records: Records) -> Judgement:
        there = self.chosen(records).where(rule__name=BOTH_AXES)
        there = there.those(lambda one: {"row", "column"} <= part_onsets(one).keys())
        cases = {name: some.of_largest_n() for name in wanted_cases() if (some := case_runs(there, *name))}
        if not cases:
            return not_run("p1-dit-latin and p1-dit-sudoku with valid rows and columns counted")
        answers = {case_words(*name): all_of([rows_first(one) for one in some]) for name, some in cases.items()}
        missing = [case_words(*name) for name in wanted_cases() if name not in cases]
        together = all_of([*answers.values()])
        if missing and together == "yes":
            together = "undecided"
        seeds = fewest(some.seeds for some in cases.values())
        words = [f"{case_words(*name)}: {order_words(some)}" for name, some in cases.items()]
        words += [f"missing: {', '.join(missing)}"] * bool(missing)
        values = {case_words(*name): [onsets_json(one) for one in some] for name, some in cases.items()}
        return Judgement(verdict_of(together, seeds), "; ".join(words), seeds, values)


@CLAIMS.register("A18-rows-alone")
class RowsAlone(Structured):
    """The rule of rows alone."""

    id: ClassVar[str] = "A18"
    title: ClassVar[str] = "Rows alone are learned within about 1,000 steps"
    paper: ClassVar[str] = "the row-only Latin square is learned rapidly, within 1k steps"
    criterion: ClassVar[str] = "85% valid samples of the row-only rule by step 1,000 (scalar encoding)"
    grids: ClassVar[tuple[str, ...]] = ("structured",)

    def judge(self, records: Records) -> Judgement:
        alone = self.chosen(records).where(rule__name="row_latin", encoding__name="scalar").of_largest_n()
        if not alone:
            return not_run("p1-dit-row-latin in the scalar encoding")
        onsets = {one.seed_words: printed_clocks(one, STRUCTURED).rule for one in alone}
        answer = agreed(is_within(interval_of(one), 0, SOON) for one in onsets.values())
        words = ", ".join(f"{seed}: {one}" for seed, one in onsets.items())
        values = {seed: one.as_json() for seed, one in onsets.items()}
        return Judgement(verdict_of(answer, alone.seeds), f"τ_rule {words} (N {alone[0].n:,})", alone.seeds, values)


@CLAIMS.register("A18-one-hot")
class OneHotLater(Structured):
    """Copying in two encodings."""

    id: ClassVar[str] = "A18"
    title: ClassVar[str] = "One-hot encoding delays memory"
    paper: ClassVar[str] = "with one-hot encoding memorization is much smaller or beyond the time horizon"
    criterion: ClassVar[str] = (
        "τ_mem in one-hot encoding later than in scalar encoding, for Latin squares and Sudoku, same data and seed"
    )
    grids: ClassVar[tuple[str, ...]] = ("structured-memory", "structured")

    def judge(self, records: Records) -> Judgement:
        chosen = self.chosen(records).where(rule__name=("latin", "sudoku")).those(lambda one: not is_transposed(one))
        pairs = {
            (one.value("rule.name"), one.n, one.seed_words): (one, other)
            for one in chosen.where(encoding__name="scalar")
            for other in chosen.where(encoding__name="one_hot")
            if same_data(one, other)
        }
        onsets = {name: tuple(printed_clocks(one).memory for one in both) for name, both in pairs.items()}
        onsets = {name: both for name, both in onsets.items() if any(one.seen for one in both)}
        missing = [rule for rule in ("latin", "sudoku") if all(name[0] != rule for name in onsets)]
        if not onsets:
            return not_run("p1-dit-latin or p1-dit-sudoku in both encodings, of which one comes to copy")
        answers = [
            agreed(is_earlier(*both) for name, both in onsets.items() if name[0] == rule)
            for rule in ("latin", "sudoku")
            if rule not in missing
        ]
        together = all_of(answers)
        if missing and together == "yes":
            together = "undecided"
        seeds = fewest(
            Records(pairs[name][0] for name in onsets if name[0] == rule).seeds for rule in {name[0] for name in onsets}
        )
        words = [
            f"{rule}, N {n:,}, {seed}: scalar {both[0]}, one-hot {both[1]}" for (rule, n, seed), both in onsets.items()
        ]
        words += [f"missing: {', '.join(missing)}"] * bool(missing)
        values = {f"{rule}, N {n}, {seed}": [o.as_json() for o in b] for (rule, n, seed), b in onsets.items()}
        return Judgement(verdict_of(together, seeds), "; ".join(words), seeds, values)


Case = tuple[str, str, bool]  # rule, encoding, whether transposed


def wanted_cases() -> list[Case]:
    """Every combination that must show rows first."""
    return [(rule, encoding, turned) for rule in BOTH_AXES for encoding in ENCODINGS for turned in (False, True)]


def case_runs(records: Records, rule: str, encoding: str, turned: bool) -> Records:
    some = records.where(rule__name=rule, encoding__name=encoding)
    return some.those(lambda one: is_transposed(one) == turned)


def case_words(rule: str, encoding: str, turned: bool) -> str:
    return f"{rule} {encoding.replace('_', '-')}{', transposed' if turned else ''}"


def is_transposed(record: Record) -> bool:
    return bool(record.value("data.transposed"))


def same_data(one: Record, other: Record) -> bool:
    names = ("rule.name", "data.n", "data.seed", "training.seed")
    return all(one.value(name) == other.value(name) for name in names)


def part_onsets(record: Record) -> Mapping[str, Onset]:
    """When each kind of pieces is learned."""
    return printed_clocks(record, STRUCTURED).parts


def rows_first(record: Record) -> Answer:
    onsets = part_onsets(record)
    return is_earlier(onsets["row"], onsets["column"])


def order_words(records: Records) -> str:
    return ", ".join(
        f"{one.seed_words} rows {part_onsets(one)['row']}, columns {part_onsets(one)['column']}" for one in records
    )


def onsets_json(record: Record) -> dict[str, Any]:
    return {"seed": record.seed_words, **{kind: one.as_json() for kind, one in part_onsets(record).items()}}
