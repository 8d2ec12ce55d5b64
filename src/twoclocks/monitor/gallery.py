"""Figure of copies beside their originals: images, grids of symbols, or texts with the shared run marked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.errors import UserError
from twoclocks.core.theme import light, picture, style, symbol_colours
from twoclocks.monitor.criteria import Criterion, Matches, Verbatim
from twoclocks.monitor.gallery_text import marked_lines
from twoclocks.monitor.inputs import Values
from twoclocks.monitor.symmetries import image_axes, is_image
from twoclocks.monitor.training_set import TrainingSet
from twoclocks.store.files import write_atomic

PAIRS = 8  # most pairs that are drawn
FEW_SYMBOLS = 32  # integers with at most so many values are drawn in one colour each
WIDEST = 64  # entries of a row that is drawn as one line of cells
CELL = 0.95  # inches
TEXT_SIZE = 7.5  # points
MONOSPACE = 0.602  # width of a character of matplotlib's monospace font, as a part of its size


@dataclass(frozen=True)
class Pair:
    """A sample and the training row that it was matched with."""

    sample: Any  # (*shape,) or a text
    original: Any
    index: int  # of the sample
    row: int  # of the original, in the training set as it was given
    distance: float
    copied: bool

    @property
    def title(self) -> str:
        kind = "copy of" if self.copied else "nearest"
        return f"sample {self.index}\n{kind} {self.row} ({self.distance:.2g})"


@dataclass(frozen=True)
class Gallery:
    """Copies of one observation, nearest first; samples that are no copies follow where there is room."""

    step: int | None = None
    copied: int = 0
    samples: int = 0
    criterion: str = ""
    pairs: tuple[Pair, ...] = ()
    symbols: int = 0  # colours that a grid of integers needs; 0 for images and texts
    symmetric: bool = False  # whether a training row may have been matched in another form

    @classmethod
    def of(cls, step: int, samples: Any, matches: Matches, train: TrainingSet, criterion: Criterion) -> Gallery:
        """The pairs of an observation that are nearest."""
        known = np.flatnonzero(matches.rows >= 0)
        order = known[np.lexsort((matches.distances[known], ~matches.copied[known]))][:PAIRS]
        rows: Any = train.texts if train.kind == "texts" else train.values
        pairs = tuple(
            Pair(
                sample=criterion.shown(own(samples[i])),
                original=criterion.shown(nearest_form(train, own(rows[matches.rows[i]]), samples[i])),
                index=int(i),
                row=int(train.original[matches.rows[i]]),
                distance=float(matches.distances[i]),
                copied=bool(matches.copied[i]),
            )
            for i in order
        )
        symbols = 0
        if train.kind == "integers" and not isinstance(criterion, Verbatim):
            least = min(int(train.values.min()), int(np.min(samples)))
            most = max(int(train.values.max()), int(np.max(samples)))
            symbols = 1 + most if least >= 0 else 0
        found = int(matches.copied.sum())
        return cls(step, found, matches.trials, criterion.name, pairs, symbols, bool(train.symmetries))

    @property
    def sentence(self) -> str:
        """What the gallery shows, for a caption."""
        if self.step is None:
            return "Nothing was observed since this monitor was made or loaded."
        found = f"Step {self.step:,}: {self.copied} of {self.samples} samples are {self.criterion}."
        if not self.pairs:
            return f"{found} There is nothing to draw."
        if not any(pair.copied for pair in self.pairs):
            return f"{found} Shown: the samples that are nearest to a training row, which are no copies."
        forms = " Rows are shown in the form (as given, mirrored, …) that is nearest to the sample."
        shown = "Each sample stands above the training row that it was matched with; in brackets the distance."
        return f"{found} {shown}{forms if self.symmetric else ''}"

    def draw(self, path: Path | str | None = None, titled: bool = True) -> Any:
        """A matplotlib figure, also written to ``path``, if given; ``titled`` writes the sentence above it."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(style()):
            if self.pairs and is_text(self.pairs[0].sample):
                figure = draw_texts(self)
            elif self.pairs:
                figure = draw_pictures(self)
            else:
                figure = Figure(figsize=(5, 0.6))
            if titled:
                figure.suptitle(wrapped(self.sentence, 90), x=0.01, ha="left", fontsize=8.5)
            if path is not None:
                write_atomic(Path(path), picture_of(figure, Path(path).suffix))
        return figure


def picture_of(figure: Any, suffix: str) -> bytes:
    """A figure in the format of a file name's suffix, such as ``.png``."""
    kinds = figure.canvas.get_supported_filetypes()
    if suffix[1:].lower() not in kinds:
        raise UserError(f"path: a picture cannot be written as {suffix!r}; use one of {', '.join(sorted(kinds))}")
    return picture(figure, suffix[1:].lower(), bbox_inches="tight")


def own(values: Any) -> Any:
    """A copy: loops often change their samples in place."""
    return values if is_text(values) else np.array(values)


