from __future__ import annotations

import pytest
import torch

from twoclocks.data.encodings import ENCODINGS, SignImage, squarest
from twoclocks.rules import Parity
from twoclocks.testing import check_encoding


@pytest.mark.parametrize("name", ENCODINGS.names())
@pytest.mark.parametrize("length", [6, 24, 36])
def test_contract(name: str, length: int) -> None:
    check_encoding(ENCODINGS.create(name), Parity(length=length, group=2))


def test_quantization_distance_is_the_worst_entry() -> None:
    rule = Parity(length=4, group=2)
    decoded = SignImage().decode(rule, torch.tensor([[[[0.9, -1.3], [1.0, -1.0]]], [[[0.0, 1.0], [1.0, 1.0]]]]))
    assert decoded.symbols.tolist() == [[1, 0, 1, 0], [0, 1, 1, 1]]
    assert decoded.distance.tolist() == pytest.approx([0.3, 1.0])


def test_images_are_as_square_as_possible() -> None:
    assert [squarest(n) for n in (36, 24, 18, 7)] == [(6, 6), (4, 6), (3, 6), (1, 7)]
