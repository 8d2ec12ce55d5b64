"""Products with few inputs on NVIDIA's Hopper, in Gluon: a program keeps its weights, and rows stream past them.

    linear        x · Wᵀ, with a bias or without
    activate      GELU(x · Wᵀ + bias)
    behind_gelu   (d_out · W) ⊙ GELU′(product + bias)

With few inputs, a product waits for its operands. So the weights of 128 outputs stay in a multiprocessor's shared
memory. One warp loads tiles of rows. Two groups of warps take them in turn: while one multiplies, the other does what
follows (bias, GELU) and stores. Triton's language cannot say this; Gluon is its lower level.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from twoclocks.kernels import tma as tiles
from twoclocks.kernels.activation import gelu, gelu_slope

# Versions of Triton after 3.7 have other names for these two functions.
load_tile = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
store_tile = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global

SIDE = gl.constexpr(128)  # rows and outputs of a tile
DEPTH = gl.constexpr(64)  # inputs of a tile
HALF = gl.constexpr(64)  # outputs that are stored at a time
SLOTS = gl.constexpr(4)  # tiles of rows that are loaded ahead
MOST_INPUTS = 384  # whose weights fit into shared memory beside them
PRODUCT, LINEAR, ACTIVATE, SLOPE = (gl.constexpr(kind) for kind in range(4))  # what follows: nothing, the bias, …
WARPS = {PRODUCT.value: 4, LINEAR.value: 4, ACTIVATE.value: 8, SLOPE.value: 8}  # of each group; measured on an H200
REGISTERS = {4: 240, 8: 104}  # of a thread that multiplies, by the number of warps
LAYOUT = gl.NVMMASharedLayout(128, 16, 2)  # of tiles in shared memory


def fits(x: Tensor, weight: Tensor, inputs: int, outputs: int) -> bool:
    """Whether these kernels can multiply rows of ``inputs`` with a weight: on Hopper, in bfloat16, by whole tiles."""
    shapes = inputs % DEPTH.value == 0 and inputs <= MOST_INPUTS and outputs % SIDE.value == 0
    types = x.dtype == weight.dtype == torch.bfloat16
    return shapes and types and x.is_cuda and tiles.fits(x, weight) and _is_hopper(x.device)


@cache
def _is_hopper(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] == 9


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(…, outputs) of x (…, inputs), weight (outputs, inputs) and bias (outputs,)."""
    out = x.new_empty(*x.shape[:-1], len(weight))
    _launch(PRODUCT.value if bias is None else LINEAR.value, x, weight, bias, out, out)
    return out


