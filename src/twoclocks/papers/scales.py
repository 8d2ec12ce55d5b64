"""Scales of a reproduction: the same figures from runs of seconds, of minutes, or as long as the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from twoclocks.core.config import merge, nested
from twoclocks.core.errors import UnknownNameError
from twoclocks.runs.presets import read_preset
from twoclocks.runs.settings import build_settings
from twoclocks.sweeps.grid import Cell

T = TypeVar("T")
Network = tuple[int, int, int]  # width, depth, heads


@dataclass(frozen=True)
class Scale:
    """How large the runs of a reproduction are, and how many.

    Rules stay as they are in the paper. Small scales replace the network, and take fewer values on every axis.
    """

    name: str
    about: str
    most_values: int  # of one axis
    most_seeds: int
    sizes_instead: tuple[int, ...] = ()  # numbers of training samples in place of the paper's
    networks: Mapping[str, Network] = field(default_factory=dict)  # by size: in place of the paper's
    change: Mapping[str, Any] = field(default_factory=dict)  # laid over the settings of every run
    left_out: tuple[str, ...] = ()  # settings that cells share and this scale does not take: the preset's are used

    def thinned(self, values: Sequence[T]) -> tuple[T, ...]:
        """At most ``most_values`` of the values, evenly spaced, with the first and the last.

        >>> SCALES["smoke"].thinned((2, 3, 4, 6, 9, 12, 18, 36))
        (2, 36)
        """
        most = min(self.most_values, len(values))
        if most < 2:
            return tuple(values[:most])
        places = [round(k * (len(values) - 1) / (most - 1)) for k in range(most)]
        return tuple(values[place] for place in places)

    def sizes(self, values: Sequence[int]) -> tuple[int, ...]:
        """Numbers of training samples; small scales have few, since τ_mem grows with them.

        A single one is the largest but one: at the smallest N copying comes before the rule, and there is no window.

        >>> SCALES["desk"].sizes((4096,)), SCALES["desk"].sizes((256, 1024)), SCALES["gpu"].sizes((256, 1024))
        ((128,), (32, 64), (256, 1024))
        """
        instead = self.sizes_instead
        if not instead:
            return self.thinned(values)
        return instead[: len(values)] if len(values) > 1 else (instead[-2],)

    def seeds(self, count: int) -> range:
        """Seeds of the initial weights and batches."""
        return range(min(count, self.most_seeds))

    def cell(self, preset: str, point: Mapping[str, Any], shared: Mapping[str, Any] | None = None) -> Cell:
        """A run of a preset; ``point`` and ``shared`` change settings by dotted name. It is called like its preset."""
        base = read_preset(preset)
        small: dict[str, Any] = dict(nested(self.change))
        if self.networks:
            width, depth, heads = self.networks[base["model"]["size"]]
            small["model"] = {"width": width, "depth": depth, "heads": heads}
            if base["objective"]["name"] == "edm":
                small = merge(small, {"objective": {"sampler_steps": 3 if self.name == "smoke" else 18}})
        shared = {key: value for key, value in (shared or {}).items() if key not in self.left_out}
        change = merge(merge(merge(nested(shared), small), nested(point)), {"name": preset})
        settings = build_settings(merge(base, {"training": {"threads": 1}}), change)
        return Cell(settings.key(), dict(point), settings)


# Samples that show nothing: the clocks of such runs are never read with confidence.
_SMOKE = {
    "training": {"steps": 6, "batch": 8, "device": "cpu", "precision": "float32"},
    "evaluation": {
        **{"steps": [0, 2, 4, 6], "evaluations": 4, "first": 2},
        **{"samples": 64, "loss_rows": 16, "keep_samples": 64, "keep_weights": 4},
    },
    "clocks": {"confidence": 0, "sustain": 1, "above_chance": True, "stop": "never"},
}
_DESK = {
    "training": {"steps": 3_000, "batch": 64, "learning_rate": 1e-3, "device": "cpu", "precision": "float32"},
    "evaluation": {
        **{"evaluations": 24, "first": 30, "samples": 512, "loss_rows": 128},
        **{"keep_samples": 512, "keep_weights": 12},
    },
    "clocks": {"stop": "never"},
}

SMOKE = Scale(
    name="smoke",
    about="runs of six steps: shows that everything works, and nothing else",
    most_values=2,
    most_seeds=1,
    sizes_instead=(8, 16),
    networks={"nano": (8, 1, 1), "mini": (8, 2, 1), "S": (8, 3, 1), "B": (16, 2, 1)},
    change=_SMOKE,
)
DESK = Scale(
    name="desk",
    # Measured: DiT-mini at G = 3, N = 32 is at the loss of the cube oracle at step 3,000, with no valid samples.
    about="small networks on two CPU cores: both clocks of GPT, not the paper's numbers; DiT learns no triples yet",
    most_values=3,
    most_seeds=3,  # with fewer, no claim can be reproduced, and A20 has nothing to judge
    # Four, since a law needs so many; an 8-fold range, over which A4 compares. GPT-mini copies from step 300 at N = 32
    # on, so that it should do so by step 3,000 at each of them.
    sizes_instead=(32, 64, 128, 256),
    networks={"nano": (32, 2, 2), "mini": (48, 3, 3), "S": (48, 6, 3), "B": (64, 6, 4)},
    change=_DESK,
)
GPU = Scale("gpu", "the paper's networks on one GPU, each run until its clocks are read: the campaign", 100, 100)
PAPER = Scale(
    name="paper",
    about="the same networks and data, every run to the paper's last step",
    most_values=100,
    most_seeds=100,
    left_out=("training.steps", "clocks.stop", "clocks.above_chance"),
)
SCALES: dict[str, Scale] = {scale.name: scale for scale in (SMOKE, DESK, GPU, PAPER)}


def scale_named(name: str) -> Scale:
    if name not in SCALES:
        raise UnknownNameError("--scale", name, SCALES)
    return SCALES[name]
