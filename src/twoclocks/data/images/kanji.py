"""Kanji rendered from a font: a large set of clean grey images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from twoclocks.core.errors import UserError
from twoclocks.core.packed_images import Pixels
from twoclocks.data.images.extras import need
from twoclocks.data.images.options import PackOptions
from twoclocks.data.images.pack import Item, Source

SIDE = 32  # pixels, unless another size is asked for
HAN = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x323B0))  # blocks of CJK ideographs


def kanji_source(font: Path, options: PackOptions) -> Source:
    """Every Han character that a font has, white on black, as large as its square allows; in order of code points.

    The pixels depend a little on the version of FreeType, which draws them.
    """
    side = options.size or SIDE
    try:
        charmap = need("matplotlib.ft2font", "matplotlib").FT2Font(str(font)).get_charmap()
        drawn = need("PIL.ImageFont", "Pillow").truetype(str(font), side)
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{font}: is no font that can be read ({error}); name another file with --from") from None
    codes = sorted(code for code in charmap if any(low <= code < high for low, high in HAN))
    if not codes:
        raise UserError(f"{font}: has no Han characters; name a font such as NotoSansCJK-Regular.ttc with --from")
    pil, draw = need("PIL.Image", "Pillow"), need("PIL.ImageDraw", "Pillow")

    def render(text: str) -> Pixels:
        image = pil.new("L", (side, side))
        draw.Draw(image).text((side / 2, side / 2), text, fill=255, font=drawn, anchor="mm")
        return np.array(image)[..., None]

    def items() -> Iterator[Item]:
        for code in codes:
            yield Item(f"U+{code:04X}", partial(render, chr(code)))

    return Source(f"Han characters of {font.name}, {side}×{side}", len(codes), items())
