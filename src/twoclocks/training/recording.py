"""A computation on the CPU as a list of its operations: what a CUDA graph is on a GPU.

In small networks, Python, autograd and the search for memory take as long as the numbers themselves. A recording has
none of these: every operation has its inputs and its place for the result, and is repeated as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

Result = TypeVar("Result")
Call = Callable[[], object]
ALIGNMENT = 64  # bytes: of torch's own memory too
aten = torch.ops.aten

UNFILLED = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided}
COPIES = {aten.clone.default, aten._to_copy.default}
OF_NUMBERS: dict[
    Any, Any
] = {  # to the operations of tensors, which read a number as well and can write to a given place
    aten.mul.Scalar: aten.mul.out,
    aten.div.Scalar: aten.div.out,
    aten.add.Scalar: aten.add.out,
    aten.sub.Scalar: aten.sub.out,
}
PYTHON: dict[Any, Callable[..., Any]] = {  # the same operations, started in half of the time
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


class NotRecordableError(Exception):
    """Repeating the operations would not repeat the computation; the message says which one it is."""


@dataclass(frozen=True)
class Operation:
    """One call of an operation of torch, below autograd."""

    function: Any  # an overload, such as aten.mm.default
    given: tuple[Any, ...]
    named: dict[str, Any]
    result: Any

    @property
    def inputs(self) -> list[Tensor]:
        return tensors((self.given, self.named))

    @property
    def outputs(self) -> list[Tensor]:
        return tensors(self.result)

    @property
    def changed(self) -> list[Tensor]:
        """What it writes to, apart from new memory: where it works in place, or is told where its result belongs."""
        arguments = self.function._schema.arguments
        written = {one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write}
        by_place = zip(arguments, self.given, strict=False)
        by_name = [value for name, value in self.named.items() if name in written]
        return tensors([*by_name, *(value for one, value in by_place if one.name in written)])

    @property
    def is_view(self) -> bool:
        """Whether it computes nothing: its results lie in the memory of its inputs."""
        outputs, inputs = self.outputs, {place(one) for one in self.inputs}
        inside = [place(one) in inputs for one in outputs]
        if self.function._schema.is_mutable or not any(inside):
            return False
        if not all(inside):
            raise NotRecordableError(f"{self.function} returns new values and its input")
        return True


class Recorder(TorchDispatchMode):
    """Writes down the operations that are computed while it is entered, those of backward passes too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        operation = Operation(function, given, named or {}, function(*given, **(named or {})))
        check_repeatable(operation)
        for tensor in [*operation.inputs, *operation.outputs]:
            if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
                raise NotRecordableError(f"{function} uses a tensor that is not a plain one of the CPU")
        self.operations.append(operation)
        return operation.result


def check_repeatable(one: Operation) -> None:
    """Refuse operations whose result Python may read, or whose shape depends on numbers, and random ones."""
    # Of a place for each row there is one result per row; only a mask chooses more or fewer.
    by_places = one.function is aten.index.Tensor and all(
        chosen.dtype == torch.int64 for chosen in tensors(one.given[1])
    )
    for tag in (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape):
        if tag in one.function.tags and not by_places:
            raise NotRecordableError(f"{one.function} is of the kind {tag.name}")
    if one.named.get("generator") is not None:
        raise NotRecordableError(f"{one.function} draws random numbers")


