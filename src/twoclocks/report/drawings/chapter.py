"""The "Why" chapter of a page: one section per view, with its figure, film and sentences."""

from __future__ import annotations

from dataclasses import dataclass

from twoclocks.core.theme import style
from twoclocks.dissection import Dissection, Info
from twoclocks.report.drawings.drawing import DRAWINGS
from twoclocks.report.drawings.film import Film
from twoclocks.report.plot import plot


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    figure: str  # empty for a view without a drawing
    film: Film | None
    sentences: list[str]


@dataclass(frozen=True)
class WhyChapter:
    sections: list[Section]
    refused: dict[str, str]  # view: reason


def why_chapter(found: Dissection, salt: str) -> WhyChapter:
    """All views that were measured, in the order of their drawings; those without a drawing last, as sentences."""
    drawn = {name: drawing.order for name, drawing in DRAWINGS.items()}
    names = sorted(found.infos, key=lambda name: (name not in drawn, drawn.get(name, 0), name))
    return WhyChapter([section(name, found.infos[name], salt) for name in names], found.refused)


def section(name: str, info: Info, salt: str) -> Section:
    """The section of one view; ``salt`` keeps the ids of several figures on a page apart."""
    import matplotlib

    if name not in DRAWINGS.names():
        return Section(name, name, "", None, info.sentences())
    drawing = DRAWINGS.get(name)()
    sentences = info.sentences()
    with matplotlib.rc_context(style()):
        figure = plot(drawing.draw(info), f"{salt}-{name}", f"{drawing.title}. {' '.join(sentences)}")
        film = drawing.film(info)
    return Section(name, drawing.title, figure, film and film.named(f"{salt}-{name}-film"), sentences)
