"""A computation on the CPU as a list of its operations: what a CUDA graph is on a GPU.

In small networks, Python, autograd and the allocator take up to a third of a step. A recording has none of these: every
operation has its inputs and its place for the result, and is repeated as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from twoclocks.training.memory_plan import needed, plan_memory
from twoclocks.training.repeatable import (
    NotRecordableError,
    RefuseReads,
    check_plain,
    check_repeatable,
    tensors,
    without_random_numbers,
)

Result = TypeVar("Result")
Call = Callable[[], object]
MOST_BYTES = 256 * 1024**2  # of results at a time; steps that need more spend their time in large operations
aten = torch.ops.aten

ALLOCATIONS = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided}
COPIES = {aten.clone.default, aten._to_copy.default}
SCALAR_OVERLOADS: dict[Any, Any] = {  # to operations of tensors, which read a number too and can write to a given place
    aten.mul.Scalar: aten.mul.out,
    aten.div.Scalar: aten.div.out,
    aten.add.Scalar: aten.add.out,
    aten.sub.Scalar: aten.sub.out,
}
FAST_CALLS: dict[Any, Callable[..., Any]] = {  # the same operations, started in half of the time
    aten.mm.out: torch.mm,
    aten.addmm.out: torch.addmm,
    aten.bmm.out: torch.bmm,
    aten.baddbmm.out: torch.baddbmm,
    aten.add.out: torch.add,
    aten.mul.out: torch.mul,
    aten.div.out: torch.div,
    aten.addcmul.out: torch.addcmul,
    aten.sum.IntList_out: torch.sum,
}


@dataclass(frozen=True)
class PlannedTensor:
    """Where a tensor lies in memory that the computation itself asked for."""

    block: int
    offset: int  # in entries
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Operation:
    """One call of an operation of torch, below autograd.

    Computed tensors are given by their place; others, such as weights, stand for themselves.
    """

    function: Any  # an overload, such as aten.mm.default
    given: tuple[Any, ...]
    named: dict[str, Any]
    result: Any
    is_view: bool  # it computes nothing: its result lies in the memory of its inputs

    @property
    def blocks(self) -> set[int]:
        """The memory that it reads or writes."""
        leaves = tree_leaves((self.given, self.named, self.result))
        return {leaf.block for leaf in leaves if isinstance(leaf, PlannedTensor)}


class Recorder(TorchDispatchMode):
    """Writes down the operations that are computed while it is entered, those of backward passes too.

    It keeps no computed tensor alive, so the computation takes no more memory than without it.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self.sizes: list[int] = []  # bytes of each block
        self.numbers: dict[int, int] = {}  # of blocks, by the address of torch's object
        self.addresses: list[StorageWeakRef] = []  # no address is given away again while it is known here

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        named = named or {}
        inputs, changes = tensors((given, named)), function._schema.is_mutable
        check_repeatable(function, given, named)
        check_plain(function, inputs)
        if changes:
            self.check_changed(function, given, named)
        noted_given, noted_named = tree_map(self.planned, (given, named))
        before = {address(tensor) for tensor in inputs}
        result = function(*given, **named)
        outputs = tensors(result)
        check_plain(function, outputs)
        inside = [address(tensor) in before for tensor in outputs]
        if not all(inside) and (changes or any(inside)):
            raise NotRecordableError(f"{function} returns new values and its input")
        for tensor in outputs:
            self.note(tensor, is_new=address(tensor) not in before, function=function)
        is_view = any(inside) and not changes
        self.operations.append(Operation(function, noted_given, noted_named, tree_map(self.planned, result), is_view))
        return result

    def note(self, tensor: Tensor, is_new: bool, function: Any) -> None:
        """Note the memory of a result, if it was computed."""
        storage, number = tensor.untyped_storage(), self.numbers.get(address(tensor))
        if number is not None and storage.nbytes() != self.sizes[number]:
            raise NotRecordableError(f"{function} changes the size of a tensor")
        if number is None and is_new:
            self.numbers[address(tensor)] = len(self.sizes)
            self.sizes.append(storage.nbytes())
            self.addresses.append(StorageWeakRef(storage))

    def planned(self, leaf: Any) -> Any:
        """A computed tensor as a part of its block; what was there before, and what is no tensor, as it is."""
        if not isinstance(leaf, Tensor) or (number := self.numbers.get(address(leaf))) is None:
            return leaf
        size, stride = tuple(map(int, leaf.size())), tuple(map(int, leaf.stride()))
        return PlannedTensor(number, int(leaf.storage_offset()), size, stride, leaf.dtype)

    def check_changed(self, function: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Refuse what writes to a tensor that was there before: the first recording would have changed it once more."""
        arguments = function._schema.arguments
        written = {one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write}
        by_place = [value for one, value in zip(arguments, given, strict=False) if one.name in written]
        by_name = [value for name, value in named.items() if name in written]
        if any(address(tensor) not in self.numbers for tensor in tensors([by_place, by_name])):
            raise NotRecordableError(f"{function} changes a tensor that was there before")


def address(tensor: Tensor) -> int:
    """What identifies the memory of a tensor, which views share, as long as it exists."""
    number: int = tensor.untyped_storage()._cdata
    return number


class Recording(Generic[Result]):
    """The operations of ``work()``, and the tensors of its result, which every call fills anew.

    ``work`` must compute the same operations whenever it is called: what it reads from tensors may change, but nothing
    that it reads from Python. It must not write to tensors that it did not make.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        with without_random_numbers(), RefuseReads(), Recorder() as recorder:
            result = tree_map(recorder.planned, work())
        kept = {leaf.block for leaf in tree_leaves(result) if isinstance(leaf, PlannedTensor)}
        offsets = plan_memory([one.blocks for one in recorder.operations], recorder.sizes, kept)
        if (most := needed(offsets, recorder.sizes)) > MOST_BYTES:
            raise NotRecordableError(f"its results take {most / 1e6:,.0f} MB, of {MOST_BYTES / 1e6:,.0f} that pay")
        self.memory = torch.empty(most, dtype=torch.uint8, device="cpu")
        locate = partial(located, self.memory, offsets)
        computed = [one for one in recorder.operations if not one.is_view]
        self.calls = [call for one in computed if (call := repeated(one, locate)) is not None]
        self.result: Result = tree_map(locate, result)

    @torch.no_grad()
    def __call__(self) -> Result:
        for call in self.calls:
            call()
        return self.result


def located(memory: Tensor, offsets: Mapping[int, int], leaf: Any) -> Any:
    """A tensor at its place in the planned memory; anything else as it is."""
    if not isinstance(leaf, PlannedTensor):
        return leaf
    start = offsets[leaf.block] // leaf.dtype.itemsize + leaf.offset
    return torch.empty(0, dtype=leaf.dtype, device="cpu").set_(memory.untyped_storage(), start, leaf.size, leaf.stride)


def repeated(one: Operation, locate: Callable[[Any], Any]) -> Call | None:
    """The operation as a call that reads and writes its places; None: there is nothing to compute."""
    function, writing = one.function, SCALAR_OVERLOADS.get(one.function)
    given, named = tree_map(locate, one.given), tree_map(locate, one.named)
    outputs = tensors(tree_map(locate, one.result))
    if function.overloadpacket in ALLOCATIONS:
        return None
    if function._schema.is_mutable:
        return partial(function._op, *given, **named)
    if function in COPIES:
        return partial(outputs[0].copy_, given[0])
    if writing is not None and len(given) == 2 and not named:
        return partial(quick(writing), *given, out=outputs[0])
    if (found := out_variant(function)) is not None:
        writing, names = found
        return partial(quick(writing), *given, **named, **dict(zip(names, outputs, strict=True)))
    return partial(compute_and_copy, function._op, given, named, outputs)


def quick(function: Any) -> Callable[..., Any]:
    """The operation in the form that starts fastest."""
    found: Callable[..., Any] = FAST_CALLS.get(function, function._op)
    return found


def compute_and_copy(
    function: Callable[..., Any], given: Sequence[Any], named: dict[str, Any], outputs: Sequence[Tensor]
) -> None:
    found = function(*given, **named)
    results = (found,) if isinstance(found, Tensor) else tensors(found)
    for output, result in zip(outputs, results, strict=True):
        output.copy_(result)


@cache
def out_variant(function: Any) -> tuple[Any, list[str]] | None:
    """The operation of the CPU that writes its results to given places, and what those are called; None: there is none.

    Where torch only wraps an operation so that its results are copied, there is none: copies are made here.
    """
    packet, wanted = function.overloadpacket, argument_types(function)
    if not function._schema.returns:
        return None
    for name in packet.overloads():
        other = getattr(packet, name)
        outputs = [argument.name for argument in other._schema.arguments if argument.is_out]
        kernel = f"{other._schema.name}.{other._schema.overload_name}"
        if len(outputs) != len(function._schema.returns) or argument_types(other) != wanted:
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(kernel, "CPU"):
            return other, outputs
    return None


def argument_types(function: Any) -> list[tuple[str, str]]:
    """Names and types of all arguments but places for results."""
    return [(one.name, str(one.type)) for one in function._schema.arguments if not one.is_out]
