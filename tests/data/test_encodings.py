from __future__ import annotations

from typing import Any

import pytest
import torch

import twoclocks as tc
from twoclocks.core.errors import SettingError, UserError
from twoclocks.data.encodings import (
    ENCODINGS,
    Encoding,
    OneHotImage,
    Pixels,
    ScalarImage,
    SignImage,
    Space,
    default_encoding,
    squarest,
)
from twoclocks.rules import RULES, Parity, Rule
from twoclocks.testing import check_encoding

EVERY = [*(ENCODINGS.create(name) for name in ENCODINGS.names()), OneHotImage(zero_mean=True)]
EXAMPLES = [RULES.create(name, **example) for name, cls in RULES.items() for example in cls.examples]


@pytest.mark.parametrize("encoding", EVERY, ids=repr)
@pytest.mark.parametrize("rule", EXAMPLES, ids=repr)
def test_decode_inverts_encode_for_every_rule(encoding: Encoding, rule: Rule) -> None:
    if isinstance(encoding, SignImage) and rule.symbols > 2:
        with pytest.raises(SettingError, match="use scalar or one_hot"):
            encoding.check_rule(rule)
    elif isinstance(encoding, Pixels) and not rule.is_image:
        with pytest.raises(SettingError, match=r"use rule\.name: images"):
            encoding.check_rule(rule)
    else:
        check_encoding(encoding, rule)


@pytest.mark.parametrize("length", [6, 24, 36])
def test_sign_is_the_scalar_encoding_of_bits(length: int) -> None:
    rule = Parity(length=length, group=2)
    x = rule.sample(9, 0)
    assert torch.equal(SignImage().encode(rule, x), 2.0 * x.reshape(9, 1, *squarest(length)).float() - 1)
    assert torch.equal(SignImage().encode(rule, x), ScalarImage().encode(rule, x))


def test_codes_of_the_paper() -> None:
    """P1 B.4.2: six symbols at −1, −0.6, …, 1; one channel per symbol; channels that sum to zero."""
    assert ScalarImage().codes(6).flatten().tolist() == pytest.approx([-1, -0.6, -0.2, 0.2, 0.6, 1])
    rule = tc.rules.create("latin", side=6)
    x = rule.sample(5, 0)
    plain, centred = (OneHotImage(zero_mean=zero).encode(rule, x) for zero in (False, True))
    assert plain.shape == (5, 6, 6, 6) and ScalarImage().shape(rule) == (1, 6, 6)
    for sample, row, column in ((0, 0, 0), (3, 2, 5)):
        assert plain[sample, :, row, column].argmax() == x[sample, row, column]
        assert plain[sample, :, row, column].sum() == 1
    assert torch.allclose(centred, plain - 1 / 6) and float(centred.sum(dim=1).abs().max()) < 1e-6


def test_quantization_distance_is_the_worst_entry() -> None:
    rule = Parity(length=4, group=2)
    decoded = SignImage().decode(rule, torch.tensor([[[[0.9, -1.3], [1.0, -1.0]]], [[[0.0, 1.0], [1.0, 1.0]]]]))
    assert decoded.symbols.tolist() == [[1, 0, 1, 0], [0, 1, 1, 1]]
    assert decoded.distance.tolist() == pytest.approx([0.3, 1.0])


def test_scalar_decodes_to_the_nearest_symbol_at_its_distance() -> None:
    space = Space((1, 5), symbols=5)  # −1, −0.5, 0, 0.5, 1
    x = torch.tensor([[[[-1.7, -0.6, 0.2, 0.26, 0.9]]]])
    decoded = ScalarImage().decode(space, x)
    assert decoded.symbols.tolist() == [[[0, 1, 2, 3, 4]]]
    assert decoded.distance.tolist() == pytest.approx([0.7])


@pytest.mark.parametrize("zero_mean", [False, True])
def test_one_hot_decodes_by_the_largest_channel(zero_mean: bool) -> None:
    space, encoding = Space((2, 3), symbols=4), OneHotImage(zero_mean=zero_mean)
    x = torch.randn(50, 4, 2, 3, generator=torch.Generator().manual_seed(0))
    decoded = encoding.decode(space, x)
    assert torch.equal(decoded.symbols, x.argmax(dim=1))
    code = encoding.encode(space, decoded.symbols)
    assert torch.allclose(decoded.distance, (x - code).abs().flatten(1).amax(dim=1))


def test_thousands_of_symbols_are_distinguished() -> None:
    space = Space((10_000,), symbols=10_000)
    x = torch.arange(10_000)[None]
    assert torch.equal(ScalarImage().decode(space, ScalarImage().encode(space, x)).symbols, x)


@pytest.mark.parametrize("encoding", [SignImage(), OneHotImage()], ids=repr)
def test_no_rows_and_foreign_symbols(encoding: Encoding) -> None:
    rule = Parity(length=6, group=2)
    assert encoding.decode(rule, encoding.encode(rule, rule.empty(0))).symbols.shape == (0, 6)
    for symbol in (-1, 2):
        with pytest.raises(UserError, match="outside 0 to 1"):
            encoding.encode(rule, torch.full((1, 6), symbol))


def test_images_are_as_square_as_possible() -> None:
    assert [squarest(n) for n in (36, 24, 18, 7)] == [(6, 6), (4, 6), (3, 6), (1, 7)]


@pytest.mark.parametrize(
    ("kind", "settings", "name"),
    [
        ("image", {"name": "row_k", "side": 6, "k": 3}, "sign"),
        ("image", {"name": "sudoku"}, "scalar"),
        ("tokens", {"name": "sudoku"}, "tokens"),
        ("tokens", {"name": "row_k", "side": 6, "k": 3}, "tokens"),
    ],
)
def test_default_encodings(kind: str, settings: dict[str, Any], name: str) -> None:
    rule = tc.rules.create(settings.pop("name"), **settings)
    assert ENCODINGS.name_of(default_encoding(kind, rule)) == name
