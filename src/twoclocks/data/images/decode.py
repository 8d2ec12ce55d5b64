"""One image file as an array: 8 bits per channel, upright, one frame. What would have to be guessed is refused."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.errors import UserError
from twoclocks.core.packed_images import Pixels
from twoclocks.core.reading import read_file
from twoclocks.core.text import show
from twoclocks.data.images.extras import need
from twoclocks.data.images.options import PackOptions

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
SUFFIXES = (".png", ".apng", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
MOST_BYTES = 1 << 30  # of one file
BITS_PER_SAMPLE = 258  # a TIFF tag
GREY, COLOUR = ("1", "L", "LA", "La"), ("P", "PA", "RGB", "RGBA", "RGBa")


def decode_file(path: Path, options: PackOptions) -> Pixels:
    """The pixels (height, width, 1 or 3) of an image file; UserError with the file and the fix if it is unusable."""
    data = read_file(path, MOST_BYTES, fix="restore the file, or leave it out with --skip-bad")
    if not data:
        raise UserError(f"{path}: is empty (0 bytes); restore the file, or leave it out with --skip-bad")
    return decode_bytes(data, str(path), options)


def decode_bytes(data: bytes, name: str, options: PackOptions) -> Pixels:
    """The same for the content of a file."""
    pil = need("PIL.Image", "Pillow")
    with decoding(name, options):
        if data.startswith(b"\x89PNG"):
            with pil.open(io.BytesIO(data), formats=FORMATS) as image:
                image.verify()  # the checksum of every chunk; decoding alone does not look at all of them
        with pil.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_bits(data, image, name)
            return decode_image(image, name, options)


@contextmanager
def decoding(name: str, options: PackOptions) -> Iterator[None]:
    """Pillow's limit is ours for a while, and whatever a hostile file makes it raise becomes one line."""
    pil = need("PIL.Image", "Pillow")
    before, pil.MAX_IMAGE_PIXELS = pil.MAX_IMAGE_PIXELS, options.most_pixels
    own_log, silent = logging.getLogger("PIL"), logging.NullHandler()  # it repeats in other words what it raises
    propagate, own_log.propagate = own_log.propagate, False
    own_log.addHandler(silent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pil.DecompressionBombWarning)
            yield
    except (UserError, MemoryError):
        raise
    except (pil.DecompressionBombError, pil.DecompressionBombWarning):
        fix = "remove it, leave it out with --skip-bad, or raise --most-pixels if you trust it"
        raise UserError(f"{name}: has more than {options.most_pixels:,} pixels; {fix}") from None
    except pil.UnidentifiedImageError:
        fix = f"use {', '.join(FORMATS)}, or leave it out with --skip-bad"
        raise UserError(f"{name}: is no image that can be read; {fix}") from None
    except Exception as error:  # decoders raise anything: OSError, SyntaxError, struct.error, IndexError, …
        reason = show(error) or type(error).__name__
        raise UserError(f"{name}: cannot be decoded ({reason}); restore it, or leave it out with --skip-bad") from None
    finally:
        pil.MAX_IMAGE_PIXELS, own_log.propagate = before, propagate
        own_log.removeHandler(silent)


def _check_bits(data: bytes, image: Any, name: str) -> None:
    """Refuse more than 8 bits per channel, which Pillow cuts without a word where there are three channels."""
    bits: tuple[int, ...] = (8,)
    if image.format == "PNG":
        bits = (data[24],)  # of the IHDR chunk, which is always the first
    elif image.format == "TIFF":
        found = image.tag_v2.get(BITS_PER_SAMPLE, 8)
        bits = tuple(found) if isinstance(found, tuple) else (int(found),)
    if max(bits) > 8:
        raise UserError(f"{name}: has {max(bits)} bits per channel; convert it to 8 bits, or use --skip-bad")


def decode_image(image: Any, name: str, options: PackOptions) -> Pixels:
    """The pixels of an open Pillow image."""
    if getattr(image, "is_animated", False) and not options.first_frame:
        raise UserError(f"{name}: has several frames; use --first-frame to take the first, or --skip-bad")
    if image.mode not in (*GREY, *COLOUR):
        fix = "convert it to RGB or grey with 8 bits, or leave it out with --skip-bad"
        raise UserError(f"{name}: has the mode {image.mode}, which is neither RGB nor grey with 8 bits; {fix}")
    upright = need("PIL.ImageOps", "Pillow").exif_transpose(image)
    grey = image.mode in GREY
    if "A" in upright.mode.upper() or "transparency" in upright.info:
        upright = _on_background(upright.convert("RGBA"), name, options)
    pixels: Pixels = np.array(upright.convert("L" if grey else "RGB"))
    return pixels.reshape(*pixels.shape[:2], -1)


def _on_background(image: Any, name: str, options: PackOptions) -> Any:
    """Without the alpha channel: dropped where everything is opaque, else blended with the chosen background."""
    if image.getchannel("A").getextrema() == (255, 255):
        return image.convert("RGB")
    if options.background is None:
        fix = "say what is behind them with --background 255 (white), or use --skip-bad"
        raise UserError(f"{name}: has transparent pixels; {fix}")
    pil = need("PIL.Image", "Pillow")
    behind = pil.new("RGBA", image.size, (*[options.background] * 3, 255))
    return pil.alpha_composite(behind, image).convert("RGB")
