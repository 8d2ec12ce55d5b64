"""What a list of operations could not repeat, and how it is noticed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
DRAWS_NOTHING = aten._scaled_dot_product_flash_attention_for_cpu.default  # it has no dropout, whatever its tags say


class NotRecordableError(Exception):
    """Repeating the operations would not repeat the computation; the message says which one it is."""


def tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def check_repeatable(function: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse operations whose result Python may read, whose shape depends on numbers, or that hide what they do."""
    # Of a place for each row there is one result per row; only a mask chooses more or fewer.
    by_places = function is aten.index.Tensor and all(chosen.dtype == torch.int64 for chosen in tensors(given[1]))
    for tag in (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view):
        if tag in function.tags and not by_places:
            raise NotRecordableError(f"{function} is of the kind {tag.name}")
    if torch.Tag.nondeterministic_seeded in function.tags and function is not DRAWS_NOTHING:
        raise NotRecordableError(f"{function} draws random numbers")
    if function is aten.native_batch_norm.default:
        raise NotRecordableError(f"{function} changes running means without saying so")


def check_plain(function: Any, used: Sequence[Tensor]) -> None:
    """Refuse tensors that are not numbers in the memory of the CPU."""
    for tensor in used:
        plain = tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_nested
        if not plain or tensor.is_conj() or tensor.is_neg():
            raise NotRecordableError(f"{function} uses a tensor that is not a plain one of the CPU")


class RefuseReads(TorchFunctionMode):
    """Refuses to let Python read numbers, where operations do not show it."""

    READS = (Tensor.tolist, Tensor.numpy, Tensor.__array__)

    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        if function in self.READS:
            raise NotRecordableError(f"{function.__name__} gives numbers to Python")
        return function(*given, **(named or {}))


@contextmanager
def without_random_numbers() -> Iterator[None]:
    """Refuse what draws from a global stream of random numbers; the streams stay as they were."""
    before = torch.random.get_rng_state(), random.getstate(), numpy.random.get_state()
    try:
        yield
        now = torch.random.get_rng_state(), random.getstate(), numpy.random.get_state()
    finally:
        torch.random.set_rng_state(before[0])
        random.setstate(before[1])
        numpy.random.set_state(before[2])
    same = torch.equal(now[0], before[0]) and now[1] == before[1]
    if not same or any(map(numpy.any, map(numpy.not_equal, now[2], before[2]))):
        raise NotRecordableError("random numbers are drawn")
