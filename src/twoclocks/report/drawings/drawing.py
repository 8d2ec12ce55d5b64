"""What a drawing is: the figure of one view, registered under the view's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

from twoclocks.core.registry import Registry
from twoclocks.report.drawings.film import Film

Figure: TypeAlias = Any  # a matplotlib.figure.Figure; matplotlib is imported only when something is drawn


class Drawing(ABC):
    """Draws the Info of the view that is registered under the same name in ``dissection.VIEWS``.

    A view of another package brings its own drawing: a subclass, registered with ``@DRAWINGS.register("name")`` in the
    module that registers the view, or in one that an entry point of the group ``twoclocks.drawings`` names.
    """

    title: ClassVar[str]  # heading of the section on the page
    order: ClassVar[int] = 1000  # sections are sorted by it, then by name; those of this package have 10 to 90

    @abstractmethod
    def draw(self, info: Any) -> Figure:
        """The figure of all that the Info holds; computes nothing."""

    def film(self, info: Any) -> Film | None:
        """One picture per checkpoint, where the change over training is worth it; by default none."""
        return None


DRAWINGS: Registry[Drawing] = Registry("drawing", Drawing)
