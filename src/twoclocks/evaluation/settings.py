"""How often, and on how many samples, a run is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError
from twoclocks.evaluation.quality import FEATURES, FeatureSpace


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(Settings):
    """How often, and on how many samples, a run is evaluated."""

    samples: int = setting(
        2048, "samples generated at every evaluation, always from the same noise", at_least=1, at_most=10**9
    )
    evaluations: int = setting(80, "number of log-spaced evaluations", at_least=1, at_most=10**6)
    first: int = setting(10, "step of the first evaluation", at_least=1)
    steps: tuple[int, ...] | None = setting(None, "explicit steps in place of the log-spaced ones", at_least=0)
    quantization: tuple[float, ...] = setting((0.1, 0.2, 0.5), "distances beyond which a sample is invalid", above=0)
    copy_ratio: float = setting(
        1 / 3,
        "images: a sample is a copy if the nearest training image is nearer than this share of the second's distance",
        above=0,
        at_most=1,
        added=True,
    )
    copy_run: int = setting(
        64,
        "texts: a sample is a copy if so many of its tokens in a row occur in a training text; at most a whole text",
        at_least=1,
        added=True,
    )
    prompts: int = setting(
        0, "texts: so many training and held-out texts are continued from their first tokens", at_least=0, added=True
    )
    prefix: int = setting(32, "texts: tokens of a prompt", at_least=1, added=True)
    loss_rows: int = setting(512, "rows of each split on which the loss is measured", at_least=1, at_most=10**7)
    keep_samples: int = setting(2048, "decoded samples stored at every evaluation", at_least=0)
    keep_weights: int = setting(
        24, "evaluations, log-spaced among all, whose weights are stored for dissection; 0: none", at_least=0
    )
    seed: int = setting(0, "seed of the initial noise and of the loss's noise")
    features: FeatureSpace | None = setting(
        None,
        "feature space in which the quality of images is measured; none: pixels",
        registry=FEATURES,
        added=True,
    )

    def check(self) -> None:
        if not self.quantization:
            raise SettingError("quantization", [], "give at least one distance, for example [0.5]")
