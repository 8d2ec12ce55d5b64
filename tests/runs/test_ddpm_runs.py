"""Runs of ddpm with the U-Net of images: what fits together, and that both learn."""

from __future__ import annotations

import numpy as np
import pytest

from twoclocks.core.errors import SettingError
from twoclocks.dissection.views.trajectories import Trajectories
from twoclocks.runs import Run, load_settings

UNET = {"name": "unet2d", "width": 8, "multipliers": [1, 2], "blocks": 1, "attention": [], "heads": 2}


def test_learned_variance_and_a_network_that_predicts_it_need_each_other() -> None:
    learned, plain = {"name": "ddpm", "variance": "learned"}, {"name": "ddpm"}
    for model in ({}, {"model": UNET}):
        with pytest.raises(SettingError, match=r"^objective\.variance: 'learned'.*model\.variance: true.*fixed$"):
            load_settings("demo", {**model, "objective": learned})
    for objective in ({}, {"objective": plain}):
        with pytest.raises(SettingError, match=r"^model\.variance: .*objective\.variance: learned.*false$"):
            load_settings("demo", {"model": {**UNET, "variance": True}, **objective})
    load_settings("demo", {"model": {**UNET, "variance": True}, "objective": learned})
    load_settings("demo", {"model": UNET, "objective": plain})


def test_paths_are_followed_for_ddim_and_refused_for_random_samplers() -> None:
    ddim = load_settings("demo", {"objective": {"name": "ddpm"}})
    random = load_settings("demo", {"objective": {"name": "ddpm", "sampler": "ancestral"}})
    assert Trajectories().refusal(ddim) is None
    assert "falling noise scales" in str(Trajectories().refusal(random))


def test_a_small_run_learns(tiny_images: Run) -> None:
    losses = tiny_images.metrics()["loss"]
    assert np.isfinite(losses[1:]).all() and losses[-1] < 0.8 * losses[1]
