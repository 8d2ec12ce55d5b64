"""Where the results of a known list of operations lie: in as little memory as possible, which stays in the caches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

ALIGNMENT = 64  # bytes: of torch's own memory too


def plan_memory(used: Sequence[Collection[int]], sizes: Sequence[int], kept: Collection[int]) -> dict[int, int]:
    """Offsets in bytes of all blocks of memory, in one; a place whose last reader has run is used again.

    ``used`` are the blocks that each operation reads or writes, in order; ``kept`` are read after the last one.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, blocks in enumerate(used):
        for block in blocks:
            first.setdefault(block, number)
            last[block] = number
    last |= dict.fromkeys(kept, len(used))
    return pack(first, last, {block: aligned(sizes[block]) for block in first})


def aligned(size: int) -> int:
    """A number of bytes, rounded up so that what comes behind is aligned."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def needed(offsets: Mapping[int, int], sizes: Sequence[int]) -> int:
    """Bytes of memory in which all blocks have their place."""
    return max((offset + aligned(sizes[block]) for block, offset in offsets.items()), default=0)


def pack(first: Mapping[int, int], last: Mapping[int, int], sizes: Mapping[int, int]) -> dict[int, int]:
    """Offsets such that nothing that lives at the same time overlaps: each block takes the smallest gap that fits.

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
