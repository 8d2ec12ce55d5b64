"""Run directories: manifest, metrics, checkpoints, samples."""

from twoclocks.store.run_directory import Checkpoint, RunDirectory, check_free, runs_in

__all__ = ["Checkpoint", "RunDirectory", "check_free", "runs_in"]
