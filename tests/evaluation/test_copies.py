"""Copy detection against comparing every pair, with digests that are made to collide."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from twoclocks.core.bits64 import WORD, scramble, signed
from twoclocks.core.rows import is_member
from twoclocks.evaluation import Copies, copies
from twoclocks.evaluation.copies import digest, pack


def every_pair(rows: Tensor, train: Tensor) -> list[bool]:
    """The slow version: each row against each training row."""
    return (rows.flatten(1)[:, None] == train.flatten(1)[None]).all(dim=2).any(dim=1).tolist()


def planted(symbols: int, width: int, seed: int, n: int = 12) -> tuple[Tensor, Tensor]:
    """Training rows, some of them twice; and rows among which are copies, and copies with one entry changed."""
    generator = torch.Generator().manual_seed(seed)
    train = torch.randint(symbols, (n, width), generator=generator)
    train = torch.cat([train, train[: n // 3]])
    copied = train[torch.randint(len(train), (n,), generator=generator)]
    changed, places = copied.clone(), torch.randint(width, (n,), generator=generator)
    by = torch.randint(1, symbols, (n,), generator=generator)
    changed[torch.arange(n), places] = (changed[torch.arange(n), places] + by) % symbols
    return train, torch.cat([copied, changed, torch.randint(symbols, (n, width), generator=generator)])


@given(st.integers(2, 300), st.integers(1, 200), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_copies_are_what_comparing_every_pair_finds(symbols: int, width: int, seed: int) -> None:
    train, rows = planted(symbols, width, seed)
    found = Copies(train, symbols)
    assert found.found(rows).tolist() == every_pair(rows, train) == is_member(rows, train, symbols).tolist()
    assert len(found) == len(torch.unique(train, dim=0))


@pytest.mark.parametrize("symbols", [2, 3, 4, 5, 16, 17, 256, 257])
@pytest.mark.parametrize("around", [1, 2, 3])
def test_every_entry_counts_on_both_sides_of_a_word_boundary(symbols: int, around: int) -> None:
    per_word = WORD // (symbols - 1).bit_length()
    for width in (around * per_word - 1, around * per_word, around * per_word + 1):
        row = torch.randint(symbols, (1, width), generator=torch.Generator().manual_seed(width))
        others = row.repeat(width * (symbols - 1), 1)
        place = torch.arange(width).repeat_interleave(symbols - 1)
        by = 1 + torch.arange(len(others)) % (symbols - 1)
        others[torch.arange(len(others)), place] = (others[torch.arange(len(others)), place] + by) % symbols
        found = Copies(others, symbols)
        assert len(found) == len(others)
        assert not found.found(row).any() and found.found(others).all()
        assert pack(row, symbols).shape[1] == -(-width // per_word)


def test_rows_of_thousands_of_entries_differ_in_any_of_them() -> None:
    train, rows = planted(2, 4097, seed=0, n=40)
    assert Copies(train, 2).found(rows).tolist() == every_pair(rows, train)


def test_pieces_of_the_work_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    train, rows = planted(6, 36, seed=1, n=50)
    whole = Copies(train, 6).found(rows)
    monkeypatch.setitem(copies.ENTRIES, "cpu", 100)
    assert torch.equal(Copies(train, 6).found(rows), whole)
    assert whole.any() and not whole.all()


def test_work_is_done_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows there are, no more than ``ENTRIES`` entries are unpacked at once."""
    sizes: list[int] = []

    def counted(rows: Tensor, symbols: int) -> Tensor:
        sizes.append(rows.numel())
        return pack(rows, symbols)

    monkeypatch.setattr(copies, "pack", counted)
    monkeypatch.setitem(copies.ENTRIES, "cpu", 400)
    train, rows = planted(2, 70, seed=2, n=90)
    assert Copies(train, 2).found(rows).tolist() == every_pair(rows, train)
    assert max(sizes) <= 400 and sum(sizes) == train.numel() + rows.numel()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bool])
def test_any_integer_type_and_shape_is_taken(dtype: torch.dtype) -> None:
    train, rows = planted(2, 12, seed=3)
    found = Copies(train.reshape(-1, 3, 4), 2).found(rows.to(dtype).reshape(-1, 4, 3))
    assert found.tolist() == every_pair(rows, train)


def test_nothing_and_symbols_that_do_not_exist_are_no_copies() -> None:
    train, rows = planted(3, 5, seed=4)
    assert Copies(train, 3).found(rows[:0]).shape == (0,)
    assert Copies(train[:0], 3).found(rows).tolist() == [False] * len(rows)
    assert Copies(train[:0], 3).found(rows[:0]).shape == (0,) and len(Copies(train[:0], 3)) == 0
    assert Copies(torch.zeros(2, 0), 2).found(torch.zeros(3, 0)).all()  # all rows without entries are equal
    # Without its range check, 4 = 0b100 in the first place would read like 1 in the second one.
    wide = Copies(torch.tensor([[0, 1]]), 4)
    assert wide.found(torch.tensor([[4, 0], [0, 1], [-4, 2]])).tolist() == [False, True, False]
    with pytest.raises(ValueError, match="outside"):
        Copies(train + 1, 3)
    with pytest.raises(ValueError, match="entries"):
        Copies(train, 3).found(rows[:, :4])


def test_training_rows_with_one_digest_get_another_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted collisions: under the first seeds the digest forgets nearly everything."""

    def forgetful(words: Tensor, seed: int) -> Tensor:
        return words.sum(dim=1) % (seed + 1) if seed < 3 else digest(words, seed)

    monkeypatch.setattr(copies, "digest", forgetful)
    train, rows = planted(2, 200, seed=5)
    found = Copies(train, 2)
    assert found.seed == 3 and found.found(rows).tolist() == every_pair(rows, train)
    same = train[:1].repeat(4, 1)  # equal rows may share a digest
    assert Copies(same, 2).seed == 0 and len(Copies(same, 2)) == 1


def test_samples_with_the_digest_of_a_training_row_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest is the first word alone, which tells the training rows apart but not the samples."""
    monkeypatch.setattr(copies, "digest", lambda words, seed: words[:, 0].contiguous())
    train, _ = planted(2, 200, seed=6)
    others = train.clone()
    others[:, 64 + torch.arange(len(train)) * 8] ^= 1
    assert Copies(train, 2).seed == 0
    assert not Copies(train, 2).found(others).any() and Copies(train, 2).found(train).all()


def test_a_digest_that_never_tells_rows_apart_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "digest", lambda words, seed: torch.zeros_like(words[:, 0]))
    with pytest.raises(RuntimeError, match="digest"):
        Copies(planted(2, 200, seed=7)[0], 2)


def test_scramble_is_a_known_permutation_of_all_words() -> None:
    """SplitMix64 with seed 0: its first numbers, as published with it."""
    states = torch.tensor([signed((k + 1) * 0x9E3779B97F4A7C15) for k in range(3)])
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert scramble(states).tolist() == [signed(number) for number in published]


def test_digests_of_close_rows_differ() -> None:
    """Rows that differ in the highest bits of two words: a sum of odd multiples would confuse them under every seed."""
    words = torch.zeros(4, 2, dtype=torch.int64)
    words[1] = words[2, 0] = words[3, 1] = torch.iinfo(torch.int64).min
    for seed in range(20):
        assert len(set(digest(words, seed).tolist())) == 4
    assert not (digest(words, 0) == digest(words, 1)).any()
