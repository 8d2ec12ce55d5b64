"""The ledger says which seeds a verdict rests on: those of the training set, of training, or of both."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from simulated import clocks_run, records

from twoclocks.papers.claim import Judgement
from twoclocks.papers.ledger import claim_rows, claims_table
from twoclocks.papers.records import Records
from twoclocks.papers.reproduction import entries
from twoclocks.papers.seeds import Seeds

Pairs = Sequence[tuple[int, int]]  # the seed of the data and the seed of training


def repeated(folder: Path, seeds: Pairs, preset: str = "p1-gpt-mini", n: int = 4096) -> Records:
    made = [
        clocks_run(
            *(folder / str(data), preset, {"data.n": n, "data.seed": data, "training.seed": training}),
            rule=500 + 10 * training,
            memory=5_000 + 100 * data,
            last=60_000,
        )
        for data, training in seeds
    ]
    return records(made)


@pytest.mark.parametrize(
    ("seeds", "cell", "counts"),
    [
        ([(0, 0), (0, 1), (0, 2)], "3 (training)", (3, 1, 3)),
        ([(0, 0), (1, 0), (2, 0)], "3 (data)", (3, 3, 1)),
        ([(0, 0), (1, 1), (2, 2)], "3 (data and training)", (3, 3, 3)),
        ([(0, 0), (0, 1), (1, 0)], "3 (2 data, 2 training)", (3, 2, 2)),
    ],
)
def test_the_table_says_which_seeds_varied(
    tmp_path: Path, seeds: Pairs, cell: str, counts: tuple[int, int, int]
) -> None:
    (row,) = claim_rows(repeated(tmp_path, seeds), entries(["A20-gpt"]))
    assert row.judgement.verdict == "reproduced", row.judgement
    (line,) = claims_table([row])
    assert line["seeds"] == cell
    found = row.as_json()
    assert (found["seeds"], found["data_seeds"], found["training_seeds"]) == counts


def test_seeds_are_those_that_every_setting_has(tmp_path: Path) -> None:
    """Other training sets at one N alone do not make the comparison of several N one over training sets."""
    both = repeated(tmp_path, [(0, 0), (1, 1), (2, 2), (3, 3)]), repeated(tmp_path, [(0, 0), (0, 1), (0, 2)], n=1024)
    (row,) = claim_rows(Records([*both[0], *both[1]]), entries(["A20-gpt"]))
    assert row.judgement.verdict == "reproduced" and row.judgement.seeds.words == "3 (training)"
    assert row.judgement.seeds.training == 3


def test_nothing_varies_in_one_run_and_nothing_is_said_of_none(tmp_path: Path) -> None:
    one, none = (repeated(tmp_path, seeds, "p1-dit-mini") for seeds in ([(4, 2)], []))
    for made, cell in ((one, "1"), (none, "")):
        (row,) = claim_rows(made, entries(["A1"]))
        assert claims_table([row])[0]["seeds"] == cell


def test_every_claim_says_its_seeds(tmp_path: Path) -> None:
    every = claim_rows(repeated(tmp_path, [(0, 0), (0, 1), (0, 2)]))
    assert all({"seeds", "data_seeds", "training_seeds"} <= row.as_json().keys() for row in every)


def test_a_number_of_seeds_survives_copies_and_pickles() -> None:
    seeds = Seeds(3, 1, 3)
    for again in (copy.deepcopy(seeds), pickle.loads(pickle.dumps(seeds))):
        assert again == 3 and again.words == "3 (training)"
    assert asdict(Judgement("reproduced", "", seeds))["seeds"].words == "3 (training)"
