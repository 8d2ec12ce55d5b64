"""The numbers of image quality for real images, copies and spoilt images, in each feature space that needs no download.

    python studies/image_quality.py --out results/image_quality.json
    python studies/image_quality.py --out results/image_quality.json --fashion /usr/share/datasets/fashion-mnist

Images with known classes are split at random into reserved ones (for the feature network), training images, two halves
of held-out ones (reference and floor) and a pool of further real images, from which spoilt ones are made. What must
hold for every split: the Fréchet distance rises from the pool's with every step of blur, noise and missing classes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twoclocks.core.seeds import numpy_stream
from twoclocks.data.images.published import read_idx
from twoclocks.evaluation.quality import AutoencoderSpace, FeatureSpace, PixelSpace
from twoclocks.evaluation.quality.metrics import MEANING, as_float, values
from twoclocks.evaluation.quality.real_images import QualityScale, RealImages
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

SPACES: dict[str, FeatureSpace] = {
    "pixels": PixelSpace(components=64),
    **{f"autoencoder, noise {noise:g}": AutoencoderSpace(noise=noise) for noise in (0.0, 0.5, 1.0)},
    "autoencoder, not trained": AutoencoderSpace(steps=1),  # the control: what random weights can do
}
BLUR, NOISE, MISSING = (0.5, 0.7, 1.0, 1.5), (0.1, 0.2, 0.4, 0.8), (1, 3, 5)


@dataclass(frozen=True)
class Labelled:
    """Images (n, 1, height, width), uint8, with classes 0 to 9, and how many of them go where."""

    name: str
    pixels: Tensor
    classes: Tensor
    reserved: int
    train: int
    half: int  # of the held-out images; also the number of samples


def digits() -> Labelled:
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = np.round(255 * found.images / 16).astype(np.uint8)[:, None]
    return Labelled("digits", torch.from_numpy(pixels), torch.from_numpy(found.target), 397, 300, 250)


def fashion(folder: Path) -> Labelled:
    """The 10,000 test images; labels are bytes behind a header of 8."""
    import gzip

    pixels = read_idx(folder / "t10k-images-idx3-ubyte.gz")
    classes = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    images = torch.from_numpy(pixels.reshape(-1, 1, 28, 28).copy())
    return Labelled("fashion-mnist", images, torch.from_numpy(classes.astype(np.int64)), 1500, 2000, 1000)


def blurred(pixels: Tensor, sigma: float) -> Tensor:
    """Convolved with a Gaussian of this standard deviation in pixels."""
    reach = min(int(3 * sigma + 1), pixels.shape[-1] - 1)
    weights = torch.exp(-torch.arange(-reach, reach + 1).float().square() / (2 * sigma**2))
    weights = weights / weights.sum()
    padded = torch.nn.functional.pad(pixels.float(), [reach] * 4, mode="replicate")
    rows = torch.nn.functional.conv2d(padded, weights.reshape(1, 1, 1, -1))
    return torch.nn.functional.conv2d(rows, weights.reshape(1, 1, -1, 1)).round().clamp(0, 255).byte()


def noisy(pixels: Tensor, sigma: float) -> Tensor:
    """With Gaussian noise of this standard deviation, where pixels are −1 to 1."""
    noise = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(0))
    return (pixels.float() + 127.5 * sigma * noise).round().clamp(0, 255).byte()


def generators(train: Tensor, pool: Tensor, classes: Tensor, half: int) -> Iterator[tuple[str, float, Tensor]]:
    """Samples of generators whose faults are known: kind, how strong, images (half, …)."""
    yield "other real images", 0, pool[:half]
    yield "copies of training images", 0, train[:half]
    yield "one image repeated", 0, train[:1].expand(half, -1, -1, -1)
    yield from (("blur", sigma, blurred(pool[:half], sigma)) for sigma in BLUR)
    yield from (("noise", sigma, noisy(pool[:half], sigma)) for sigma in NOISE)
    for first in MISSING:
        left = pool[classes >= first]
        assert len(left) >= half, f"{len(left)} images of the other classes, {half} are needed"
        yield "missing classes", first, left[:half]


def rows_of(data: Labelled, space: str, seed: int) -> list[dict[str, Any]]:
    """The numbers of all generators for one random split; the floor comes first."""
    order = torch.from_numpy(numpy_stream(seed, f"study of quality, {data.name}").permutation(len(data.pixels)))
    pixels, classes = data.pixels[order], data.classes[order]
    ends = np.cumsum([data.reserved, data.train, 2 * data.half])
    reserved, train, held_out, pool = torch.tensor_split(pixels, torch.from_numpy(ends))
    scale = QualityScale(RealImages(train, held_out, reserved), SPACES[space], data.half)
    start = time.perf_counter()
    dimensions = scale.real.shape[1]  # trains the network
    seconds = time.perf_counter() - start
    about = {"data": data.name, "space": space, "seed": seed}
    found = [("floor", 0.0, scale.floor)]
    found += [
        (kind, level, scale(some)) for kind, level, some in generators(train, pool, classes[ends[2] :], data.half)
    ]
    rows = [
        {**about, "kind": kind, "level": level, **{name: as_float(value) for name, value in values(quality).items()}}
        for kind, level, quality in found
    ]
    rows[0] |= {"seconds": seconds, "dimensions": dimensions, "digest": scale.features.digest}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fashion", type=Path, help="folder of Fashion-MNIST's files, to measure it too")
    parser.add_argument("--seeds", type=int, default=5, help="random splits")
    arguments = parser.parse_args()
    sets = [digits(), *([fashion(arguments.fashion)] if arguments.fashion else [])]
    rows = []
    for data in sets:
        for space in SPACES:
            for seed in range(arguments.seeds):
                rows += rows_of(data, space, seed)
                print({key: value for key, value in rows[-1].items() if key not in MEANING}, flush=True)
    folder = " --fashion /usr/share/datasets/fashion-mnist" if arguments.fashion else ""
    result = {
        "command": f"python studies/image_quality.py --out results/{arguments.out.name}{folder}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "settings": {
            "seeds": arguments.seeds,
            "sets": {d.name: {"reserved": d.reserved, "train": d.train, "half": d.half} for d in sets},
        },
        "rows": rows,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
