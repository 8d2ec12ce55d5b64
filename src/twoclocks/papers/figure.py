"""What a figure of a paper is: its runs, the data drawn from them, the drawing, and a caption with our numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from twoclocks.core.errors import UserError
from twoclocks.core.registry import Registry
from twoclocks.papers.claim import cells_of
from twoclocks.papers.records import Records
from twoclocks.papers.scales import Scale
from twoclocks.sweeps.grid import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Info = TypeVar("Info")


class MissingRunsError(UserError):
    """The runs of a figure have not been made."""


class PaperFigure(ABC, Generic[Info]):
    """A figure or table of a paper; register a subclass in a file of its own. A figure's drawing never computes."""

    id: ClassVar[str]  # such as fig2 or table4
    title: ClassVar[str]
    shows: ClassVar[str]  # what the paper's figure shows, in a sentence or two
    claims: ClassVar[tuple[str, ...]] = ()
    grids: ClassVar[tuple[str, ...]] = ()  # the runs that it needs; none for examples of data

    def cells(self, scale: Scale) -> list[Cell]:
        """The runs that it needs, each once."""
        return cells_of(self.grids, scale)

    @abstractmethod
    def data(self, records: Records) -> Info:
        """What is drawn, as plain arrays and numbers; MissingRunsError where no run can show anything."""

    @abstractmethod
    def draw(self, info: Info) -> Figure:
        """The figure, laid out like the paper's."""

    @abstractmethod
    def caption(self, info: Info) -> str:
        """What is seen, then the numbers with their seeds, then what chance or the paper says."""


FIGURES: Registry[PaperFigure[Any]] = Registry("figure", PaperFigure)
