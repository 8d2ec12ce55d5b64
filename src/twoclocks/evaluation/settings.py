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
    loss_rows: int = setting(512, "rows of each split on which the loss is measured", at_least=1, at_most=10**7)
    keep_samples: int = setting(2048, "decoded samples stored at every evaluation", at_least=0)
    keep_weights: int = setting(
        24, "evaluations, log-spaced among all, whose weights are stored for dissection; 0: none", at_least=0
    )
    seed: int = setting(0, "seed of the initial noise and of the loss's noise")
    features: FeatureSpace | None = setting(
        None,
        "feature space in which the quality of images is measured; none: the autoencoder",
        registry=FEATURES,
        added=True,
    )

    def check(self) -> None:
        if not self.quantization:
            raise SettingError("quantization", [], "give at least one distance, for example [0.5]")
