"""SVG of matplotlib in a compact form: half of its markup names things that nothing refers to."""

from __future__ import annotations

import base64
import io
import re
from html import escape

TAG = re.compile(r"<[^>]*>")
_NUMBER = re.compile(r"(?<![\w.#-])-?\d+\.\d{3,}(?:e-?\d+)?")
_REFERENCE = re.compile(r'(?:href="|url\()#([^")]+)')
_ID = re.compile(r' id="([^"]*)"')
_BARE_GROUP = re.compile(r"<g>((?:(?!</?g[ >]).)*)</g>", re.DOTALL)
_FONTS = re.compile(r"font-family:([^;\"]*);?")
_STYLE = re.compile(r' style="([^"]*)"')
_PICTURE = re.compile(r"data:image/png;base64,([^\"]*)")
_PLACES = re.compile(r'd="([^"]*)"')
_SAME_PATHS = re.compile(r'<path d="[^"]*"([^>]*)/>(?:<path d="[^"]*"\1/>)+')
_SAME_MARKS = re.compile(
    r'<use xlink:href="[^"]*" x="[^"]*" y="[^"]*"( [^>]+)/>(?:<use xlink:href="[^"]*" x="[^"]*" y="[^"]*"\1/>)+'
)
_WIDTH = re.compile(r'width="([\d.]+)pt"')
_SPACE_BETWEEN = re.compile(r">\s+<")
PANEL = "panel"  # ids that begin so are kept: the page's script finds the axes by them


def compact_svg(svg: str, decimals: int = 2, colours: int = 256) -> str:
    """The same drawing in fewer bytes: rounded places, no empty groups, no ids without a reference, one font.

    Pictures inside become pictures with a palette of at most ``colours``.

    >>> compact_svg('<svg><g id="a">\\n <path d="M 1.23456 2.0 \\nL 3 4 \\nz\\n"/></g></svg>')
    '<svg><path d="M1.23 2L3 4z"/></svg>'
    """
    referenced = set(_REFERENCE.findall(svg))

    def shorter(tag: re.Match[str]) -> str:
        found = tag.group()
        if found.startswith(("<!--", "<?")):
            return ""
        if "data:image/png" in found:
            found = _PICTURE.sub(lambda data: with_palette(data.group(1), colours), found)
            before, data, after = re.split(r'("data:image/png[^"]*")', found, maxsplit=1)
            return rounded(before, decimals) + data + rounded(after, decimals)
        found = _ID.sub(lambda name: name.group() if is_kept(name.group(1), referenced) else "", found)
        return rounded(re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", found), decimals)

    found = _SPACE_BETWEEN.sub("><", TAG.sub(shorter, svg))
    while (less := _BARE_GROUP.sub(r"\1", found)) != found:
        found = less
    found = _SAME_PATHS.sub(one_path, found)
    found = _SAME_MARKS.sub(lambda marks: f"<g{marks.group(1)}>{marks.group().replace(marks.group(1), '')}</g>", found)
    return with_short_ids(with_one_font(found))


def one_path(paths: re.Match[str]) -> str:
    """Neighbouring paths of the same style as one; not where they are transparent, since they may overlap."""
    style = paths.group(1)
    if "opacity" in style:
        return paths.group()
    return f'<path d="{"".join(_PLACES.findall(paths.group()))}"{style}/>'


def with_short_ids(svg: str) -> str:
    """Short names for what the drawing refers to."""
    names = dict.fromkeys(_REFERENCE.findall(svg))
    for number, name in enumerate(names):
        for before, after in (('id="', '"'), ('href="#', '"'), ("url(#", ")")):
            svg = svg.replace(f"{before}{name}{after}", f"{before}{number}{after}")
    return svg.replace("xlink:href", "href")


def is_kept(name: str, referenced: set[str]) -> bool:
    """Whether something refers to this id: the drawing itself, or the page's script."""
    return name in referenced or name.startswith(PANEL)


def rounded(tag: str, decimals: int) -> str:
    """A tag with its numbers rounded, and without spaces that mean nothing."""

    def short(number: re.Match[str]) -> str:
        text = f"{float(number.group()):.{decimals}f}".rstrip("0").rstrip(".")
        return "0" if text in ("-0", "") else text

    if "scale(" in tag or "matrix(" in tag:  # they multiply what is inside
        decimals = max(decimals, 4)
    found = _NUMBER.sub(short, re.sub(r"\s+", " ", tag)).replace(".0 ", " ")
    found = re.sub(r"\s*([MLQCzZ])\s*(?=[-\d\"MLQCzZ])", r"\1", found) if " d=" in found else found
    return re.sub(r"([:;]) ", r"\1", found)


def with_one_font(svg: str) -> str:
    """The font of the first text, for all texts that have the same, at the root."""
    first = _FONTS.search(svg)
    if first is None:
        return svg
    font = first.group(1).strip()

    def without(style: re.Match[str]) -> str:
        left = _FONTS.sub(lambda one: "" if one.group(1).strip() == font else one.group(), style.group(1)).strip("; ")
        return f' style="{left}"' if left else ""

    return _STYLE.sub(without, svg).replace("<svg", f'<svg style="font-family:{font}"', 1)


def with_palette(data: str, colours: int) -> str:
    """A PNG (base64) as a data address, with a palette where that is smaller."""
    from PIL import Image  # matplotlib draws with it

    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    opaque = "A" not in picture.mode or picture.getchannel("A").getextrema() == (255, 255)
    stream = io.BytesIO()
    small = picture.convert("RGB").quantize(colours) if opaque else picture.quantize(colours, Image.Quantize.FASTOCTREE)
    small.save(stream, format="PNG", optimize=True)
    written = base64.b64encode(stream.getvalue()).decode()
    return f"data:image/png;base64,{min(written, data, key=len)}"


def svg_width(svg: str) -> int:
    """The width of a drawing at its own size, in pixels of CSS."""
    found = _WIDTH.search(svg)
    return round(float(found.group(1)) * 4 / 3) if found is not None else 640


def labelled_svg(svg: str, label: str) -> str:
    """The drawing as one image for screen readers, which read its label; without a label they skip it."""
    words = " ".join(label.split())
    role = f'role="img" aria-label="{escape(words)}"' if words else 'aria-hidden="true"'
    return svg.replace("<svg", f"<svg {role}", 1)
