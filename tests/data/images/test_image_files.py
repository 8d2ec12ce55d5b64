"""Image files as people and attackers have them: what is packed, and the one line for what is refused."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from twoclocks.cli import main
from twoclocks.core.errors import UserError
from twoclocks.data.images import PackOptions, pack, read_packed
from twoclocks.data.images.decode import decode_bytes

RNG = np.random.default_rng(0)


def picture(height: int = 12, width: int = 12, channels: int = 3) -> Image.Image:
    pixels = RNG.integers(0, 256, (height, width, channels), dtype=np.uint8)
    return Image.fromarray(pixels if channels > 1 else pixels[..., 0])


def png(width: int, height: int, bits: int, colour: int, rows: bytes) -> bytes:
    """A PNG that Pillow would not write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def animated(path: Path) -> None:
    picture().save(path, save_all=True, append_images=[picture(), picture()], duration=50)


def truncated(path: Path) -> None:
    picture(64, 64).save(path)
    path.write_bytes(path.read_bytes()[:3000])


def flipped(path: Path) -> None:
    picture().save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


def transparent_palette(path: Path) -> None:
    image = picture(channels=1).convert("P")
    image.save(path, transparency=image.getpixel((0, 0)))  # a colour that the picture has


def loop(path: Path) -> None:
    path.symlink_to(path.name)


BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {  # what: (file name, how it is made, words of the line)
    "zero bytes": ("b.png", lambda p: p.write_bytes(b""), "is empty"),
    "text": ("b.png", lambda p: p.write_text("hello\n" * 50), "no image that can be read"),
    "script as tiff": ("b.tiff", lambda p: p.write_bytes(b"II*\0" + b"\xff" * 200), "b.tiff: "),
    "truncated": ("b.png", truncated, "cannot be decoded"),
    "truncated jpeg": ("b.jpg", truncated, "cannot be decoded"),
    "flipped bit": ("b.png", flipped, "cannot be decoded"),
    "animated gif": ("b.gif", animated, "several frames; use --first-frame"),
    "animated webp": ("b.webp", animated, "several frames; use --first-frame"),
    "animated png": ("b.png", animated, "several frames; use --first-frame"),
    "cmyk": ("b.jpg", lambda p: picture().convert("CMYK").save(p), "mode CMYK"),
    "16 bits, grey": ("b.png", lambda p: p.write_bytes(png(12, 12, 16, 0, b"\0" * 12 * 25)), "16 bits per channel"),
    "16 bits, colour": ("b.png", lambda p: p.write_bytes(png(12, 12, 16, 2, b"\0" * 12 * 73)), "16 bits per channel"),
    "16 bits, tiff": (
        "b.tif",
        lambda p: Image.fromarray(np.zeros((12, 12), np.uint16)).save(p),
        "16 bits per channel",
    ),
    "floats": ("b.tif", lambda p: Image.fromarray(np.zeros((12, 12), np.float32)).save(p), "32 bits per channel"),
    "transparent palette": ("b.png", transparent_palette, "transparent pixels; say what is behind"),
    "transparent": ("b.png", lambda p: picture(channels=4).save(p), "transparent pixels; say what is behind"),
    "bomb": ("b.png", lambda p: p.write_bytes(png(60_000, 60_000, 1, 0, b"\0" * 1000)), "more than 89,478,485 pixels"),
    "bomb below Pillow's error": (
        "b.png",
        lambda p: p.write_bytes(png(10_000, 10_000, 1, 0, b"\0" * 1251 * 10_000)),
        "more than 89,478,485 pixels; .*--most-pixels",
    ),
    "another size": ("b.png", lambda p: picture(8, 8).save(p), "is 8×8 .* but a.png is 12×12; use --size"),
    "another kind": ("b.png", lambda p: picture(channels=1).save(p), "has 1 channels, but a.png has 3; use --channels"),
    "link to itself": ("b.png", loop, "cannot be read"),
    "broken link": ("b.png", lambda p: p.symlink_to("gone.png"), "cannot be read .No such file"),
    "pipe": ("b.png", os.mkfifo, "cannot be read .it is not a regular file"),
    "folder loop": ("inner", lambda p: p.symlink_to("."), "is the same folder as .*; remove the link"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_gives_one_line_or_is_skipped_and_listed(
    what: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, make, words = BAD[what]
    (work / "images").mkdir()
    picture().save(work / "images" / "a.png")
    picture().save(work / "images" / "c.png")
    make(work / "images" / name)
    assert main(["data", "pack", "images", "--out", "packed"]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("twoclocks: ")]
    assert len(lines) == 1 and name in lines[0] and not Path("packed").exists()
    with pytest.raises(UserError, match=words):
        pack("images", "packed")
    packed = pack("images", "packed", skip_bad=True)
    assert packed.names == ("a.png", "c.png") and len(packed.about["skipped"]) == 1
    assert name in packed.about["skipped"][0] and read_packed("packed").about == packed.about


def one(work: Path, **options: object) -> np.ndarray:
    """The only image of the folder, as (height, width, channels)."""
    return pack(work, work / "packed.safetensors", **options).pixels[0].transpose(1, 2, 0)


def test_pixels_of_lossless_files_are_unchanged_and_sorted_by_name(tmp_path: Path) -> None:
    images = {name: picture() for name in ("b/2.bmp", "a/9.tiff", "b/10.png", "c.PNG", "a/1.webp", "z.gif")}
    for name, image in images.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image.save(tmp_path / name, **({"lossless": True} if name.endswith("webp") else {}))
    (tmp_path / "labels.csv").write_text("ignored")
    packed = pack(tmp_path, tmp_path / "out.safetensors")
    assert packed.names == ("a/1.webp", "a/9.tiff", "b/10.png", "b/2.bmp", "c.PNG", "z.gif")
    for name, pixels in zip(packed.names, packed.pixels, strict=True):
        if name != "z.gif":  # 256 colours
            assert np.array_equal(pixels.transpose(1, 2, 0), np.asarray(images[name])), name


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_as_exif_says(orientation: int, tmp_path: Path) -> None:
    upright = np.zeros((16, 16, 3), np.uint8)
    upright[:8, :8] = 255  # the upper left corner is white …
    upright[:8, 8:, 0] = 255  # … and the upper right one red
    stored = {  # how the camera held it: the transform that undoes what EXIF tells
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1], 5: upright.transpose(1, 0, 2),
        6: np.rot90(upright), 7: np.rot90(upright, 2).transpose(1, 0, 2), 8: np.rot90(upright, -1),
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(one(tmp_path), upright)


def test_what_is_told_makes_refused_files_usable(tmp_path: Path) -> None:
    frames = [picture(), picture()]
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], lossless=True)
    assert np.array_equal(one(tmp_path, first_frame=True), np.asarray(frames[0]))
    (tmp_path / "a.webp").unlink()
    pixels = np.full((6, 6, 4), 200, np.uint8)
    pixels[:3, :, 3], pixels[3:, :, 3] = 0, 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = one(tmp_path, background=7)
    assert (found[:3] == 7).all() and (found[3:] == 200).all()
    pixels[..., 3] = 255  # opaque everywhere: the alpha channel says nothing
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert (one(tmp_path) == 200).all()
    (tmp_path / "a.png").write_bytes(png(9500, 9500, 1, 0, (b"\0" + b"\xff" * 1188) * 9500))
    assert Image.MAX_IMAGE_PIXELS == 89_478_485
    assert (one(tmp_path, most_pixels=100_000_000, size=4) == 255).all()
    assert Image.MAX_IMAGE_PIXELS == 89_478_485  # the limit of others in this process is as it was


def test_cropping_and_resizing_do_what_pillow_does(tmp_path: Path) -> None:
    image = picture(20, 31)
    image.save(tmp_path / "a.png")
    whole = np.asarray(image)
    assert np.array_equal(one(tmp_path, crop="none"), whole)
    assert np.array_equal(one(tmp_path), whole[:, 5:25])
    assert np.array_equal(one(tmp_path, crop=10), whole[5:15, 10:20])
    resized = image.crop((5, 0, 25, 20)).resize((8, 8), Image.Resampling.BICUBIC)
    assert np.array_equal(one(tmp_path, size=8, resample="bicubic"), np.asarray(resized))
    assert np.array_equal(one(tmp_path, channels=1, crop="none")[..., 0], np.asarray(image.convert("L")))
    for options, words in (({"crop": 21}, "smaller than the crop of 21"), ({"crop": "none", "size": 8}, "not square")):
        with pytest.raises(UserError, match=rf"a\.png: is 20×31 .*{words}"):
            one(tmp_path, **options)


def test_celeba_is_a_folder_that_is_cropped_as_told(tmp_path: Path) -> None:
    for i in range(3):
        picture(218, 178).save(tmp_path / f"{i:06}.jpg")
    packed = pack(tmp_path, tmp_path / "out", crop=140, size=32)
    assert packed.pixels.shape == (3, 3, 32, 32) and packed.about["options"]["crop"] == 140
    pack(tmp_path, tmp_path / "again", crop=140, size=32)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "again").read_bytes()


def test_randomly_damaged_files_give_pixels_or_one_line() -> None:
    rng, formats = np.random.default_rng(1), ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
    whole = {}
    for name in formats:
        stream = io.BytesIO()
        picture(24, 24).save(stream, name)
        whole[name] = stream.getvalue()
    refused = 0
    for i in range(600):
        data = bytearray(whole[formats[i % 6]])
        for position in rng.integers(0, min(len(data), 300), size=4):
            data[position] = rng.integers(256)
        try:
            pixels = decode_bytes(bytes(data), "damaged", PackOptions(most_pixels=1_000_000))
            assert pixels.dtype == np.uint8 and pixels.shape[2] in (1, 3)
        except UserError as error:
            refused += 1
            assert str(error).startswith("damaged: ") and ";" in str(error)
    assert refused > 200
