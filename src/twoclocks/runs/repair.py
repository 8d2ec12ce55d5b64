"""Samples and weights of earlier evaluations that were damaged while a run was stopped.

They are named. What an intact file still determines is computed again: samples from the weights of the same step, and
weights from the checkpoint of the same step. It is stored only if its SHA-256 is that in the row. The rest is lost; the
status lists it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from twoclocks.core.errors import UserError
from twoclocks.runs.assembly import Experiment
from twoclocks.store import files
from twoclocks.store.artifacts import encode_tensors
from twoclocks.store.checkpoints import Checkpoint
from twoclocks.store.run_directory import RunDirectory

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger("twoclocks")


def repair_artifacts(directory: RunDirectory, experiment: Experiment, checkpoint: Checkpoint | None) -> list[str]:
    """Check all artifacts of the rows, compute damaged ones again where possible; return the names of those lost."""
    lost = []
    for kind in ("weights", "samples"):  # samples may need weights that are repaired first
        for step, written in directory.artifact_steps(kind).items():
            artifacts = directory.artifacts[kind]
            try:
                artifacts.intact(step, written)
                continue
            except UserError as error:
                problem = str(error).removesuffix("; restore it")
            data = recomputed(directory, experiment, checkpoint, kind, step)
            if data is not None and files.digest(data) == written:
                artifacts.put(step, data)
                log.warning(f"{problem}; it was computed again")
            else:
                lost.append(f"{kind}/{artifacts.path(step).name}")
                log.warning(f"{problem}; it cannot be computed again: the run continues without it")
    return lost


def recomputed(
    directory: RunDirectory, experiment: Experiment, checkpoint: Checkpoint | None, kind: str, step: int
) -> bytes | None:
    """The bytes of an artifact from what else is known of its step; None if nothing is."""
    weights = weights_of(directory, checkpoint, step)
    if weights is None:
        return None
    return encode_tensors(weights if kind == "weights" else experiment.samples_of(weights))


def weights_of(directory: RunDirectory, checkpoint: Checkpoint | None, step: int) -> Mapping[str, Tensor] | None:
    """The network's weights after a step, from the checkpoint or from the weights stored with the evaluation."""
    if checkpoint is not None and checkpoint.step == step:
        inside = "network."
        return {
            name.removeprefix(inside): value for name, value in checkpoint.tensors.items() if name.startswith(inside)
        }
    with contextlib.suppress(UserError):
        return directory.read_artifact("weights", step)
    return None
