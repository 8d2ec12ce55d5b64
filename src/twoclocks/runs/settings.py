"""All settings of one run; each section is defined beside the component that reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.arguments import as_overrides
from twoclocks.core.config import Settings, build, merge, setting, to_mapping
from twoclocks.core.errors import SettingError
from twoclocks.core.registry import Registry
from twoclocks.data.encodings import ENCODINGS, Encoding, default_encoding
from twoclocks.data.settings import DataSettings
from twoclocks.evaluation.settings import EvaluationSettings
from twoclocks.models.base import MODELS, ModelSettings
from twoclocks.objectives.base import OBJECTIVES, Objective
from twoclocks.rules.base import RULES, Rule
from twoclocks.runs.presets import DEFAULT_PRESET, read_preset
from twoclocks.store.checksums import settings_digest, without_labels
from twoclocks.training.loop import TrainingSettings
from twoclocks.training.schedule import check_schedule, log_spaced, thinned

FOR_IMAGES = ("pixels", "tokens")  # encodings that keep the channels of an image, or read its values one by one


@dataclass(frozen=True, kw_only=True)
class RunSettings(Settings):
    """Everything that determines a run."""

    name: str = setting("run", "a label of letters, digits, dots, dashes and underscores")
    description: str = setting("", "one sentence that describes the run")
    rule: Rule = setting(help="the rule that all training samples obey", registry=RULES)
    data: DataSettings = setting(help="the training set")
    encoding: Encoding | None = setting(None, "how symbols are encoded for the network", registry=ENCODINGS)
    model: ModelSettings = setting(help="the network", registry=MODELS)
    objective: Objective = setting(help="corruption, loss and sampler", registry=OBJECTIVES)
    training: TrainingSettings = setting(help="the training loop")
    evaluation: EvaluationSettings = setting(EvaluationSettings(), help="what is measured, and when")
    clocks: ClockSettings = setting(ClockSettings(), help="how the clocks are read")

    def check(self) -> None:
        check_name(self.name)
        if self.encoding is None:
            object.__setattr__(self, "encoding", default_encoding(self.objective.kind, self.rule))
        self.check_fit()
        object.__setattr__(self, "objective", self.objective.fitted(self.rule.symbols))
        try:
            self.data.check_rule(self.rule)
        except SettingError as error:
            raise error.inside("data") from None
        if self.training.distinct and self.training.batch > self.data.n:
            fix = f"there are {self.data.n} training samples to be distinct; use at most that, or distinct: false"
            raise SettingError("training.batch", self.training.batch, fix)
        check_schedule(self.schedule, self.training.steps, at_least=self.clocks.sustain)
        if self.clocks.stop == "rule" and not self.rule.has_rule:
            raise SettingError("clocks.stop", "rule", f"{RULES.name_of(self.rule)} has no rule to learn; use memory")
        self.check_prompts()
        chances = self.rule.chance() if self.rule.has_rule else 1.0, self.rule.copy_chance(self.data.n)
        self.clocks.check_samples(self.evaluation.samples, len(self.schedule), *chances)

    def check_prompts(self) -> None:
        """Check that these data have a beginning that this objective can continue, where prompts are asked for."""
        prompts, prefix = self.evaluation.prompts, self.evaluation.prefix
        if not prompts:
            return
        if not self.rule.is_text:
            raise SettingError("evaluation.prompts", prompts, "only texts have a beginning to continue; use 0")
        if not self.objective.offers("prompted"):
            fix = f"objective {OBJECTIVES.name_of(self.objective)} cannot continue a text; use autoregressive or masked"
            raise SettingError("evaluation.prompts", prompts, fix)
        if prefix >= self.rule.shape[0]:
            raise SettingError("evaluation.prefix", prefix, f"texts have {self.rule.shape[0]} tokens; use less")

    def check_fit(self) -> None:
        """Check that encoding, network and objective fit each other and the rule."""
        assert self.encoding is not None
        self.check_part("encoding", self.encoding, ENCODINGS, "kind")
        if self.rule.is_image and ENCODINGS.name_of(self.encoding) not in FOR_IMAGES:
            fix = f"real images need {' or '.join(FOR_IMAGES)}"
            raise SettingError("encoding.name", ENCODINGS.name_of(self.encoding), fix)
        self.check_part("model", self.model, MODELS, "task")
        self.check_variance()
        try:
            self.encoding.check_rule(self.rule)
        except SettingError as error:
            raise error.inside("encoding") from None
        try:
            self.model.check_shape(self.encoding.shape(self.rule))
        except SettingError as error:
            raise error.inside("model") from None

    def check_part(self, section: str, part: Settings, registry: Registry[Any], what: str) -> None:
        """Raise where a part and the objective differ in ``what``."""
        here, needed = (getattr(each, what) for each in (part, self.objective))
        if here != needed:
            fitting = ", ".join(name for name, cls in registry.items() if getattr(cls, what) == needed)
            others = ", ".join(name for name, cls in OBJECTIVES.items() if getattr(cls, what) == here)
            objective = OBJECTIVES.name_of(self.objective)
            fix = f"objective.name = {objective} needs {what} {needed!r}; use {fitting}, or the objective {others}"
            raise SettingError(f"{section}.name", registry.name_of(part), fix)

    def check_variance(self) -> None:
        """Raise where only one of network and objective has predicted variances."""
        if self.objective.predicts_variance and not self.model.predicts_variance:
            fix = "needs model.variance: true (model.name: unet2d); set it, or use objective.variance: fixed"
            raise SettingError("objective.variance", "learned", fix)
        if self.model.predicts_variance and not self.objective.predicts_variance:
            fix = "needs objective.variance: learned (objective.name: ddpm); set it, or use model.variance: false"
            raise SettingError("model.variance", True, fix)

    def identity(self) -> dict[str, Any]:
        """All settings but the labels: two runs with the same identity are the same run."""
        return without_labels(to_mapping(self, whole=True))

    def digest(self) -> str:
        """SHA-256 of all settings but the labels, the same on every machine."""
        return settings_digest(to_mapping(self))

    def key(self) -> str:
        """The first 16 letters of the digest, for names of folders."""
        return self.digest()[:16]

    def derived(self) -> dict[str, Any]:
        """What tables of clocks show and only the components know: stored, so that reading it needs no components."""
        return {
            "model": self.model.title,
            "copy_chance": self.rule.copy_chance(self.data.n),
            "validity_chance": self.rule.chance() if self.rule.has_rule else 1.0,
            "part_kinds": list(self.rule.part_counts()),
        }

    @cached_property
    def schedule(self) -> tuple[int, ...]:
        """The steps at which the run is evaluated."""
        chosen = self.evaluation
        if chosen.steps is not None:
            return chosen.steps
        return log_spaced(chosen.first, self.training.steps, chosen.evaluations)

    @cached_property
    def weight_steps(self) -> tuple[int, ...]:
        """The evaluations at which weights are stored for good."""
        return thinned(self.schedule, self.evaluation.keep_weights)


def check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        fix = "it names a folder and is not a path; use letters, digits, dot, dash and underscore"
        raise SettingError("name", name, fix)


def load_settings(preset: str | None = None, overrides: Sequence[str] | Mapping[str, Any] = ()) -> RunSettings:
    """Settings of a preset or YAML file with overrides: command-line arguments, or a mapping with dotted keys.

    A run is called like its preset, or, where a preset's rule is replaced, also like the rule; without a preset the
    default one is changed, and the run is called like its rule.

    >>> load_settings("demo", ["--data.n", "32"]).data.n
    32
    >>> load_settings(overrides=["--rule.name", "sudoku", "--encoding", "one_hot"]).name
    'sudoku'
    """
    change = as_overrides(overrides)
    base = read_preset(preset if preset is not None else DEFAULT_PRESET)
    return build_settings(base, change, [Path(preset).stem] if preset is not None else [])


def build_settings(base: Mapping[str, Any], change: Mapping[str, Any], words: Sequence[str] = ()) -> RunSettings:
    """A preset's mapping with a change laid over it; ``words`` name the run where nothing else does."""
    mapping = merge(base, change)
    settings = build(RunSettings, mapping)
    rule = RULES.name_of(settings.rule)
    replaced = isinstance(base.get("rule"), Mapping) and base["rule"].get("name") != rule
    if replaced and "description" not in change:  # it spoke of another rule
        settings = replace(settings, description="")
    if "name" in mapping:
        return settings
    return replace(settings, name="-".join([*words, rule] if replaced or not words else words))