class Recording(Generic[Result]):
    """The operations of ``work()``, and the tensors of its result, which every call fills anew.

    ``work`` must compute the same operations whenever it is called: what it reads from tensors may change, but nothing
    that it reads from Python. It must not write to tensors that it did not make.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        stream = torch.random.get_rng_state()
        with Recorder() as recorder:
            result = work()
        if not torch.equal(stream, torch.random.get_rng_state()):
            raise NotRecordableError("random numbers are drawn")
        operations = recorder.operations
        computed = [one for one in operations if not one.is_view]
        self.memory, relocate = plan_memory(operations, tensors(result))
        self.calls = [call for one in computed if (call := repeated(one, relocate)) is not None]
        self.result: Result = tree_map(relocate, result)

    @torch.no_grad()
    def __call__(self) -> Result:
        for call in self.calls:
            call()
        return self.result


def tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def place(tensor: Tensor) -> int:
    """What identifies the memory of a tensor, which views share."""
    number: int = tensor.untyped_storage()._cdata
    return number


def plan_memory(operations: Sequence[Operation], kept: Sequence[Tensor]) -> tuple[Tensor, Callable[[Any], Any]]:
    """One block of memory (bytes,) for all that is computed, and a function that maps each tensor to its place there.

    Memory whose last reader has run is used again, so that as much as possible stays in the caches. ``kept`` are read
    after the last operation. Tensors that were there before, such as weights, are mapped to themselves.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    sizes: dict[int, int] = {}
    known: set[int] = set()
    for number, one in enumerate(operations):
        known |= {place(tensor) for tensor in one.inputs} - first.keys()
        if one.function._schema.is_mutable and any(place(tensor) in known for tensor in one.changed):
            raise NotRecordableError(f"{one.function} changes a tensor that was there before")
        for tensor in one.outputs:
            if place(tensor) not in known | first.keys():
                size = tensor.untyped_storage().nbytes()
                first[place(tensor)], sizes[place(tensor)] = number, -(-size // ALIGNMENT) * ALIGNMENT
        last |= {place(tensor): number for tensor in [*one.inputs, *one.outputs] if place(tensor) in first}
    last |= {place(tensor): len(operations) for tensor in kept if place(tensor) in first}
    offsets = pack(first, last, sizes)
    block = torch.empty(max((offsets[key] + sizes[key] for key in offsets), default=0), dtype=torch.uint8)
    memory = block.untyped_storage()

    def relocate(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or place(leaf) not in offsets:
            return leaf
        start = offsets[place(leaf)] // leaf.element_size() + leaf.storage_offset()
        return torch.empty(0, dtype=leaf.dtype).set_(memory, start, leaf.size(), leaf.stride())

    return block, relocate


def pack(first: dict[int, int], last: dict[int, int], sizes: dict[int, int]) -> dict[int, int]:
    """Offsets in bytes such that nothing that lives at the same time overlaps: each takes the smallest gap that fits.

    >>> pack({1: 0, 2: 1, 3: 2}, {1: 1, 2: 2, 3: 3}, {1: 64, 2: 64, 3: 64})
    {1: 0, 2: 64, 3: 0}
    """
    offsets: dict[int, int] = {}
    living: list[int] = []
    for key in sorted(first, key=lambda key: first[key]):
        living = [other for other in living if last[other] >= first[key]]
        gaps, end = [], 0
        for other in sorted(living, key=lambda other: offsets[other]):
            gaps.append((offsets[other] - end, end))
            end = max(end, offsets[other] + sizes[other])
        offsets[key] = min([gap for gap in gaps if gap[0] >= sizes[key]], default=(0, end))[1]
        living.append(key)
    return offsets


def repeated(one: Operation, relocate: Callable[[Any], Any]) -> Call | None:
    """The operation as a call that reads and writes its places; None: there is nothing to compute."""
    function, writing = one.function, OF_NUMBERS.get(one.function)
    given, named = tree_map(relocate, one.given), tree_map(relocate, one.named)
    outputs = [relocate(tensor) for tensor in one.outputs]
    if function.overloadpacket in UNFILLED:
        return None
    if function._schema.is_mutable:
        return partial(function._op, *given, **named)
    if function in COPIES:
        return partial(outputs[0].copy_, given[0])
    if writing is not None and len(given) == 2 and not named:
        return partial(quick(writing), *given, out=outputs[0])
    if (found := writing_form(function)) is not None:
        writing, names = found
        return partial(quick(writing), *given, **named, **dict(zip(names, outputs, strict=True)))
    return partial(compute_and_copy, function._op, given, named, outputs)


def quick(function: Any) -> Callable[..., Any]:
    """The operation in the form that starts fastest."""
    found: Callable[..., Any] = PYTHON.get(function, function._op)
    return found


def compute_and_copy(
    function: Callable[..., Any], given: Sequence[Any], named: dict[str, Any], outputs: Sequence[Tensor]
) -> None:
    found = function(*given, **named)
    results = (found,) if isinstance(found, Tensor) else tensors(found)
    for output, result in zip(outputs, results, strict=True):
        output.copy_(result)


@cache
def writing_form(function: Any) -> tuple[Any, list[str]] | None:
    """The operation of the CPU that writes its results to given places, and what those are called; None: there is none.

    Where torch only wraps an operation so that its results are copied, there is none: copies are made here.
    """
    packet, wanted = function.overloadpacket, argument_types(function)
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