def nearest_form(train: TrainingSet, row: Any, sample: Any) -> Any:
    """A training row in the form, among those of declared symmetries, that is nearest to a sample."""
    if not train.symmetries:
        return row
    forms = [row, *(np.asarray(symmetry(row[None]))[0] for symmetry in train.symmetries)]
    return min(forms, key=lambda form: float(np.square(form.astype(np.float64) - sample).sum()))


def is_text(sample: Any) -> bool:
    return isinstance(sample, str | tuple)


def wrapped(sentence: str, width: int) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(sentence, width))


def draw_pictures(gallery: Gallery) -> Any:
    """Samples in the upper row, their originals below; entries of a grid that differ are framed."""
    from matplotlib.figure import Figure

    pairs = gallery.pairs
    figure = Figure(figsize=(max(4.5, CELL * len(pairs)), 2 * CELL + 0.9), layout="constrained")
    axes = figure.subplots(2, len(pairs), squeeze=False)
    span = pixel_range(pairs)
    for column, pair in enumerate(pairs):
        for place, values in zip(axes[:, column], (pair.sample, pair.original), strict=True):
            draw_picture(place, np.asarray(values), gallery.symbols, span)
        axes[0, column].set_title(pair.title, fontsize=6.5, color=light("memory" if pair.copied else "muted"))
        if 0 < gallery.symbols <= FEW_SYMBOLS:
            frame_differences(axes[0, column], as_picture(pair.sample), as_picture(pair.original))
    for place, word in zip(axes[:, 0], ("sample", "training row"), strict=True):
        place.set_ylabel(word, fontsize=7.5)
    return figure


def pixel_range(pairs: tuple[Pair, ...]) -> tuple[float, float]:
    """Least and greatest value of the originals: black and white of all pictures."""
    values = np.stack([np.asarray(pair.original, dtype=np.float64) for pair in pairs])
    return float(values.min()), float(max(values.max(), values.min() + 1e-9))


def as_picture(values: Any) -> Values:
    """One row as an image (H, W) or (H, W, 3); a row of entries is folded where it is long."""
    array = np.asarray(values)
    if array.ndim > 3 or (array.ndim == 3 and not is_image(array.shape)):
        return array.reshape(array.shape[0], -1)  # features or latents: one line per channel
    if array.ndim == 3:
        height, width = (axis - 1 for axis in image_axes(array.shape))
        array = np.moveaxis(array, (height, width), (0, 1))
        return array if array.shape[2] == 3 else array.mean(2)
    if array.ndim == 2:
        return array
    row = array.ravel()
    columns = min(len(row), WIDEST) if len(row) <= WIDEST else int(np.ceil(np.sqrt(len(row))))
    folded = np.full(-(-len(row) // columns) * columns, row.min() if len(row) else 0, dtype=row.dtype)
    folded[: len(row)] = row
    return folded.reshape(-1, columns)


def draw_picture(place: Any, values: Values, symbols: int, span: tuple[float, float]) -> None:
    """One image or grid on an axis."""
    from matplotlib.colors import ListedColormap

    picture = as_picture(values)
    if 0 < symbols <= FEW_SYMBOLS:
        colours = ListedColormap(symbol_colours(max(symbols, 2)))
        place.imshow(picture, cmap=colours, vmin=0, vmax=max(symbols, 2) - 1, interpolation="nearest", aspect="auto")
    else:
        low, high = span
        shown = np.clip((picture.astype(np.float64) - low) / (high - low), 0, 1)
        place.imshow(shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    place.set(xticks=[], yticks=[])
    place.grid(False)


def frame_differences(place: Any, sample: Values, original: Values) -> None:
    """Frame the entries of a sample that differ from its original."""
    from matplotlib.patches import Rectangle

    for y, x in np.argwhere(sample != original):
        frame = Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=light("memory"), linewidth=1.2)
        place.add_patch(frame)


def draw_texts(gallery: Gallery) -> Any:
    """Each sample above its training text; tokens that differ are marked."""
    from matplotlib.figure import Figure

    blocks = [marked_lines(pair.sample, pair.original) for pair in gallery.pairs]
    rows = sum(len(block) + 1 for block in blocks) + 1
    heights = 0.5, 0.17 * rows  # inches of the title and of the texts
    figure = Figure(figsize=(9, sum(heights)))
    place = figure.add_axes((0.01, 0.0, 0.98, heights[1] / sum(heights)))
    place.set_axis_off()
    width = 9 * 0.98 * 72 / (MONOSPACE * TEXT_SIZE)  # characters that fit into a line
    place.set(xlim=(0, width), ylim=(rows, 0))
    y = 1.0
    for pair, block in zip(gallery.pairs, blocks, strict=True):
        title = pair.title.replace("\n", ", ")
        place.text(0, y, title, fontsize=TEXT_SIZE, color=light("memory" if pair.copied else "muted"), weight="bold")
        for line in block:
            y += 1
            for x, text, marked in line:
                colour = light("memory") if marked else light("ink")
                place.text(x, y, text, fontsize=TEXT_SIZE, family="monospace", color=colour)
        y += 1
    return figure