def activate(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """GELU of the product with the bias, where no backward pass follows."""
    out = x.new_empty(*x.shape[:-1], len(weight))
    _launch(ACTIVATE.value, x, weight, bias, out, out)
    return out


def behind_gelu(d_out: Tensor, weight: Tensor, product: Tensor, bias: Tensor) -> Tensor:
    """(d_out · weight) ⊙ GELU′(product + bias) of d_out (…, outputs), weight (outputs, inputs), product (…, inputs)."""
    out = torch.empty_like(product)
    _launch(SLOPE.value, d_out, weight, bias, product, out)
    return out


def _launch(kind: int, x: Tensor, weight: Tensor, bias: Tensor | None, product: Tensor, out: Tensor) -> None:
    inputs, outputs = x.shape[-1], out.shape[-1]
    rows, columns = x.numel() // inputs, outputs // SIDE.value
    groups = max(1, min(_multiprocessors(x.device) // columns, triton.cdiv(rows, SIDE.value)))
    square, half = [SIDE.value, DEPTH.value], [SIDE.value, HALF.value]
    warps = WARPS[kind]
    _resident_product[(columns * groups,)](
        TensorDescriptor.from_tensor(x.view(rows, inputs), square, LAYOUT),
        TensorDescriptor.from_tensor(weight, square[::-1] if kind == SLOPE.value else square, LAYOUT),
        TensorDescriptor.from_tensor(product.view(rows, outputs), half, LAYOUT),
        TensorDescriptor.from_tensor(out.view(rows, outputs), half, LAYOUT),
        bias, rows, COLUMNS=columns, GROUPS=groups, CHUNKS=inputs // DEPTH.value, KIND=kind, WARPS=warps,
        REGISTERS=REGISTERS[warps], num_warps=warps,
    )  # fmt: skip


@cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def _resident_product(
    x, weight, product, out, bias, rows, COLUMNS: gl.constexpr, GROUPS: gl.constexpr, CHUNKS: gl.constexpr,
    KIND: gl.constexpr, WARPS: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """One program: 128 outputs of every GROUPS-th tile of rows."""
    first, left = gl.program_id(0) // COLUMNS, (gl.program_id(0) % COLUMNS) * SIDE
    line: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    biases = gl.allocate_shared_memory(gl.float32, [SIDE], plain)
    if KIND != PRODUCT:
        biases.store(gl.load(bias + left + gl.arange(0, SIDE, line)))
    tiles = gl.allocate_shared_memory(x.dtype, [SLOTS, SIDE, DEPTH], x.layout)
    weights = gl.allocate_shared_memory(
        x.dtype, [CHUNKS, weight.block_type.shape[0], weight.block_type.shape[1]], weight.layout
    )
    staging = gl.allocate_shared_memory(x.dtype, [4, SIDE, HALF], out.layout)  # two halves per group
    loaded, freed = _barriers(SLOTS), _barriers(SLOTS)  # tiles of rows
    have_weights, turns = _barriers(1), _barriers(2)
    staged, unstaged = _barriers(2), _barriers(2)  # tiles of the product that GELU's slope reads
    fence_async_shared()  # the unit that copies tiles sees the barriers as they are
    memory = (tiles, weights, staging, biases)
    signals = (loaded, freed, have_weights, turns, staged, unstaged)
    place = (rows, left, first)
    gl.warp_specialize(
        [
            (_first_group, (out, memory, signals, place, GROUPS, CHUNKS, KIND, WARPS)),
            (_second_group, (out, memory, signals, place, GROUPS, CHUNKS, KIND, WARPS)),
            (_load, (x, weight, product, memory, signals, place, GROUPS, CHUNKS, KIND)),
        ],
        [WARPS, 1],
        [REGISTERS, 24],
    )


@gluon.jit
def _barriers(count: gl.constexpr):
    barriers = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for index in gl.static_range(count):
        mbarrier.init(barriers.index(index), count=1)
    return barriers


@gluon.jit
def _load(x, weight, product, memory, signals, place, GROUPS: gl.constexpr, CHUNKS: gl.constexpr, KIND: gl.constexpr):
    """The warp that loads: the weights once, then tile after tile of rows."""
    tiles, weights, staging, _ = memory
    loaded, freed, have_weights, _, staged, unstaged = signals
    rows, left, first = place
    ready = have_weights.index(0)
    mbarrier.expect(ready, CHUNKS * weight.block_type.nbytes)
    for chunk in gl.static_range(CHUNKS):
        corner = [chunk * DEPTH, left] if KIND == SLOPE else [left, chunk * DEPTH]
        load_tile(weight, corner, ready, weights.index(chunk))
    count = 0
    turn = 0
    for top in range(first * SIDE, rows, GROUPS * SIDE):
        for chunk in gl.static_range(CHUNKS):
            slot, phase = count % SLOTS, (count // SLOTS) & 1
            mbarrier.wait(freed.index(slot), phase ^ 1)
            mbarrier.expect(loaded.index(slot), x.block_type.nbytes)
            load_tile(x, [top, chunk * DEPTH], loaded.index(slot), tiles.index(slot))
            count += 1
        if KIND == SLOPE:
            group = turn % 2
            mbarrier.wait(unstaged.index(group), ((turn // 2) & 1) ^ 1)
            mbarrier.expect(staged.index(group), 2 * product.block_type.nbytes)
            load_tile(product, [top, left], staged.index(group), staging.index(2 * group))
            load_tile(product, [top, left + HALF], staged.index(group), staging.index(2 * group + 1))
        turn += 1  # noqa: SIM113


@gluon.jit
def _first_group(
    out, memory, signals, place,
    GROUPS: gl.constexpr, CHUNKS: gl.constexpr, KIND: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    _multiply(0, out, memory, signals, place, GROUPS, CHUNKS, KIND, WARPS)


@gluon.jit
def _second_group(
    out, memory, signals, place,
    GROUPS: gl.constexpr, CHUNKS: gl.constexpr, KIND: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    _multiply(1, out, memory, signals, place, GROUPS, CHUNKS, KIND, WARPS)


@gluon.jit
def _multiply(
    GROUP: gl.constexpr, out, memory, signals, place,
    GROUPS: gl.constexpr, CHUNKS: gl.constexpr, KIND: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    """One of the two groups of warps that multiply: every second tile of the program."""
    tiles, weights, staging, biases = memory
    loaded, freed, have_weights, turns, staged, unstaged = signals
    rows, left, first = place
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, SIDE, 16])
    mbarrier.wait(have_weights.index(0), 0)
    turn = 0
    for top in range((first + GROUP * GROUPS) * SIDE, rows, 2 * GROUPS * SIDE):
        start = (2 * turn + GROUP) * CHUNKS
        # Only one group multiplies at a time. A barrier's phase can be told from the next one only, so no group may
        # wait for tiles whose turn comes after the other group's.
        mbarrier.wait(turns.index(GROUP), (turn & 1) ^ 1 if GROUP == 0 else turn & 1)
        total = warpgroup_mma_init(gl.zeros((SIDE, SIDE), gl.float32, layout))
        for chunk in gl.static_range(CHUNKS):
            slot = (start + chunk) % SLOTS
            mbarrier.wait(loaded.index(slot), ((start + chunk) // SLOTS) & 1)
            part = weights.index(chunk)
            part = part if KIND == SLOPE else part.permute((1, 0))
            total = warpgroup_mma(tiles.index(slot), part, total, use_acc=chunk > 0, is_async=True)
            if chunk > 0:
                total = warpgroup_mma_wait(1, deps=(total,))
                _signal(freed.index((start + chunk - 1) % SLOTS))
            elif (KIND == SLOPE) and (turn > 0):
                tma.store_wait(0)
                _signal(unstaged.index(GROUP))
        _signal(turns.index(1 - GROUP))
        whole = warpgroup_mma_wait(0, deps=(total,))
        _signal(freed.index((start + CHUNKS - 1) % SLOTS))
        if KIND == SLOPE:
            mbarrier.wait(staged.index(GROUP), turn & 1)
        halves = gl.split(gl.permute(gl.reshape(whole, (SIDE, 2, HALF)), (0, 2, 1)))
        for part in gl.static_range(2):
            _finish(halves[part], part, GROUP, out, staging, biases, top, left, KIND, WARPS)
        turn += 1  # noqa: SIM113
    tma.store_wait(0)


@gluon.jit
def _signal(barrier):
    """Signal once all warps of the group are here."""
    tl.debug_barrier()
    mbarrier.arrive(barrier, count=1)


@gluon.jit
def _finish(
    value, PART: gl.constexpr, GROUP: gl.constexpr, out, staging, biases, top, left,
    KIND: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    """What follows the product, for half of the outputs of a tile."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, HALF, 16])
    value = gl.convert_layout(value, layout)
    own = staging.index(2 * GROUP + PART)
    if KIND != PRODUCT:
        bias = biases.slice(PART * HALF, HALF).load(gl.SliceLayout(0, layout))[None, :]
    if KIND == SLOPE:
        value *= gelu_slope(own.load(layout).to(gl.float32) + bias)
    elif KIND == ACTIVATE:
        value = gelu(value + bias)
    elif KIND == LINEAR:
        value += bias
    if KIND != SLOPE:
        tma.store_wait(1)  # until the same half of the last tile has been read
    own.store(value.to(out.dtype))
    fence_async_shared()
    store_tile(out, [top, left + PART * HALF], own)
