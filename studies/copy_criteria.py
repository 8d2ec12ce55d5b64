"""How many real images each copy criterion counts by chance, and how many altered copies it finds.

    twoclocks data fetch digits         (also fashion-mnist, cifar10 and kanji; it says which package to install)
    python studies/copy_criteria.py digits.safetensors fashion-mnist.safetensors cifar10.safetensors \
        kanji.safetensors --out results/copy_criteria.json

Of each packed file, 2,000 images are the training set and 4,000 are held out, or as many as there are. One half of the
held-out images sets the threshold of the calibrated ratio. The other half gives the chance level of every criterion:
the part of these images, none of which was trained on, that counts as copies. Then each training image is altered in
one way. It is found if it counts as a copy of its original, or of a near-duplicate of that.

A calibrated threshold is itself an estimate, so its chance level is also measured for 20 random choices of training and
held-out images.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from twoclocks.core.errors import UserError
from twoclocks.core.proportion import clopper_pearson
from twoclocks.core.seeds import random_order
from twoclocks.data.images import PackedImages, read_packed
from twoclocks.monitor.criteria import Criterion, PerceptualHash, Ratio
from twoclocks.monitor.symmetries import moved
from twoclocks.monitor.training_set import TrainingSet
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

TRAINING, HELD_OUT = 2_000, 4_000  # images, where there are so many
SPLITS = 20  # random choices of training and held-out images
TAIL = 0.025  # on either side of an interval
BLUR, BRIGHTER, SHIFT = 1.0, 0.2, 2  # standard deviation in pixels; on the scale from −1 to 1; pixels

Images = npt.NDArray[np.float32]  # (n, channels, height, width), from −1 to 1
Alteration = Callable[[Images, np.random.Generator], Images]


def noisy(scale: float) -> Alteration:
    """Gaussian noise of this standard deviation."""
    return lambda images, rng: images + scale * rng.standard_normal(images.shape, dtype=np.float32)


def blurred(images: Images, rng: np.random.Generator) -> Images:
    return np.asarray(gaussian_filter(images, BLUR, axes=(2, 3), mode="nearest"))


def shifted(images: Images, rng: np.random.Generator) -> Images:
    """Moved to the right; the pixels at the edge are repeated."""
    return np.asarray(moved(images, (2, 3), (0, SHIFT)))


ALTERATIONS: dict[str, Alteration] = {
    "none": lambda images, rng: images,
    "noise 0.1": noisy(0.1),
    "noise 0.2": noisy(0.2),
    "blur": blurred,
    "brightness": lambda images, rng: images + np.float32(BRIGHTER),
    "flip": lambda images, rng: images[..., ::-1],
    "shift": shifted,
}


def altered(images: Images, name: str, seed: int) -> Images:
    """The images with one alteration, within −1 to 1 as the pixels of any image."""
    changed = ALTERATIONS[name](images, np.random.default_rng(seed))
    return np.ascontiguousarray(np.clip(changed, -1, 1))


@dataclass(frozen=True)
class Case:
    """A criterion, and the symmetries that are declared with it."""

    name: str
    criterion: Criterion
    symmetries: tuple[str, ...] = ()


CASES = (
    Case("ratio below 1/3", Ratio()),
    Case("ratio, calibrated", Ratio(None)),
    Case("ratio below 1/3, with flips", Ratio(), ("flip",)),
    Case("perceptual hash", PerceptualHash()),
)


def share(hits: int, trials: int) -> dict[str, Any]:
    """A proportion with its exact 95% interval."""
    low, high = clopper_pearson(hits, trials, TAIL)
    return {"hits": hits, "trials": trials, "rate": hits / trials, "interval": [float(low), float(high)]}


def measured(case: Case, train: Images, held_out: Images, seed: int) -> dict[str, Any]:
    """Chance level and found copies of one criterion; every second held-out image is for the threshold alone."""
    row: dict[str, Any] = {"criterion": case.name}
    known = TrainingSet(train, case.symmetries)
    assert len(known) == len(train), "a packed file has distinct images"
    criterion, kept = case.criterion.calibrated(known, held_out)
    new = held_out[1::2] if kept is held_out else np.asarray(kept)
    try:
        match = criterion.matcher(known)
    except UserError as error:  # the criterion is not defined for images of this size
        return {**row, "refused": str(error)}
    found = {}
    for name in ALTERATIONS:
        matches = match(altered(train, name, seed))
        right = matches.copied & (known.groups[matches.rows] == known.groups)
        found[name] = share(int(right.sum()), len(train))
    row["threshold"] = criterion.threshold if isinstance(criterion, Ratio) else None
    row["near_duplicates"] = int((np.bincount(known.groups)[known.groups] > 1).sum())
    return {**row, "chance": share(int(match(new).copied.sum()), len(new)), "found": found}


def scaled(packed: PackedImages, rows: npt.NDArray[np.int64]) -> Images:
    """Some images of a packed file on the scale from −1 to 1, as networks are given them."""
    return packed.pixels[rows].astype(np.float32) / np.float32(127.5) - 1


def split(packed: PackedImages, seed: int) -> tuple[Images, Images]:
    """Training and held-out images; of a small file one half each."""
    n = min(TRAINING, len(packed) // 2)
    held_out, order = min(HELD_OUT, len(packed) - n), random_order(len(packed), seed, "order of images")
    return scaled(packed, order[held_out : held_out + n]), scaled(packed, order[:held_out])


def calibrated_chance(train: Images, held_out: Images) -> float:
    """Part of one half of the held-out images that counts as copies, with the threshold that the other half sets."""
    known = TrainingSet(train)
    criterion, kept = Ratio(None).calibrated(known, held_out)
    return float(criterion.matcher(known)(kept).copied.mean())


def measured_file(path: Path, seed: int) -> dict[str, Any]:
    """All criteria on the images of one packed file."""
    packed = read_packed(path)
    train, held_out = split(packed, seed)
    about = {"data": path.stem, "digest": packed.digest, "images": len(packed), "shape": list(train.shape[1:])}
    about |= {"training": len(train), "held_out": len(held_out), "pixel_std": float(train.std(dtype=np.float64))}
    about["calibrated_chances"] = [calibrated_chance(*split(packed, seed + k)) for k in range(SPLITS)]
    return {**about, "criteria": [measured(case, train, held_out, seed) for case in CASES]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packed", type=Path, nargs="+", help="files that twoclocks data has packed")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("twoclocks").setLevel(logging.ERROR)
    files = " ".join(path.name for path in arguments.packed)
    rows = []
    for path in arguments.packed:
        rows.append(measured_file(path, arguments.seed))
        print(rows[-1], flush=True)
    result = {
        "command": f"python studies/copy_criteria.py {files} --out results/{arguments.out.name}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "settings": {"blur": BLUR, "brightness": BRIGHTER, "shift": SHIFT, "seed": arguments.seed},
        "rows": rows,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
