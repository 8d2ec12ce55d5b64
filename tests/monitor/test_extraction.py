"""Extractability given a prefix: against brute force, models whose memory is known, and simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twoclocks.core.errors import UserError
from twoclocks.monitor.extraction import Continued, Extraction, continue_pieces, measure_extraction

PREFIX, LENGTH = 3, 9


def lookup(pieces: np.ndarray, token: int) -> Any:
    """A model that has memorized some pieces, and else repeats one token."""
    known = {tuple(piece[:PREFIX]): piece[PREFIX:] for piece in pieces}

    def generate(prefixes: np.ndarray, length: int) -> np.ndarray:
        return np.array([known.get(tuple(p), np.full(LENGTH, token))[:length] for p in prefixes.tolist()])

    return generate


def distinct(rng: np.random.Generator, n: int, vocabulary: int = 10**6) -> np.ndarray:
    return rng.integers(1, vocabulary, (n, LENGTH))


def brute(rows: np.ndarray, pieces: np.ndarray, tokens: int) -> list[int]:
    """For each row the most tokens by which it continues a piece with the same prefix; −1 if there is none."""
    found = []
    for row in rows.tolist():
        best = -1
        for piece in pieces.tolist():
            if piece[:PREFIX] == row[:PREFIX]:
                same = 0
                while same < tokens and row[PREFIX + same] == piece[PREFIX + same]:
                    same += 1
                best = max(best, same)
        found.append(best)
    return found


@pytest.mark.parametrize("tokens", [1, 4, None])
@pytest.mark.parametrize("low", [0, -3])
def test_brute_force_finds_the_same_where_many_pieces_share_a_prefix(tokens: int | None, low: int) -> None:
    rng = np.random.default_rng(0)
    train, held_out = (rng.integers(low, low + 3, (40, LENGTH)) for _ in range(2))
    answers = rng.integers(low, low + 3, (80, LENGTH))
    answers[::3] = np.concatenate([train, held_out])[::3]  # some are continued
    asked = iter((answers[:40], answers[40:]))

    def generate(prefixes: np.ndarray, length: int) -> np.ndarray:
        return next(asked)[:, PREFIX : PREFIX + length]

    found = measure_extraction(train, generate, held_out, prefix=PREFIX, tokens=tokens)
    needed = tokens or LENGTH - PREFIX
    for own, other, part, result in (
        (train, held_out, answers[:40], found.train),
        (held_out, train, answers[40:], found.held_out),
    ):
        rows = np.concatenate([own[:, :PREFIX], part[:, PREFIX:]], axis=1)
        # A row counts by its own piece, even where it continues another one with the same prefix.
        ours = [brute(rows[k : k + 1], own[k : k + 1], needed)[0] for k in range(len(rows))]
        theirs = brute(rows, other, needed)
        assert brute(rows, own, needed) != ours
        assert result is not None and result.tokens.tolist() == ours
        assert result.counted.tolist() == [one < 0 for one in theirs]
        assert result.hits == sum(a >= needed and b < 0 for a, b in zip(ours, theirs, strict=True))
        assert 0 < result.hits < result.trials < 40


def test_a_model_that_memorized_a_known_share_gives_exactly_that_share() -> None:
    rng = np.random.default_rng(1)
    train, held_out = distinct(rng, 200), distinct(rng, 50)
    found = measure_extraction(train, lookup(train[:74], 0), held_out, prefix=PREFIX, tokens=None)
    assert found.held_out is not None
    assert (found.train.hits, found.train.trials, found.train.rate) == (74, 200, 0.37)
    assert (found.train.tokens == LENGTH - PREFIX).sum() == 74 and (found.train.tokens[74:] == 0).all()
    assert found.held_out.rate == 0 and found.difference == 0.37
    low, high = found.difference_interval or (1, 1)
    assert 0.2 < low < found.train.interval[0] < 0.37 < found.train.interval[1] < high < 0.5
    look = found.look(7)
    assert (look.step, look.copied, look.trials, look.held_out_copied, look.held_out_trials) == (7, 74, 200, 0, 50)
    assert str(found).startswith("continued verbatim: training 74 of 200 (37.0%, 30.3%–44.1%), held-out 0 of 50 (0.0%")


def test_a_model_that_knows_nothing_continues_as_many_held_out_pieces() -> None:
    rng = np.random.default_rng(2)
    pieces = distinct(rng, 3000)
    pieces[rng.random(3000) < 0.3, PREFIX:] = 7  # pieces that can be guessed
    found = measure_extraction(pieces[:1500], lookup(pieces[:0], 7), pieces[1500:], prefix=PREFIX, tokens=6)
    assert found.held_out is not None and found.difference_interval is not None
    assert abs(found.train.rate - 0.3) < 0.04 and abs(found.held_out.rate - 0.3) < 0.04
    assert found.difference_interval[0] < 0 < found.difference_interval[1]


def test_a_share_of_the_continuation_is_enough_where_fewer_tokens_are_asked() -> None:
    train = np.arange(2 * LENGTH).reshape(2, LENGTH)
    asked = []

    def generate(prefixes: np.ndarray, length: int) -> np.ndarray:
        asked.append(length)
        return np.stack([[*train[0, PREFIX : PREFIX + length - 1], 99], train[1, PREFIX : PREFIX + length]])

    found = measure_extraction(train, generate, prefix=PREFIX, tokens=4)
    assert asked == [4] and found.train.tokens.tolist() == [3, 4] and found.train.hits == 1
    assert measure_extraction(train, generate, prefix=PREFIX, tokens=None).train.tokens.tolist() == [5, 6]
    assert found.held_out is None and found.difference is None and found.difference_interval is None


def test_intervals_cover_the_truth_and_are_not_wider_than_they_must_be() -> None:
    rng = np.random.default_rng(3)
    runs, covered, both, widths = 600, 0, 0, []
    for _ in range(runs):
        ours, theirs = (
            Continued((rng.random(n) < rate).astype(np.int64), np.ones(n, dtype=np.bool_), 1, 0.9)
            for n, rate in ((80, 0.3), (60, 0.1))
        )
        covered += ours.interval[0] <= 0.3 <= ours.interval[1]
        low, high = Extraction(ours, theirs).difference_interval or (1, 1)
        both += low <= 0.2 <= high
        widths.append(high - low)
    assert 0.88 <= covered / runs <= 0.97
    assert both / runs >= 0.9 and np.mean(widths) < 0.45


def refused(match: str, **changed: Any) -> None:
    rng = np.random.default_rng(4)
    given: dict[str, Any] = {"train": distinct(rng, 6), "held_out": distinct(rng, 6), "prefix": PREFIX, "tokens": 4}
    given["generate"] = lambda prefixes, length: np.zeros((len(prefixes), length), dtype=int)
    given |= changed
    with pytest.raises(UserError, match=match) as caught:
        measure_extraction(given.pop("train"), given.pop("generate"), **given)
    assert "\n" not in str(caught.value)


def test_what_is_refused_names_the_argument_and_the_fix() -> None:
    refused(r"^prefix: 9 is not allowed; pieces have 9 tokens; use at most 8", prefix=9)
    refused(r"^prefix: 0 is not allowed; use an integer", prefix=0)
    refused(r"^prefix: 2.5 is not allowed", prefix=2.5)
    refused(r"^tokens: 7 is not allowed; pieces have 6 tokens after the prefix", tokens=7)
    refused(r"^tokens: 0 is not allowed", tokens=0)
    refused(r"^confidence: 1 is not allowed", confidence=1)
    refused(r"^train: float64 of shape \(6, 9\) is not allowed; give token ids", train=np.ones((6, 9)))
    refused(r"^held_out: .*shape \(6, 3, 3\)", held_out=np.ones((6, 3, 3), dtype=int))
    refused(r"^train: shape \(0, 9\) is not allowed; give at least one row", train=np.ones((0, 9), dtype=int))
    refused(r"^train: shape \(9,\)", train=np.arange(9))
    refused(r"^held_out: pieces of 8 tokens, the training set has 9", held_out=np.ones((6, 8), dtype=int))
    same = distinct(np.random.default_rng(5), 4)
    refused(r"^train: every piece begins like a piece of the other set", train=same, held_out=same)
    whole = lambda prefixes, length: np.zeros((len(prefixes), PREFIX + length), dtype=int)  # noqa: E731
    refused(
        r"^generate: it returned the shape \(6, 7\) for 6 prefixes of 3 tokens; return the 4 tokens", generate=whole
    )
    floats = lambda prefixes, length: np.zeros((len(prefixes), length))  # noqa: E731
    refused(r"^generate: it returned the dtype float64; return token ids", generate=floats)
    refused(r"^generate: the function raised ZeroDivisionError", generate=lambda prefixes, length: 1 / 0)


def test_the_pieces_are_not_changed_and_the_prefix_stands_before_the_continuation() -> None:
    pieces = np.arange(LENGTH)[None]

    def generate(prefixes: np.ndarray, length: int) -> np.ndarray:
        prefixes[:] = -1  # a function may change what it was given
        return np.full((1, length), 5)

    rows = continue_pieces(pieces, generate, PREFIX)
    assert rows.tolist() == [[0, 1, 2, 5, 5, 5, 5, 5, 5]] and pieces.tolist() == [list(range(LENGTH))]
