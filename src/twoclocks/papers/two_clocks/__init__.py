"""P1, "The two clocks and the innovation window": a recipe a claim."""

from twoclocks.papers.two_clocks import law, order

__all__ = ["law", "order"]
