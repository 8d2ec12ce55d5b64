"""The "Why" chapter: a drawing for every view of a dissection, one file a view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twoclocks.dissection import Dissection, Info
from twoclocks.report.drawings import (
    approach,
    basin,
    field,
    groups,
    positions,
    productions,
    raster,
    spectrum,
    trajectories,
)
from twoclocks.report.drawings.film import Film
from twoclocks.report.theme import style, themed_svg


@dataclass(frozen=True)
class Drawing:
    """How a view is shown."""

    title: str
    draw: Callable[[Any], Any]  # Info -> Figure
    film: Callable[[Any], Film | None] | None = None


DRAWINGS = {  # in the order of the page: what happens, how near it comes, why
    "raster": Drawing("The fate of every noise", raster.draw, raster.film),
    "approach": Drawing("The approach to the training set", approach.draw),
    "groups": Drawing("Known parts, new wholes", groups.draw),
    "productions": Drawing("Productions: as often and as independent as true samples", productions.draw),
    "spectrum": Drawing("The loss by noise scale, between exact floors", spectrum.draw),
    "field": Drawing("The field around a training sample", field.draw, field.film),
    "basin": Drawing("Basins: how far a training sample reaches", basin.draw),
    "trajectories": Drawing("Where on its way a sample is decided", trajectories.draw),
    "positions": Drawing("The loss by position", positions.draw),
}


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    figure: str  # SVG
    film: Film | None
    sentences: list[str]


@dataclass(frozen=True)
class WhyChapter:
    sections: list[Section]
    refused: dict[str, str]


def why_chapter(found: Dissection, salt: str) -> WhyChapter:
    """Everything that was seen, drawn; a view of another package, without a drawing here, as its sentences."""
    order = [name for name in (*DRAWINGS, *found.infos) if name in found.infos]
    sections = [section(name, found.infos[name], salt) for name in dict.fromkeys(order)]
    return WhyChapter(sections, found.refused)


def section(name: str, info: Info, salt: str) -> Section:
    import matplotlib

    drawing = DRAWINGS.get(name)
    if drawing is None:
        return Section(name, name, "", None, info.sentences())
    with matplotlib.rc_context(style()):
        figure = themed_svg(drawing.draw(info), salt=f"{salt}-{name}")
        film = drawing.film(info) if drawing.film is not None else None
    return Section(name, drawing.title, figure, film, info.sentences())
