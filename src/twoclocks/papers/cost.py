"""What a run and its views will cost, estimated before it begins: minutes and bytes."""

from __future__ import annotations

import math
from collections.abc import Collection

from twoclocks.dissection.execution import choose_views
from twoclocks.dissection.subject import ROWS
from twoclocks.objectives.base import OBJECTIVES
from twoclocks.runs.assembly import SHARE
from twoclocks.runs.settings import RunSettings
from twoclocks.runs.size import size_of, weight_bytes

# Operations per second that training reaches, with all overheads: P1's networks on one H200
# (results/speed_h200.json), and on one core of a server CPU.
OPERATIONS = {"cuda": 2.9e14, "cpu": 4e10}
START = {"cuda": 8.0, "cpu": 0.2}  # seconds to build, capture and evaluate for the first time
# Seconds per step of a small network. On the H200 it is a share of many runs at once under NVIDIA's MPS: 21 runs of
# rhm-sizes, 3.05 million steps and 840 evaluations, took 615 s with ten processes and more. Alone it takes longer.
LEAST_STEP = {"cuda": 1.5e-4, "cpu": 2e-3}
# A call of a network by the sampler, replayed on a GPU: GPT-mini's 36 take 27 ms (results/speed_h200.json).
LEAST_SAMPLER_CALL = {"cuda": 7.5e-4, "cpu": 2e-3}
# A call of the smallest network by a view, in seconds: on a GPU its kernels are launched one by one, since views do
# not use captured graphs.
LEAST_CALL = {"cuda": 4e-3, "cpu": 2e-3}
CHUNK = {"cuda": ROWS, "cpu": SHARE}  # rows that views give to the network at once
# P1's pooled laws τ_mem = a·N^α: how far a run goes that ends at τ_mem. The factor covers three evaluations more.
LAWS = {"edm": (35.3, 1.14), "autoregressive": (2.1, 0.97)}
BEYOND = 1.6


def expected_steps(settings: RunSettings) -> int:
    """Steps until the run ends; one that stops at τ_mem by P1's laws, or by its own limit."""
    law = LAWS.get(OBJECTIVES.name_of(settings.objective))
    if settings.clocks.stop != "memory" or law is None:
        return settings.training.steps
    return min(settings.training.steps, round(BEYOND * law[0] * math.pow(settings.data.n, law[1])))


def device_of(settings: RunSettings) -> str:
    return settings.training.device.partition(":")[0]


def forward_operations(settings: RunSettings) -> float:
    """Operations per sample: one multiplication and addition per weight and token."""
    assert settings.encoding is not None
    shape = settings.encoding.shape(settings.rule)
    return 2 * weight_bytes(settings.model, shape, settings.rule.symbols) / 4 * math.prod(settings.rule.shape)


def expected_seconds(settings: RunSettings, views: Collection[str] = ()) -> float:
    """Seconds of the run on its own device and of measuring views on it, roughly."""
    device, forward = device_of(settings), forward_operations(settings)
    steps = expected_steps(settings)
    evaluations = sum(step <= steps for step in settings.schedule)
    training = max(3 * forward * settings.training.batch / OPERATIONS[device], LEAST_STEP[device])
    sampling = expected_sampling_seconds(settings)
    return START[device] + steps * training + evaluations * sampling + expected_view_seconds(settings, views)


def expected_sampling_seconds(settings: RunSettings) -> float:
    """Seconds of drawing the samples of one evaluation, and of continuing its prompts, roughly."""
    device, tokens = device_of(settings), math.prod(settings.rule.shape)
    # With one call per token, the network reads that token alone: it has a cache of those before.
    share = 1 / tokens if settings.objective.levels is None else 1.0
    rows = settings.evaluation.samples + 2 * settings.evaluation.prompts
    each = share * forward_operations(settings) * rows / OPERATIONS[device]
    return settings.objective.network_calls(tokens) * max(each, LEAST_SAMPLER_CALL[device])


def expected_view_seconds(settings: RunSettings, views: Collection[str]) -> float:
    """Seconds of measuring views on all kept checkpoints, roughly: what the network computes.

    What the views compute without it is left out: oracles once, distances of samples, reading the weights.
    """
    device, forward = device_of(settings), forward_operations(settings)
    applying = [one for one in choose_views([*views]).values() if one.refusal(settings) is None]
    kept = sum(step <= expected_steps(settings) for step in settings.weight_steps)
    seconds = START[device] if applying else 0.0
    for view in applying:
        calls, rows = view.passes(settings)
        chunks = -(-rows // CHUNK[device])
        each = max(forward * rows / OPERATIONS[device], chunks * LEAST_CALL[device])
        seconds += kept * calls * each
    return seconds


def expected_bytes(settings: RunSettings) -> int:
    """Largest size of the run directory."""
    return size_of(settings).whole
