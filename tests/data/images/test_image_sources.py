"""Array files, CIFAR-10, idx files and data sets in Python: the pixels that come back, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from twoclocks.core.errors import UserError
from twoclocks.data.images import pack, pack_dataset

RNG = np.random.default_rng(0)
GREY, COLOUR = (RNG.integers(0, 256, shape, dtype=np.uint8) for shape in ((5, 6, 6), (5, 6, 6, 3)))


def packed(folder: Path, source: str, **options: Any) -> np.ndarray:
    return pack(folder / source, folder / "out.safetensors", **options).pixels


@pytest.mark.parametrize(
    ("array", "options"),
    [
        (GREY, {}),
        (GREY[..., None], {}),
        (GREY[:, None], {}),
        (COLOUR, {}),
        (COLOUR.transpose(0, 3, 1, 2), {}),
        (np.asfortranarray(COLOUR), {}),
        (COLOUR / np.float32(255), {"values": "unit"}),
        (COLOUR.astype(">f8") / 127.5 - 1, {"values": "signed"}),
    ],
)
def test_arrays_come_back_whatever_their_layout(array: np.ndarray, options: dict[str, str], tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", images=array, labels=np.arange(5))
    expected = COLOUR.transpose(0, 3, 1, 2) if array.size == COLOUR.size else GREY[:, None]
    assert np.array_equal(packed(tmp_path, "a.npy", **options), expected)
    assert np.array_equal(packed(tmp_path, "a.npz", key="images", **options), expected)
    items = pack_dataset([(image, 3) for image in array], tmp_path / "out", **options)
    assert np.array_equal(items.pixels, expected)


class Hostile:
    """Loading it would leave a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.path),)


def with_nan() -> np.ndarray:
    values = COLOUR / np.float32(255)
    values[3, 2, 2, 1] = np.nan
    return values


