"""Executor ``ray``: the same cells as Ray Core tasks, on a cluster that exists or on one started here.

Authentication stays on: a cluster started here gets a token of its own, one that exists must be entered with its own.
Results come back through the run root where workers see it, else through Ray's object store.
"""

from __future__ import annotations

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

NAMES = re.compile(
    r"(manifest\.json|status\.json|(metrics|timings)\.jsonl|(checkpoints|samples|weights)/step-\d{9,}\.(json|safetensors))"
)


@EXECUTORS.register("ray")
@dataclass(frozen=True, kw_only=True)
class OnRay(Executor):
    """Ray Core tasks, with a part of a GPU each; survives the loss of workers and of nodes."""

    address: str = setting("", "HOST:PORT of a cluster, auto for the one of this machine; empty starts one")
    cpus: float = setting(1.0, "CPU cores that a cell takes", above=0)
    storage: Literal["auto", "shared", "object_store"] = setting(
        "auto", "how results come back: over a disk that workers share, or through Ray; auto looks for the disk"
    )

    def open(self, device: str, root: Path) -> RayPool:
        return RayPool(self, device, root)


def enter(address: str) -> Any:
    """The module ``ray``, connected. Ray reads its authentication mode when it is imported, so that is set before."""
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode != "token":
        raise SettingError("RAY_AUTH_MODE", mode, "without a token anybody who reaches a port can run code; unset it")
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
        words = str(error).strip().split("\n")[0]
        fix = "check executor.address, and that RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH names the cluster's token"
        raise UserError(f"executor.address: {address!r} cannot be entered ({words}); {fix}") from None
    return ray


def check_reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"executor.address: {address!r} does not answer ({error}); check host and port") from None


class RayPool(Pool):
    """Cells as tasks. Ray's own retries are off: the coordinator counts tries, the same way for every executor."""

    def __init__(self, settings: OnRay, device: str, root: Path) -> None:
        self.settings, self.root = settings, root
        self.ray = enter(settings.address)
        self.gpus = 1 / settings.cells_per_gpu if device == "cuda" else 0.0
        self.running: dict[Any, Job] = {}
        # A worker that finds this file under the same path sees the same disk.
        self.mark = root.absolute() / f".shared-{secrets.token_hex(8)}{PARTIAL}"  # cleared like all that a kill leaves
        self.task = self.ray.remote(max_retries=0)(work_on_cluster)

    @property
    def capacity(self) -> int:
        """As many as the cluster holds now; ``workers`` asks for more of one that grows when tasks wait."""
        has = self.ray.cluster_resources()
        fitting = has.get("CPU", 0) / self.settings.cpus
        if self.gpus:
            fitting = min(fitting, has.get("GPU", 0) / self.gpus)
        return self.settings.workers or max(1, int(fitting + 1e-9))

    def start(self, order: Job) -> None:
        if self.settings.storage == "auto" and not self.mark.exists():
            write_atomic(self.mark, b"")
        gpus = float(self.gpus > 0) if order.alone else self.gpus
        task = self.task.options(num_cpus=self.settings.cpus, num_gpus=gpus, name=order.key)
        mark = str(self.mark) if self.settings.storage == "auto" else self.settings.storage
        self.running[task.remote(order.as_json(), mark)] = order

    def wait(self, seconds: float) -> list[JobResult]:
        if not self.running:
            return []
        done, _ = self.ray.wait(list(self.running), num_returns=1, timeout=seconds)
        return [self.ended(reference) for reference in done]

    def ended(self, reference: Any) -> JobResult:
        order = self.running.pop(reference)
        try:
            result, parcel = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            words = str(error).strip().split("\n")[0]
            return JobResult(order.key, "lost", f"{type(error).__name__}: {words}")
        try:
            if parcel:
                unpack(parcel, Path(order.out))
        except UserError as error:
            return JobResult(order.key, "failed", str(error))
        return JobResult(order.key, result["outcome"], result.get("reason", ""))

    def close(self) -> None:
        for reference in self.running:
            self.ray.cancel(reference, force=False)
        if self.running:
            self.ray.wait(list(self.running), num_returns=len(self.running), timeout=20)
        self.ray.shutdown()
        remove(self.mark)


def work_on_cluster(order: dict[str, Any], mark: str) -> tuple[dict[str, str], dict[str, bytes]]:
    """On a node: run the cell in its place if the disk is shared, else here, and send the directory home.

    The folder on a node's own disk is named by the cell, so that a second try on that node goes on where it stood.
    """
    from twoclocks.sweeps.work import work

    if mark == "shared" or (mark != "object_store" and Path(mark).exists()):
        return work(order), {}
    home = Path(tempfile.gettempdir()) / f"twoclocks-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.is_symlink() or home.stat().st_uid != os.getuid():
        return {"outcome": "failed", "reason": f"{home}: belongs to somebody else; set TMPDIR on that node"}, {}
    here = home / order["key"]
    result = work({**order, "out": str(here)})
    if result["outcome"] not in ("finished", "diverged"):
        return result, {}
    parcel = pack(here)
    shutil.rmtree(here)
    return result, parcel


def pack(folder: Path) -> dict[str, bytes]:
    """All files of a run directory by name; those that make it count come last."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    names = [name for name in found if NAMES.fullmatch(name)]
    names.sort(key=lambda name: (name == "status.json", name == "manifest.json", name))
    return {name: read(found[name]) for name in names}


def unpack(parcel: dict[str, bytes], folder: Path) -> None:
    """A run directory as it was sent; nothing outside of it is written, and nothing damaged is kept as finished."""
    for name in parcel:
        if not NAMES.fullmatch(name):
            raise UserError(f"{folder}: a worker sent a file named {name!r}; that is not part of a run")
    make_folder(folder)
    with WriterLock(folder):
        remove(folder / "status.json")
        for name in pack(folder):  # of an earlier, unfinished try
            if name not in parcel:
                remove(folder / name)
        for name, data in parcel.items():
            make_folder((folder / name).parent)
            write_atomic(folder / name, data)
    findings = verify_run(folder)
    if not findings.intact:
        remove(folder / "status.json")
        raise UserError(f"{folder}: arrived damaged ({findings.damage[0]})")
