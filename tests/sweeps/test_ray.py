"""Two real Ray nodes on loopback with authentication on; one is killed or frozen in the middle, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_sweep import cell_contents, write_spec

from twoclocks.core.config import to_mapping
from twoclocks.core.errors import UserError
from twoclocks.runs import load_run
from twoclocks.store import verify_tree
from twoclocks.sweeps import EXECUTORS, read_plan, run_sweep
from twoclocks.sweeps.executors import Job
from twoclocks.sweeps.on_ray import connect, pack, run_on_node, unpack

pytest.importorskip("ray")
pytestmark = pytest.mark.ray
# 127.0.0.1 would be turned into the machine's own address.
NODES = {"head": "127.0.0.2", "second": "127.0.0.3"}
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}


def session_processes(session: int) -> list[int]:
    """Running processes of a session: Ray's workers leave their group but not their session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[3]) == session and words[0] not in "ZX":
                found.append(int(entry.name))
    return found


class Cluster:
    """Two nodes in sessions of their own, with a token of their own; nothing outside its folder is touched."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tc", dir="/tmp"))  # short: a socket's path has 107 bytes
        token = self.folder / "token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        bare = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        self.without_token = bare | {"HOME": str(self.folder), "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment = self.without_token | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self.address = self.start("head", "--head", "--port=0", "--include-dashboard=false", "--num-gpus=1")
            self.start_second()
        except BaseException:
            self.close()
            raise

    def start_second(self) -> None:
        self.start("second", f"--address={self.address}", "--num-gpus=0")

    def temporary(self, name: str) -> Path:
        """TMPDIR of a node: its own, as on two machines."""
        return self.folder / f"{name}-tmp"

    def start(self, name: str, *words: str) -> str:
        command = [str(Path(sys.executable).parent / "ray"), "start", "--block", f"--temp-dir={self.folder / name}"]
        command += ["--num-cpus=1", "--object-store-memory=80000000", "--min-worker-port=0", "--max-worker-port=0"]
        command += ["--disable-usage-stats", f"--node-ip-address={NODES[name]}", *words]
        self.temporary(name).mkdir(exist_ok=True)
        environment = self.environment | HEALTH | {"TMPDIR": str(self.temporary(name))}
        shutil.rmtree(self.folder / name, ignore_errors=True)
        with (self.folder / f"{name}.log").open("wb") as log:
            node = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        self.nodes[name] = node
        written, until = self.folder / name / "ray_current_cluster", time.monotonic() + 60
        while not (written.exists() and written.read_text().strip()):
            assert node.poll() is None and time.monotonic() < until, (self.folder / f"{name}.log").read_text()
            time.sleep(0.05)
        return written.read_text().strip()

    def processes(self, name: str) -> list[int]:
        return session_processes(self.nodes[name].pid)

    def freeze(self, name: str) -> None:
        """SIGSTOP to everything that belongs to a node."""
        for process in self.processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)

    def kill(self, name: str) -> None:
        """kill -9 of everything that belongs to a node."""
        while found := self.processes(name):
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.02)
        self.nodes.pop(name).wait()

    def close(self) -> None:
        for name in list(self.nodes):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def sweep(self, spec: Path, out: Path, *words: str, token: bool = True) -> subprocess.Popen[str]:
        """The command line in its own process, as a user would call it."""
        command = [sys.executable, "-m", "twoclocks", "sweep", str(spec), "--out", str(out), "--executor", "ray"]
        command += [f"--executor.address={self.address}", "--checkpoint-seconds", "0", *words]
        environment = self.environment if token else self.without_token | {"RAY_NUM_REDIS_GET_RETRIES": "1"}
        return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def writers(out: Path) -> set[int]:
    """Processes that began an attempt of some cell."""
    found: set[int] = set()
    for path in out.glob("cells/*/manifest.json"):
        try:
            found |= {attempt["process"] for attempt in load_run(path.parent).status.get("attempts", [])}
        except UserError:
            continue  # just being written
    return found


SHARE = """
import sys
from pathlib import Path
from twoclocks.core.config import to_mapping
from twoclocks.runs import load_settings
from twoclocks.store.folders import ours
from twoclocks.sweeps.executors import Job
from twoclocks.sweeps.on_ray import OnRay

