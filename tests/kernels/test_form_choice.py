"""Which networks may have a fused form at all; needs neither Triton nor a GPU."""

from __future__ import annotations

import pytest

from twoclocks import models
from twoclocks.kernels import registry
from twoclocks.kernels.registry import Fusion, MixedForm, make_form

SHAPES: dict[str, tuple[int, ...]] = {"dit": (1, 2, 3), "gpt": (6,), "gpt_full": (6,)}


class AskedError(Exception):
    pass


def asked() -> dict[type[models.Network], Fusion]:
    raise AskedError


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("change", [{"registers": 1}, {"dropout": 0.1}, {"registers": 2, "dropout": 0.5}])
def test_registers_and_dropout_are_computed_by_the_textbook(
    name: str, change: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fused forward passes do not know them and would leave them out; a plain network is looked up."""
    monkeypatch.setattr(registry, "fusions", asked)
    plain, other = (
        models.create(name, width=16, depth=1, heads=2, **more).build(SHAPES[name], 2) for more in ({}, change)
    )
    with pytest.raises(AskedError):
        make_form(plain, "bfloat16", on_gpu=True, fused=True, optimizer="adam")
    assert isinstance(make_form(other, "bfloat16", on_gpu=True, fused=True, optimizer="adam"), MixedForm)
    assert make_form(other, "float32", on_gpu=True, fused=True, optimizer="adam") is None
