"""Run directories: manifest, metrics, checkpoints, samples."""

from twoclocks.store.checkpoints import Checkpoint
from twoclocks.store.folders import check_free, runs_in
from twoclocks.store.run_directory import RunDirectory
from twoclocks.store.verify import Findings, verify_tree

__all__ = ["Checkpoint", "Findings", "RunDirectory", "check_free", "runs_in", "verify_tree"]
