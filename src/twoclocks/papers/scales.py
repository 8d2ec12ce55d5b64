"""Scales of a reproduction: the same figures from runs of seconds, of minutes, or as long as the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
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

    Rules stay as they are in the paper. Small scales replace the network and how it is trained, and take fewer values
    on every axis.
    """

    name: str
    about: str
    most_values: int  # of one axis
    most_seeds: int
    sizes_instead: tuple[int, ...] = ()  # numbers of training samples in place of the paper's
    copied_sizes_instead: tuple[int, ...] = ()  # the same for runs of diffusion until τ_mem, which is later than GPT's
    networks: Mapping[str, Network] = field(default_factory=dict)  # by size: in place of the paper's
    width: int | None = None  # in place of that of networks without named sizes
    change: Mapping[str, Any] = field(default_factory=dict)  # laid over the settings of every run
    by_objective: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # the same, for one kind of model
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
        return self._replaced(values, self.sizes_instead)

    def copied_sizes(self, values: Sequence[int]) -> tuple[int, ...]:
        """The same for runs of diffusion that are to reach τ_mem. Where GPT is compared with it, both have ``sizes``.

        >>> SCALES["desk"].copied_sizes((4096,)), SCALES["desk"].copied_sizes((256, 1024))
        ((32,), (8, 16))
        """
        return self._replaced(values, self.copied_sizes_instead or self.sizes_instead)

    def _replaced(self, values: Sequence[int], instead: tuple[int, ...]) -> tuple[int, ...]:
        if not instead:
            return self.thinned(values)
        return instead[: len(values)] if len(values) > 1 else (instead[-2],)

    def seeds(self, count: int) -> range:
        """Seeds of the initial weights and batches."""
        return range(min(count, self.most_seeds))

    def cell(
        self,
        preset: str,
        point: Mapping[str, Any],
        shared: Mapping[str, Any] | None = None,
        length: int | None = None,
    ) -> Cell:
        """A run of a preset; ``point`` and ``shared`` change settings by dotted name. It is called like its preset.

        ``length``: its steps at every scale without steps of its own, for runs whose length no paper gives.
        """
        base = preset_mapping(preset)
        small = merge(nested(self.change), self.network(base["model"]))
        small = merge(small, self.by_objective.get(base["objective"]["name"], {}))
        shared = {key: value for key, value in (shared or {}).items() if key not in self.left_out}
        shared |= {} if length is None else {"training.steps": length}
        change = merge(merge(merge(nested(shared), small), nested(point)), {"name": preset})
        settings = build_settings(merge(base, {"training": {"threads": 1}}), change)
        return Cell(settings.key(), dict(point), settings)

    def network(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """The size that a small scale puts in place of a network's."""
        if not self.networks:
            return {}
        if "size" not in model:
            return {"model": {"width": self.width}}
        width, depth, heads = self.networks[model["size"]]
        return {"model": {"width": width, "depth": depth, "heads": heads}}


@cache
def preset_mapping(name: str) -> Mapping[str, Any]:
    """The settings of a preset as its file has them; hundreds of runs share one, and parsing takes milliseconds."""
    return read_preset(name)


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
    "training": {"device": "cpu", "precision": "float32"},
    "evaluation": {
        **{"steps": None, "evaluations": 24, "first": 30, "samples": 512, "loss_rows": 128},
        **{"keep_samples": 512, "keep_weights": 12},
    },
    "clocks": {"stop": "never"},
}
_DESK_DIT = {
    "training": {"steps": 8_000, "batch": 32, "learning_rate": 2e-3},
    "evaluation": {"evaluations": 20, "first": 200},
    # Noise levels where pairs and training samples are told apart: with P1's (ln σ of -1.2 ± 1.2) neither clock is seen
    # in minutes.
    "objective": {"log_sigma_mean": 0.4, "log_sigma_std": 0.9, "sampler_steps": 18},
}
# At a rate of 1e-3, one run fell from 100% valid samples to almost none at step 2,456, and recovered.
_DESK_GPT = {"training": {"steps": 3_000, "batch": 64, "learning_rate": 5e-4}}
# A network of this width has 13% copies of 256 strings at step 6,000.
_DESK_GRAMMAR = {"training": {"steps": 8_000}, "objective": {"sampler_levels": 100}}

# The preset images-small, which has this network, has 80% copies of 64 digits at step 2,500.
_DESK_IMAGES = {
    "model": {"width": 24, "multipliers": [1, 2], "blocks": 1, "heads": 2},
    "training": {"steps": 3_000, "batch": 32, "learning_rate": 1e-3},
    "objective": {"sampler_levels": 30},
}

_DESK_TEXT = {"training": {"steps": 3_000, "batch": 32}, "objective": {"sampler_levels": 64}}

SMOKE = Scale(
    name="smoke",
    about="runs of six steps: shows that everything works, and nothing else",
    most_values=2,
    most_seeds=1,
    sizes_instead=(8, 16),
    networks={"nano": (8, 1, 1), "mini": (8, 2, 1), "S": (8, 3, 1), "B": (16, 2, 1)},
    width=8,
    change=_SMOKE,
    by_objective={
        "edm": {"objective": {"sampler_steps": 3}},
        "d3pm": {"objective": {"sampler_levels": 4}},
        "ddpm": {"objective": {"sampler_levels": 3}},
        "masked": {"objective": {"sampler_levels": 4}},
    },
)
DESK = Scale(
    name="desk",
    # Measured, one seed each: DiT-mini learns G = 2 at N = 32 by step 945. At G = 3, N = 128 it has no valid samples by
    # step 4,832 (with ln σ of 0.4 ± 0.8).
    about="small networks on two CPU cores, not the paper's numbers: GPT learns triples; DiT learns pairs, not triples",
    most_values=3,
    most_seeds=3,  # with fewer, no claim can be reproduced, and A20 has nothing to judge
    # Four, since a law needs so many; an 8-fold range, over which A4 compares. GPT-mini copies from step 500 at N = 64
    # on, before 90% of its samples are valid; at N = 128 they are from step 332 on, and copies come from step 739 on.
    sizes_instead=(32, 64, 128, 256),
    copied_sizes_instead=(8, 16, 32, 64),  # DiT-mini copies from step 1,400 at N = 16 on
    networks={"nano": (32, 2, 2), "mini": (48, 3, 3), "S": (48, 6, 3), "B": (64, 6, 4)},
    width=128,
    change=_DESK,
    by_objective={
        **{"edm": _DESK_DIT, "autoregressive": _DESK_GPT, "d3pm": _DESK_GRAMMAR, "ddpm": _DESK_IMAGES},
        "masked": _DESK_TEXT,
    },
)
GPU = Scale("gpu", "the paper's networks on one GPU, each run until its clocks are read: the campaign", 100, 100)
PAPER = Scale(
    name="paper",
    about="the same networks and data, every run to the paper's last step",
    most_values=100,
    most_seeds=100,
    left_out=("training.steps", "evaluation.steps", "clocks.stop", "clocks.above_chance"),
)
SCALES: dict[str, Scale] = {scale.name: scale for scale in (SMOKE, DESK, GPU, PAPER)}


def scale_named(name: str) -> Scale:
    if name not in SCALES:
        raise UnknownNameError("--scale", name, SCALES)
    return SCALES[name]