pool = OnRay(address=sys.argv[1], cpus=0.1, cells_per_gpu=5).open("cuda", Path(sys.argv[2]))
settings = to_mapping(load_settings("demo-gpt", {"training.device": "cuda"}))
pool.start(Job("cell", settings, sys.argv[2] + "/cell", 30.0))
pool.start(Job("alone", settings, sys.argv[2] + "/alone", 30.0, alone=True))
ended = []
while len(ended) < 2:
    ended += pool.wait(5)
print(pool.capacity, sorted(one.outcome for one in ended), ended[0].reason, pool.marker.exists() and ours(pool.marker))
pool.close()
assert not pool.marker.exists()
"""


def test_cells_share_a_gpu(tmp_path: Path, cluster: Cluster) -> None:
    """One node declares a GPU that it does not have: five cells share it, and each cell finds that it is missing."""
    words = [sys.executable, "-c", SHARE, cluster.address, str(tmp_path)]
    done = subprocess.run(words, env=cluster.environment, text=True, capture_output=True, timeout=60, check=False)
    assert done.stdout.startswith("5 ['failed', 'failed'] training.device: 'cuda'"), done
    # What a killed coordinator leaves in the root does not shut the next one out.
    assert done.stdout.strip().endswith("True") and done.returncode == 0, done


LONG = {"training.steps": 200, "evaluation.steps": [0, *range(20, 201, 20)]}


def long_spec(path: Path, seeds: int = 2) -> Path:
    return write_spec(path / "grid.yaml", set=LONG, grid={"data.n": [4, 6]}, seeds={"training": seeds})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Contents of the same cells, run on this machine."""
    folder = tmp_path_factory.mktemp("undisturbed")
    sweep = run_sweep(read_plan(long_spec(folder)), folder / "out", EXECUTORS.create("local", workers=2))
    assert sweep.counts() == {"finished": 4}
    return cell_contents(folder / "out")


def wait_for(condition: Callable[[], object], driver: subprocess.Popen[str]) -> None:
    """Wait until something is true while a sweep runs."""
    while not condition():
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.05)


def test_a_stopped_worker_is_killed_and_its_cell_moved(
    tmp_path: Path, cluster: Cluster, undisturbed: dict[str, str]
) -> None:
    """Ray itself would wait for ever for a process that stands still, and its cell would stay "running"."""
    out, stopped = tmp_path / "out", set[int]()
    driver = cluster.sweep(long_spec(tmp_path, seeds=1), out, "--executor.silence", "5")
    wait_for(lambda: stopped.update(writers(out) & set(cluster.processes("second"))) or stopped, driver)
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    output = driver.communicate(timeout=120)
    assert driver.returncode == 0 and "2 finished" in output[0], output
    assert len(stopped) == 1 and f"no heartbeat from process {max(stopped)} on " in output[1], output
    assert not stopped & set(cluster.processes("second"))
    assert max(len(load_run(path).status["attempts"]) for path in (out / "cells").iterdir()) > 1
    assert len(cell_contents(out)) == 2 and cell_contents(out).items() <= undisturbed.items()


def test_a_node_killed_in_the_middle_loses_nothing(
    tmp_path: Path, cluster: Cluster, undisturbed: dict[str, str]
) -> None:
    """Also: a driver without the token is rejected. Afterwards there is one node."""
    spec = long_spec(tmp_path)
    stranger = cluster.sweep(spec, tmp_path / "stranger", token=False)
    driver = cluster.sweep(spec, tmp_path / "out")
    wait_for(lambda: writers(tmp_path / "out") & set(cluster.processes("second")), driver)
    cluster.kill("second")
    output = driver.communicate(timeout=120)
    assert driver.returncode == 0, output
    assert "4 finished" in output[0]
    attempts = [len(load_run(path).status["attempts"]) for path in (tmp_path / "out" / "cells").iterdir()]
    assert len(attempts) == 4 and max(attempts) > 1, "the kill came too late to interrupt a cell"
    assert cell_contents(tmp_path / "out") == undisturbed
    assert all(findings.intact for findings in verify_tree(tmp_path / "out"))
    refused = stranger.communicate(timeout=60)[1]
    assert stranger.returncode == 2 and "cannot be connected to" in refused and "RAY_AUTH_TOKEN" in refused


