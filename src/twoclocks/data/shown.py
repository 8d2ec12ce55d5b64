"""What a step shows of the training set: its rows as they are, changed ones, or at first the rows of an easier set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from twoclocks.core.lazy import torch

if TYPE_CHECKING:
    from torch import Generator, Tensor

# A batch (n, *shape) as it is shown, with random numbers of the step; what it does must fit into a CUDA graph.
Change: TypeAlias = "Callable[[Tensor, Generator], Tensor]"


@dataclass(frozen=True, eq=False)
class Shown:
    """Encoded training rows, and what happens to them whenever a step shows them.

    ``easier``: as many rows of an easier set, which the first ``easier_steps`` steps show instead (a curriculum).
    """

    rows: Tensor  # (N, *shape)
    changes: tuple[Change, ...] = ()
    easier: Tensor | None = None  # (N, *shape)
    easier_steps: int = 0
    is_easier: Tensor = field(init=False)  # where a CUDA graph reads whether the easier rows are shown

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_easier", torch.zeros((), dtype=torch.bool, device=self.rows.device))

    def begin(self, step: int) -> None:
        """Prepare step 1, 2, …; to be called outside of a CUDA graph."""
        if self.easier is not None:
            self.is_easier.fill_(step <= self.easier_steps)

    def batch(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        """The chosen rows (batch,) as this step shows them: (batch, *shape)."""
        clean = self.rows[chosen]
        if self.easier is not None:
            clean = torch.where(self.is_easier, self.easier[chosen], clean)
        for change in self.changes:
            clean = change(clean, generator)
        return clean
