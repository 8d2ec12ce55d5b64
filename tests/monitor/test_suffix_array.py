"""The longest shared run of tokens, against a slow programme over all pairs of positions."""

from __future__ import annotations

import numpy as np
import pytest

from twoclocks.core.suffix_array import SuffixArray, sorted_suffixes


def longest_common_run(sample: list[int], text: list[int]) -> int:
    """Length of the longest run of both, by dynamic programming over all pairs of positions."""
    best, before = 0, [0] * (len(text) + 1)
    for token in sample:
        now = [0] * (len(text) + 1)
        for place, other in enumerate(text):
            if token == other:
                now[place + 1] = before[place] + 1
        best, before = max(best, *now), now
    return best


@pytest.mark.parametrize("seed", range(40))
def test_longest_runs_equal_the_slow_programme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = int(rng.integers(1, 5))
    texts = [rng.integers(0, words, rng.integers(1, 30)) for _ in range(rng.integers(1, 6))]
    samples = [rng.integers(-1, words + 1, rng.integers(0, 40)) for _ in range(8)]  # −1 and the last are in no text
    runs = SuffixArray(texts).longest_runs(samples)
    for number, sample in enumerate(samples):
        expected = max(longest_common_run(sample.tolist(), text.tolist()) for text in texts)
        assert runs.lengths[number] == expected
        if expected == 0:
            assert runs.starts[number] == runs.texts[number] == runs.text_starts[number] == -1
            continue
        start, text, text_start = runs.starts[number], texts[runs.texts[number]], runs.text_starts[number]
        assert sample[start : start + expected].tolist() == text[text_start : text_start + expected].tolist()
        assert longest_common_run(sample[: start + expected - 1].tolist(), text.tolist()) < expected  # the first one


def test_suffixes_are_in_order_also_where_long_parts_repeat() -> None:
    rng = np.random.default_rng(0)
    part = rng.integers(1, 4, 300)
    tokens = np.concatenate([part, part, part[:100], np.ones(200, dtype=np.int64), [0]])
    order, rank = sorted_suffixes(tokens)
    assert order.tolist() == sorted(range(len(tokens)), key=lambda i: tokens[i:].tolist())
    assert rank[order].tolist() == list(range(len(tokens)))


def test_no_samples_and_empty_texts() -> None:
    suffixes = SuffixArray([np.array([], dtype=np.int64), np.array([5, 6])])
    assert len(suffixes.longest_runs([]).lengths) == 0
    runs = suffixes.longest_runs([np.array([6]), np.array([], dtype=np.int64)])
    assert runs.lengths.tolist() == [1, 0] and runs.texts.tolist() == [1, -1] and runs.text_starts.tolist() == [1, -1]