def test_a_frozen_node_is_left_behind(tmp_path: Path, cluster: Cluster, undisturbed: dict[str, str]) -> None:
    """SIGSTOP to raylet and workers. Results come through the object store, as from machines without a shared disk."""
    if "second" not in cluster.nodes:
        cluster.start_second()
    out = tmp_path / "out"
    driver = cluster.sweep(
        long_spec(tmp_path, seeds=1), out, "--executor.storage", "object_store", "--executor.silence", "5"
    )
    wait_for(lambda: [*cluster.temporary("second").glob("twoclocks-*/*/manifest.json")], driver)
    cluster.freeze("second")
    output = driver.communicate(timeout=120)
    assert driver.returncode == 0 and "2 finished" in output[0], output
    assert cluster.processes("second"), "it died instead"
    assert len(cell_contents(out)) == 2 and cell_contents(out).items() <= undisturbed.items()
    cluster.kill("second")


def test_authentication_cannot_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(UserError, match="RAY_AUTH_MODE: 'disabled' is not allowed"):
        connect("")


def test_packed_contents_are_a_whole_run_and_nothing_else(tmp_path: Path) -> None:
    plan = read_plan(write_spec(tmp_path / "one.yaml"))
    run_sweep(plan, tmp_path / "out", EXECUTORS.create("local", workers=1))
    cell = tmp_path / "out" / "cells" / plan.cells[0].key
    (cell / "notes.txt").write_text("not ours")
    contents = pack(cell)
    assert "notes.txt" not in contents and list(contents)[-1] == "status.json"
    unpack(contents, tmp_path / "copy")
    assert load_run(tmp_path / "copy").clocks() == load_run(cell).clocks()
    for name in ("../evil", "/etc/evil", "checkpoints/../../evil", "samples/step-000000001.json/x"):
        with pytest.raises(UserError, match="not part of a run"):
            unpack({**contents, name: b""}, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    interrupted = tmp_path / "interrupted"  # an earlier, unfinished try whose checkpoints are of other steps
    shutil.copytree(cell, interrupted)
    for suffix in (".json", ".safetensors"):
        last = interrupted / "checkpoints" / f"step-000000060{suffix}"
        last.rename(last.with_name(f"step-000000039{suffix}"))
    unpack(contents, interrupted)
    assert load_run(interrupted).clocks() == load_run(cell).clocks()
    torn = {**contents, "metrics.jsonl": contents["metrics.jsonl"][:-5]}
    with pytest.raises(UserError, match="arrived damaged"):
        unpack(torn, tmp_path / "torn")
    assert not load_run(tmp_path / "torn").directory.finished


def test_a_worker_that_does_not_see_the_disk_sends_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``auto`` decides on a node: whether the marker file exists under the same path."""
    plan = read_plan(write_spec(tmp_path / "one.yaml"))
    job = Job(plan.cells[0].key, to_mapping(plan.cells[0].settings), str(tmp_path / "cell"), 30.0).as_json()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result, contents = run_on_node(job, str(tmp_path / "no-such-file"))
    assert result == {"outcome": "finished"} and "manifest.json" in contents and not (tmp_path / "cell").exists()
    assert not list((tmp_path / f"twoclocks-{os.getuid()}").iterdir())  # the node keeps nothing
    (tmp_path / "mark").touch()
    assert run_on_node(job, str(tmp_path / "mark")) == ({"outcome": "finished"}, {})
    assert pack(tmp_path / "cell")["metrics.jsonl"] == contents["metrics.jsonl"]
