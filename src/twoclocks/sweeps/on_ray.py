"""Executor ``ray``: cells as Ray Core tasks, on an existing cluster or on one that is started here.

Authentication is always on: a cluster started here gets a new token; an existing one needs its own token. Results come
back over a shared disk if workers see the folder of the sweep, else through Ray's object store. A running cell whose
worker stands still is cancelled and reported as lost (``heartbeats.py``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError, UserError
from twoclocks.store.files import PARTIAL, make_folder, read, remove, write_atomic
from twoclocks.store.lock import WriterLock
from twoclocks.store.verify import verify_run
from twoclocks.sweeps.executors import EXECUTORS, Executor, Job, JobResult, Pool
from twoclocks.sweeps.heartbeats import SilenceWatch, send_heartbeats

log = logging.getLogger("twoclocks")

NAMES = re.compile(
    r"(manifest\.json|status\.json|(metrics|timings)\.jsonl|(checkpoints|samples|weights)/step-\d{9,}\.(json|safetensors))"
)


@EXECUTORS.register("ray")
@dataclass(frozen=True, kw_only=True)
class OnRay(Executor):
    """One Ray Core task per cell, with a fraction of a GPU each; survives the loss of workers and nodes."""

    address: str = setting("", "HOST:PORT of a cluster; auto: the one of this machine; empty: start one")
    cpus: float = setting(1.0, "CPU cores per cell", above=0)
    storage: Literal["auto", "shared", "object_store"] = setting(
        "auto", "how results come back: over a shared disk, or through Ray; auto: over the disk if workers see it"
    )
    silence: float = setting(
        300.0,
        "seconds without a heartbeat after which a running cell is cancelled and tried again; 0: never",
        at_least=0,
    )

    def open(self, device: str, root: Path) -> RayPool:
        return RayPool(self, device, root)


def connect(address: str) -> Any:
    """Connect to a cluster and return the module ray; its authentication mode must be set before the import."""
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode != "token":
        raise SettingError("RAY_AUTH_MODE", mode, "without a token, anyone who can reach a port can run code; unset it")
    check_reachable(address)
    if "ray" in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        raise UserError("RAY_AUTH_MODE: ray was imported before it was set; set it to token first")
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not address and not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    try:
        import ray
    except ImportError:
        raise UserError("executor.name: ray is not installed; pip install 'twoclocks[ray]', or use local") from None
    from ray.exceptions import AuthenticationError

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(address=address, **quiet) if address else ray.init(include_dashboard=False, **quiet)
    except (ConnectionError, AuthenticationError, RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        fix = "check executor.address, and that RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH names the cluster's token"
        raise UserError(f"executor.address: {address!r} cannot be connected to ({reason}); {fix}") from None
    return ray


def check_reachable(address: str) -> None:
    """Raise UserError if nothing answers at the address; Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"executor.address: {address!r} does not answer ({error}); check host and port") from None