def bytes_of(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def two_arrays(path: Path) -> None:
    np.savez(path, x=GREY, y=GREY)


def foreign_member(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00v\x00" + b"(" * 118)


BAD: dict[str, tuple[str, Callable[[Path], object], dict[str, Any], str]] = {
    "not there": ("nowhere", lambda p: None, {}, "nowhere: does not exist"),
    "empty folder": ("empty", Path.mkdir, {}, "empty: has no images"),
    "folder of texts": ("texts", lambda p: (p.mkdir(), (p / "x.txt").write_text("")), {}, "it has {'.txt': 1}"),
    "one image": ("a.png", lambda p: Image.fromarray(GREY[0]).save(p), {}, "is one image; name the folder"),
    "another kind": ("a.zip", lambda p: p.write_bytes(b"PK"), {}, "of no known kind"),
    "empty npy": ("a.npy", lambda p: p.write_bytes(b""), {}, "no array that numpy.save"),
    "truncated npy": ("a.npy", lambda p: p.write_bytes(bytes_of(GREY)[:-1]), {}, "is cut off"),
    "huge header": (
        "a.npy",
        lambda p: p.write_bytes(bytes_of(GREY).replace(b"(5, 6, 6)", b"(9**9,6) ")),
        {},
        "no array that numpy.save",
    ),
    "damaged npz": ("a.npz", lambda p: p.write_bytes(b"PK\5\6" + b"\xff" * 18), {}, r"a\.npz: "),
    "foreign npz": ("a.npz", foreign_member, {}, "no array that numpy.save"),
    "two arrays": ("a.npz", two_arrays, {}, "has the arrays x, y; name one with --key"),
    "unknown key": ("a.npz", two_arrays, {"key": "z"}, "has no array 'z'; use --key with one of x, y"),
    "floats not stated": ("a.npy", lambda p: np.save(p, GREY / 255.0), {}, "float64; say .*--values unit"),
    "floats outside": ("a.npy", lambda p: np.save(p, GREY / 127.5 - 1), {"values": "unit"}, r"outside \[0, 1\]"),
    "NaN": ("a.npy", lambda p: np.save(p, with_nan()), {"values": "unit"}, "image 3: .*NaN or infinite"),
    "integers": ("a.npy", lambda p: np.save(p, GREY.astype(np.int64)), {}, "int64; convert the array to uint8"),
    "flat": ("a.npy", lambda p: np.save(p, GREY.reshape(5, 36)), {}, r"shape \(5, 36\)"),
    "two channels": ("a.npy", lambda p: np.save(p, np.zeros((5, 6, 6, 2), np.uint8)), {}, "no axis of 1 or 3"),
    "which axis": ("a.npy", lambda p: np.save(p, np.zeros((5, 3, 6, 3), np.uint8)), {}, "channels first or last"),
    "no images": ("a.npy", lambda p: np.save(p, GREY[:0]), {}, r"shape \(0, 6, 6\)"),
    "wrong CIFAR": ("data_batch_1.bin", lambda p: p.write_bytes(b"\0" * 3074), {}, "3,074 bytes instead of 30,730,000"),
    "labels of CIFAR-100": (
        "data_batch_1.bin",
        lambda p: p.write_bytes(b"\x63" * 30_730_000),
        {},
        "has the label 99, CIFAR-10 has 0 to 9",
    ),
    "wrong pickle": ("data_batch_1", lambda p: p.write_bytes(pickle.dumps({b"data": 5})), {}, "does not hold 10,000"),
    "text as pickle": ("data_batch_1", lambda p: p.write_text("hello"), {}, "no pickle of CIFAR-10"),
    "labels as idx": (
        "x-idx3-ubyte",
        lambda p: p.write_bytes(b"\0\0\x08\x01" + b"\0" * 99),
        {},
        "no idx file of images",
    ),
    "truncated gz": (
        "x-idx3-ubyte.gz",
        lambda p: p.write_bytes(gzip.compress(idx_bytes(GREY))[:-20]),
        {},
        "is damaged",
    ),
    "no gz": ("x-idx3-ubyte.gz", lambda p: p.write_bytes(idx_bytes(GREY)), {}, "is damaged"),
    "gz bomb": (
        "x-idx3-ubyte.gz",
        lambda p: p.write_bytes(gzip.compress(b"\0\0\x08\x03" + b"\x7f\xff\xff\xff" * 3 + b"\0" * 1_000_000)),
        {},
        "bytes of pixels, this process may use",
    ),
    "idx too long": ("x-idx3-ubyte", lambda p: p.write_bytes(idx_bytes(GREY) + b"x"), {}, "not have the 180 bytes"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_source_gives_one_line(what: str, tmp_path: Path) -> None:
    name, make, options, words = BAD[what]
    make(tmp_path / name)
    with pytest.raises(UserError, match=words) as caught:
        packed(tmp_path, name, **options)
    assert name in str(caught.value) and ";" in str(caught.value) and not (tmp_path / "out.safetensors").exists()


def test_objects_in_arrays_and_pickles_are_never_loaded(tmp_path: Path) -> None:
    objects = np.array([Hostile(tmp_path / "executed")], dtype=object)
    np.save(tmp_path / "a.npy", objects)
    np.savez(tmp_path / "a.npz", objects)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(Hostile(tmp_path / "executed")))
    for name, words in (("a.npy", "pickled Python objects"), ("a.npz", "pickled Python"), ("data_batch_1", "not hold")):
        with pytest.raises(UserError, match=words):
            packed(tmp_path, name)
    assert not (tmp_path / "executed").exists()


def test_randomly_damaged_arrays_give_pixels_or_one_line(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=COLOUR)
    whole = {"a.npy": bytes_of(COLOUR), "a.npz": (tmp_path / "a.npz").read_bytes()}
    rng, refused = np.random.default_rng(1), 0
    for i in range(400):
        name = ("a.npy", "a.npz")[i % 2]
        data = bytearray(whole[name])
        for position in rng.integers(0, 130 if i % 4 else len(data), size=3):
            data[position] = rng.integers(256)
        (tmp_path / name).write_bytes(bytes(data))
        try:
            assert packed(tmp_path, name).dtype == np.uint8
        except UserError as error:
            refused += 1
            assert name in str(error) and ";" in str(error)
    assert refused > 150


def test_one_nan_can_be_skipped(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", with_nan())
    found = pack(tmp_path / "a.npy", tmp_path / "out", values="unit", skip_bad=True)
    assert found.names == ("0", "1", "2", "4") and "image 3" in found.about["skipped"][0]


def idx_bytes(images: np.ndarray) -> bytes:
    return b"\0\0\x08\x03" + b"".join(side.to_bytes(4, "big") for side in images.shape) + images.tobytes()


def test_idx_files_and_their_folder(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(GREY)))
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(255 - GREY))
    assert np.array_equal(packed(tmp_path, "."), GREY[:, None])
    assert np.array_equal(packed(tmp_path, ".", split="test"), 255 - GREY[:, None])
    assert np.array_equal(packed(tmp_path, "t10k-images-idx3-ubyte"), 255 - GREY[:, None])
    both = pack(tmp_path, tmp_path / "out", split="all")
    assert len(both) == 10 and both.names[5] == "t10k-images-idx3-ubyte:0"
    (tmp_path / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(UserError, match=r"t10k-images-idx3-ubyte: is missing; .*--split"):
        packed(tmp_path, ".", split="test")


def test_cifar_in_all_its_published_forms(tmp_path: Path) -> None:
    """Planes of red, green and blue, each row by row; the Python version as Python 2 pickled it, and as 3 does."""
    planes = np.zeros((10_000, 3, 32, 32), np.uint8)
    planes[:4] = RNG.integers(0, 256, (4, 3, 32, 32))
    records = np.concatenate([np.full((10_000, 1), 9, np.uint8), planes.reshape(10_000, -1)], axis=1)
    (tmp_path / "data_batch_1.bin").write_bytes(records.tobytes())
    text = planes.tobytes()
    python2 = b"\x80\x02}q\x01U\x04dataq\x02T" + len(text).to_bytes(4, "little") + text + b"q\x03s."
    for name, content in (("2", python2), ("3", pickle.dumps({b"data": planes.reshape(10_000, -1)}))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data_batch_1").write_bytes(content)
    rows = planes.transpose(0, 2, 3, 1).reshape(10_000, 1024, 3)
    Image.fromarray(rows).save(tmp_path / "rows.png", compress_level=1)
    from twoclocks.data.images.published import read_cifar_rows

    assert np.array_equal(read_cifar_rows(tmp_path / "rows.png").transpose(0, 3, 1, 2), planes)
    for name in ("data_batch_1.bin", "2/data_batch_1", "3/data_batch_1"):
        found = pack(tmp_path / name, tmp_path / "out")
        assert np.array_equal(found.pixels, planes[:5]) and len(found.about["duplicates"]) == 9995, name
    with pytest.raises(UserError, match=r"data_batch_2\.bin: is missing"):
        pack(tmp_path, tmp_path / "out")


def test_data_sets_in_python(tmp_path: Path) -> None:
    class Labelled:
        def __len__(self) -> int:
            return 5

        def __getitem__(self, i: int) -> tuple[Image.Image, int]:
            return Image.fromarray(COLOUR[i]), i

    found = pack_dataset(Labelled(), tmp_path / "out", words="labelled")
    assert np.array_equal(found.pixels, COLOUR.transpose(0, 3, 1, 2)) and found.about["source"] == "labelled"
    for data, words in (
        ([5], "item 0: 'int' of shape"),
        ([GREY[0], "text"], "item 1: 'str'"),
        ([GREY[0], GREY[1, :4]], "1: is 4×4 .* but 0 is 6×6"),
        ([Image.fromarray(COLOUR[0]).convert("CMYK")], "item 0: has the mode CMYK"),
    ):
        with pytest.raises(UserError, match=words):
            pack_dataset(data, tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "size: 0 is not allowed; use an integer from 1"),
        ({"size": True}, "size: True"),
        ({"channels": 2}, "channels: 2 is not allowed; use 1"),
        ({"crop": "left"}, "crop: 'left' is not allowed; use centre"),
        ({"resample": "best"}, "resample: 'best' .* lanczos"),
        ({"background": 256}, "background: 256"),
        ({"values": "percent"}, "values: 'percent'"),
        ({"split": "half"}, "split: 'half'"),
        ({"most_pixels": 0}, "most_pixels: 0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        pack("digits", tmp_path / "out", **options)
