"""The four states of a generated sample in P1 ("The two clocks and the innovation window")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from twoclocks.core.lazy import torch
from twoclocks.data.encodings import Encoding
from twoclocks.evaluation.samples import Outcome
from twoclocks.rules.base import Rule

if TYPE_CHECKING:
    from torch import Tensor

State = Literal["between", "broken", "valid-new", "memorized"]
STATES: tuple[State, ...] = get_args(State)


def between_threshold(quantization: Sequence[float], encoding: Encoding, rule: Rule) -> float:
    """The distance to the code book beyond which an entry lies between symbols: the largest setting, scaled from ±1."""
    return max(quantization) * encoding.unit(rule)


def states_of(outcome: Outcome, threshold: float) -> Tensor:
    """The index in ``STATES`` of each sample, uint8 (n,); a sample with an entry between symbols is ``between``.

    ``threshold`` is the distance to the code book beyond which an entry lies between symbols.
    """
    state = torch.where(outcome.valid, 2, 1)
    state = torch.where(outcome.copied, 3, state)
    return torch.where(outcome.distance > threshold, 0, state).to(torch.uint8)