class RayPool(Pool):
    """Runs jobs as Ray tasks. Ray's own retries are off: the coordinator counts attempts for every executor."""

    def __init__(self, settings: OnRay, device: str, root: Path) -> None:
        self.settings, self.root = settings, root
        self.ray = connect(settings.address)
        self.gpus = 1 / settings.cells_per_gpu if device == "cuda" else 0.0
        self.running: dict[Any, Job] = {}
        # A worker that finds this file under the same path sees the same disk.
        self.marker = root.absolute() / f".shared-{secrets.token_hex(8)}{PARTIAL}"  # removed like other temporary files
        self.task = self.ray.remote(max_retries=0)(run_on_node)
        self.watch = SilenceWatch(self.ray, settings.silence) if settings.silence else None

    @property
    def capacity(self) -> int:
        """``workers`` (an autoscaling cluster may grow to them), or as many jobs as the cluster has room for now."""
        resources = self.ray.cluster_resources()
        room = resources.get("CPU", 0) / self.settings.cpus
        if self.gpus:
            room = min(room, resources.get("GPU", 0) / self.gpus)
        return self.settings.workers or max(1, int(room + 1e-9))

    def start(self, job: Job) -> None:
        if self.settings.storage == "auto" and not self.marker.exists():
            write_atomic(self.marker, b"")
        gpus = float(self.gpus > 0) if job.alone else self.gpus
        task = self.task.options(num_cpus=self.settings.cpus, num_gpus=gpus, name=job.key)
        storage = str(self.marker) if self.settings.storage == "auto" else self.settings.storage
        heartbeats = self.watch.new_attempt() if self.watch else None
        reference = task.remote(job.as_json(), storage, heartbeats)
        self.running[reference] = job
        if self.watch and heartbeats:
            self.watch.attempts[heartbeats[1]] = reference

    def wait(self, seconds: float) -> list[JobResult]:
        if not self.running:
            return []
        done, _ = self.ray.wait(list(self.running), num_returns=1, timeout=seconds)
        return [self.job_result(reference) for reference in done] + self.cancel_silent()

    def cancel_silent(self) -> list[JobResult]:
        """Give up jobs without a heartbeat. Their processes are killed where the node's raylet still answers.

        Nothing is waited for, since a frozen node never answers. If such a process wakes up again, the check of its
        lock keeps it from writing into a cell that another one took over.
        """
        results = []
        for reference, sender in (self.watch.silent() if self.watch else {}).items():
            job = self.forget(reference)
            self.ray.cancel(reference, force=True)
            reason = f"no heartbeat from {sender} for {self.settings.silence:g} s (executor.silence)"
            log.warning(f"cell {job.key}: {reason}; this attempt is given up")
            results.append(JobResult(job.key, "lost", reason))
        return results

    def forget(self, reference: Any) -> Job:
        if self.watch:
            self.watch.forget(reference)
        return self.running.pop(reference)

    def job_result(self, reference: Any) -> JobResult:
        """The result of a task that ended; files that it sent are written to the folder of the cell."""
        job = self.forget(reference)
        try:
            result, contents = self.ray.get(reference, timeout=self.settings.silence or None)
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().split("\n")[0]
            return JobResult(job.key, "lost", f"{type(error).__name__}: {reason}")
        try:
            if contents:
                unpack(contents, Path(job.out))
        except UserError as error:
            return JobResult(job.key, "failed", str(error))
        return JobResult(job.key, result["outcome"], result.get("reason", ""))

    def close(self) -> None:
        for reference in self.running:
            self.ray.cancel(reference, force=False)
        if self.running:
            self.ray.wait(list(self.running), num_returns=len(self.running), timeout=20)
        self.ray.shutdown()
        remove(self.marker)


def run_on_node(
    job: dict[str, Any], storage: str, heartbeats: tuple[Any, str, float] | None = None
) -> tuple[dict[str, str], dict[str, bytes]]:
    """Run a job on a node, and send heartbeats (arguments of ``send_heartbeats``) meanwhile."""
    with send_heartbeats(*heartbeats) if heartbeats else contextlib.nullcontext():
        return run_and_pack(job, storage)


def run_and_pack(job: dict[str, Any], storage: str) -> tuple[dict[str, str], dict[str, bytes]]:
    """Run a job in the cell's own folder if the disk is shared, else locally; return result and files.

    ``storage`` is shared, object_store, or the path of a file that exists only if the disk is shared. A local folder
    is named after the cell, so that a second attempt on the same node continues the first.
    """
    from twoclocks.sweeps.work import run_job

    if storage == "shared" or (storage != "object_store" and Path(storage).exists()):
        return run_job(job), {}
    home = Path(tempfile.gettempdir()) / f"twoclocks-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.is_symlink() or home.stat().st_uid != os.getuid():
        return {"outcome": "failed", "reason": f"{home}: belongs to another user; set TMPDIR on that node"}, {}
    here = home / job["key"]
    result = run_job({**job, "out": str(here)})
    if result["outcome"] not in ("finished", "diverged"):
        return result, {}
    contents = pack(here)
    shutil.rmtree(here)
    return result, contents


def pack(folder: Path) -> dict[str, bytes]:
    """The contents of all files of a run directory, by name; manifest and status, which make it valid, come last."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    names = [name for name in found if NAMES.fullmatch(name)]
    names.sort(key=lambda name: (name == "status.json", name == "manifest.json", name))
    return {name: read(found[name]) for name in names}


def unpack(contents: dict[str, bytes], folder: Path) -> None:
    """Write the files of a run directory; other files are refused, and a damaged run does not count as finished."""
    for name in contents:
        if not NAMES.fullmatch(name):
            raise UserError(f"{folder}: a worker sent a file named {name!r}; that is not part of a run")
    make_folder(folder)
    with WriterLock(folder) as lock:
        remove(folder / "status.json", lock.check)
        for name in pack(folder):  # of an earlier, unfinished attempt
            if name not in contents:
                remove(folder / name, lock.check)
        for name, data in contents.items():
            lock.check()
            make_folder((folder / name).parent)
            write_atomic(folder / name, data, lock.check)
    findings = verify_run(folder)  # without the lock: a run that is being written is read three times
    if not findings.intact:
        with WriterLock(folder) as lock:
            remove(folder / "status.json", lock.check)
        raise UserError(f"{folder}: arrived damaged ({findings.damage[0]})")
