"""Extractability at evaluations: a model that knows its training texts continues them, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from twoclocks.core.errors import SettingError
from twoclocks.data.text import pack
from twoclocks.objectives.autoregressive import Autoregressive
from twoclocks.objectives.base import Objective, sample
from twoclocks.objectives.masked import Masked
from twoclocks.runs import Run, RunSettings, load_settings, run
from twoclocks.runs.assembly import Experiment

SMALL = {
    **{"rule.length": 24, "data.n": 16, "model.width": 16, "model.depth": 1, "model.heads": 1},
    **{"training.steps": 6, "training.batch": 8, "training.device": "cpu", "training.precision": "float32"},
    **{"evaluation.steps": [2, 4, 6], "evaluation.samples": 64, "evaluation.loss_rows": 16},
    **{"evaluation.prompts": 10, "evaluation.prefix": 8, "evaluation.copy_run": 12, "objective.sampler_levels": 6},
}


def settings_of(**change: Any) -> RunSettings:
    return load_settings("p2-md4-text", {**SMALL, **change})


class Memory:
    """Logits of whoever knows some texts by heart: those of the text that agrees with most of the tokens that are seen.

    ``shift``: 1 where it is asked for the token behind each one, behind a start token.
    """

    def __init__(self, texts: Tensor, symbols: int, shift: int) -> None:
        self.texts, self.symbols, self.shift = texts, symbols, shift

    def __call__(self, tokens: Tensor, label: Any = None) -> Tensor:
        seen = tokens[:, self.shift :]
        agree = (seen[:, None] == self.texts[None, :, : seen.shape[1]]).sum(dim=2)
        found = self.texts[agree.argmax(dim=1)][:, : tokens.shape[1]]
        return 50.0 * torch.nn.functional.one_hot(found, self.symbols).float()


@pytest.mark.parametrize(("objective", "shift"), [(Masked(sampler_levels=6), 0), (Autoregressive(), 1)])
def test_prompts_stay_and_are_continued(objective: Objective, shift: int) -> None:
    settings = settings_of()
    texts = settings.data.training_set(settings.rule)
    noise = objective.draw_noise(16, (24,), torch.Generator().manual_seed(0))
    memory: Any = Memory(texts, settings.rule.symbols, shift)
    drawn = sample(objective, memory, noise, chunk=5, prompts=texts[:, :8])
    assert torch.equal(drawn, texts)  # the first eight letters of these sixteen texts are all different
    other = (texts[:, :8] + 1) % settings.rule.symbols
    assert torch.equal(sample(objective, memory, noise, prompts=other)[:, :8], other)


@pytest.mark.parametrize("known", ["train", "held_out"])
def test_hits_are_counted_by_split(known: str) -> None:
    experiment = Experiment(settings_of())
    found = experiment.extraction
    assert found is not None and found.needed == 12
    memory: Any = Memory(found.texts[known], experiment.rule.symbols, 0)
    row = found.row(memory)
    assert row["extracted_trials"] == row["extracted_held_out_trials"] == 10
    hits = {"train": row["extracted_hits"], "held_out": row["extracted_held_out_hits"]}
    assert hits.pop(known) == 10 and hits.popitem()[1] == 0


@pytest.mark.parametrize(("right", "hits"), [(12, 10), (11, 0)])
def test_as_many_tokens_as_asked_for_must_be_verbatim(right: int, hits: int) -> None:
    """Texts that are known up to some token behind their prefix, and wrong from there on."""
    experiment = Experiment(settings_of())
    found = experiment.extraction
    assert found is not None
    known = found.texts["train"].clone()
    known[:, 8 + right :] = (known[:, 8 + right :] + 1) % 27
    memory: Any = Memory(known, experiment.rule.symbols, 0)
    assert found.row(memory)["extracted_hits"] == hits


@pytest.mark.parametrize("wrong", [8, 14, 19])
def test_tokens_behind_the_first_wrong_one_do_not_count(wrong: int) -> None:
    """All but one token is right: twelve in a row are left only behind an error, which is no continuation."""
    found = Experiment(settings_of()).extraction
    assert found is not None
    known = found.texts["train"].clone()
    known[:, wrong] = (known[:, wrong] + 1) % 27
    assert found.row(Memory(known, 27, 0))["extracted_hits"] == 0  # type: ignore[arg-type]


def test_a_text_that_ends_before_enough_tokens_counts_if_it_is_continued_to_its_end() -> None:
    found = Experiment(settings_of(**{"evaluation.copy_run": 24})).extraction
    assert found is not None and found.needed == 16
    memory: Any = Memory(found.texts["train"], 27, 0)
    assert found.row(memory)["extracted_hits"] == 10


def test_every_prompt_has_noise_of_its_own() -> None:
    """The same prompt, many times, and a network that knows nothing: the continuations differ."""
    experiment = Experiment(settings_of(**{"model.name": "gpt", "objective": {"name": "autoregressive"}}))
    found = experiment.extraction
    assert found is not None and len(torch.unique(found.noise, dim=0)) == len(found.noise) == 10
    same = found.texts["train"][:1, :8].expand(10, 8)
    drawn = sample(experiment.objective, experiment.network, found.noise, prompts=same)
    assert len(torch.unique(drawn, dim=0)) == 10


def test_a_prompt_is_read_by_the_cache_as_without_one() -> None:
    """A causal network with a cache of keys and values, against one call of the whole text for every token."""
    experiment = Experiment(settings_of(**{"model.name": "gpt", "objective": {"name": "autoregressive"}}))
    network, found = experiment.network.eval(), experiment.extraction
    assert found is not None
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3.0)  # so that what was read before matters
        drawn = sample(experiment.objective, network, found.noise, prompts=found.texts["train"][:, :8])
        uncached: Any = lambda tokens: network(tokens)  # noqa: E731, PLW0108 (a callable that has no cache)
        slow = sample(experiment.objective, uncached, found.noise, prompts=found.texts["train"][:, :8])
    assert torch.equal(drawn, slow)


def test_prompts_longer_than_a_text_are_refused() -> None:
    objective = Autoregressive()
    noise = objective.draw_noise(2, (24,), torch.Generator())
    with pytest.raises(ValueError, match="25 tokens, samples have 24"):
        sample(objective, lambda tokens: tokens, noise, prompts=torch.zeros(2, 25, dtype=torch.int64))  # type: ignore


def test_extraction_is_that_of_the_raw_weights() -> None:
    experiment = Experiment(settings_of(**{"training.average": 0.9}))
    assert experiment.average is not None and experiment.extraction is not None
    asked: list[Any] = []

    class Spy(type(experiment.extraction)):  # type: ignore[misc]
        def row(self, network: Any) -> dict[str, int]:
            asked.append(network)
            return super().row(network)  # type: ignore[no-any-return]

    object.__setattr__(experiment, "extraction", Spy(**vars(experiment.extraction)))
    experiment.evaluate(0, 0.0)
    assert asked == [experiment.network]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(settings_of(), tmp_path_factory.mktemp("text") / "run")


def test_every_evaluation_of_a_run_has_them(text: Run) -> None:
    columns = text.metrics()
    assert {"extracted", "extracted_held_out", "verbatim_run", "text_distance"} <= columns.keys()
    assert (columns["extracted"] == 0).all() and columns["extracted"].shape == (3,)  # it has learned nothing
    described = {one["name"]: one["about"] for one in text.manifest["metrics"]}
    assert described["extracted"] == "training texts continued verbatim for 12 tokens after their first 8"


def test_held_out_losses_are_told_in_bits_per_character(text: Run) -> None:
    columns = text.metrics()  # here a token is a character
    assert np.allclose(columns["loss_held_out_bits"], columns["loss_held_out"] / np.log(2))


def test_a_character_of_two_bytes_counts_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["".join(rng.choice([*"àáâãäåæçèéêë"], 12)) for _ in range(60)]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    pack(tmp_path / "text.txt", tmp_path / "packed", tokens="bytes", documents="line")
    experiment = Experiment(settings_of(**{"rule.file": str(tmp_path / "packed")}))
    losses = experiment.losses()
    assert experiment.characters_per_token == 0.5
    assert losses["loss_held_out_bits"] == pytest.approx(losses["loss_held_out"] * 2 / np.log(2))


def test_a_run_without_prompts_has_no_such_columns(tmp_path: Path) -> None:
    done = run(settings_of(**{"evaluation.prompts": 0}), tmp_path / "run")
    assert "extracted" not in done.metrics() and "verbatim_run" in done.metrics()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evaluation.prefix": 24}, r"evaluation.prefix: 24 .*texts have 24 tokens"),
        ({"objective.name": "d3pm", "objective.schedule": "linear"}, "objective d3pm cannot continue a text"),
    ],
)
def test_wrong_prompts_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        settings_of(**change)


def test_rules_have_no_prompts() -> None:
    with pytest.raises(SettingError, match=r"evaluation.prompts: 4 .*only texts have a beginning"):
        load_settings("demo", {"evaluation.prompts": 4})
