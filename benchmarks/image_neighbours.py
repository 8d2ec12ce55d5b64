"""Speed of the exact search for the two nearest training images, with products of 8-bit integers and in float64.

    python benchmarks/image_neighbours.py --out results/image_neighbours.json                  # 32,768 samples, a GPU
    python benchmarks/image_neighbours.py --device cpu --samples 512 --out FILE

Random pixels, 50,000 images of 3,072 values (CIFAR-10). Both ways are measured in the same run, in turns, and must find
the same images.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from twoclocks.bench.timing import side_by_side
from twoclocks.evaluation import image_neighbours
from twoclocks.evaluation.image_neighbours import ImageNeighbours, Nearest
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

VALUES = 3 * 32 * 32


def pixels(n: int, seed: int, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, VALUES), generator=generator, dtype=torch.uint8).to(device)


def in_float64(neighbours: ImageNeighbours, samples: torch.Tensor) -> Nearest:
    """The search as it is made for images of few values."""
    usual, image_neighbours.SMALL = image_neighbours.SMALL, VALUES + 1
    try:
        return neighbours.two_nearest(samples)
    finally:
        image_neighbours.SMALL = usual


def measure(device: str, samples: int, images: int) -> dict[str, Any]:
    """Seconds of both ways; on a GPU also the most memory that a search takes beyond its inputs."""
    neighbours, given = ImageNeighbours(pixels(images, 0, device)), pixels(samples, 1, device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    found = neighbours.two_nearest(given)
    memory = torch.cuda.max_memory_allocated() - before if device == "cuda" else None
    assert torch.equal(found.distance, in_float64(neighbours, given).distance)
    works = {
        "integers": lambda: neighbours.two_nearest(given),
        "float64": lambda: in_float64(neighbours, given),
    }
    rates = side_by_side(works, device, 2.0)
    seconds = {name: round(1 / rate, 4) for name, rate in rates.items()}
    return {"samples": samples, "images": images, "values": VALUES, "seconds": seconds, "peak_bytes": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--samples", type=int, default=32_768)
    parser.add_argument("--images", type=int, default=50_000)
    asked = parser.parse_args()
    row = measure(asked.device, asked.samples, asked.images)
    print(row)
    sizes = f"--samples {asked.samples} --images {asked.images}"
    command = f"python benchmarks/image_neighbours.py --device {asked.device} {sizes} --out FILE"
    origin = {"commit": commit(), "versions": versions(), "machine": machine(asked.device)}
    write_json(asked.out, {"command": command, **origin, "row": row})


if __name__ == "__main__":
    main()
