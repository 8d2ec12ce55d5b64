"""Sizes of networks as a table (P1 Tables 1 and 3), counted from the networks themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from twoclocks.papers.figure import PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.curves import MODELS
from twoclocks.papers.two_clocks.panels import draw_table
from twoclocks.runs.presets import read_preset
from twoclocks.runs.settings import build_settings
from twoclocks.runs.size import weight_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ModelRow:
    """One network."""

    name: str
    width: int
    depth: int
    heads: int
    weights: int


@dataclass(frozen=True)
class ModelsInfo:
    """The data of the table."""

    rows: tuple[ModelRow, ...]


class ModelTable(PaperFigure[ModelsInfo]):
    """Networks of one family; no runs are needed."""

    family: ClassVar[str]  # how the names of its presets begin

    def data(self, records: Records) -> ModelsInfo:
        return ModelsInfo(tuple(model_row(preset) for preset in MODELS if preset.startswith(self.family)))

    def draw(self, info: ModelsInfo) -> Figure:
        rows = [
            [row.name, str(row.width), str(row.depth), str(row.heads), f"{row.weights / 1e6:.2f} M"]
            for row in info.rows
        ]
        return draw_table(["network", "width", "depth", "heads", "parameters"], rows, 5.2, [1.4, 1, 1, 1, 1.3])

    def caption(self, info: ModelsInfo) -> str:
        words = ", ".join(f"{row.name} {row.weights / 1e6:.3g} M" for row in info.rows)
        return (
            f"Sizes of the networks on 36 bits, parameters counted in the networks as they are trained: {words}. "
            "Width, depth and heads are the paper's; its parameter counts are not in the text that we have."
        )


def model_row(preset: str) -> ModelRow:
    """The network of a preset."""
    settings = build_settings(read_preset(preset), {})
    assert settings.encoding is not None
    model: Any = settings.model
    width, depth, heads = model.dimensions
    weights = weight_bytes(model, settings.encoding.shape(settings.rule), settings.rule.symbols) // 4  # in float32
    return ModelRow(MODELS[preset], width, depth, heads, weights)
