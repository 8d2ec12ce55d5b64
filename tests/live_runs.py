"""Runs that grow row by row under the live page, and a real server on a free port."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from twoclocks.report.live import app
from twoclocks.report.live.catalogue import Catalogue
from twoclocks.report.live.guard import Guard
from twoclocks.report.live.server import listen
from twoclocks.runs import Run
from twoclocks.store import RunDirectory


class GrowingRun:
    """A copy of a finished run that gets its evaluations one after the other."""

    def __init__(self, template: Run, path: Path, evaluations: int = 0) -> None:
        self.template, self.path = template, path
        self.directory = RunDirectory.create(path, template.manifest)
        self.rows = template.directory.journal.rows()
        self.timings = template.directory.timings.rows()
        self.directory.set_status("running", attempts=[{"from_step": 0}])
        self.directory.journal.begin(0)
        self.directory.timings.begin(0)
        self.count = 0
        self.add(evaluations)

    def add(self, evaluations: int = 1) -> None:
        """The next evaluations, each with its samples, as a run writes them."""
        for row, timing in list(zip(self.rows, self.timings, strict=True))[self.count : self.count + evaluations]:
            written = {}
            if "samples" in row:
                source = self.template.directory.artifacts["samples"].path(row["step"])
                written["samples"] = self.directory.artifacts["samples"].put(row["step"], source.read_bytes())
            values = {key: value for key, value in row.items() if not isinstance(value, str)}
            self.directory.append_metrics(values, written)
            self.directory.timings.append(timing)
            self.count += 1

    def rewind(self, count: int) -> None:
        """Keep the first evaluations, as a run does that continues at an earlier checkpoint."""
        self.directory.journal.begin(count)
        self.directory.timings.begin(count)
        self.count = count

    def end(self, status: str = "finished") -> None:
        self.directory.set_ended(status)


@contextmanager
def served(*folders: Path, token: str | None = None, poll: float = 0.05) -> Iterator[str]:
    """A server of these folders on a free port of this machine; the address of its page."""
    before, app.POLL_SECONDS = app.POLL_SECONDS, poll
    opened = listen("127.0.0.1", 0)
    port = opened.getsockname()[1]
    guarded = Guard(app.LivePage(Catalogue(folders)).app(), "127.0.0.1", port, token)
    server = uvicorn.Server(uvicorn.Config(guarded, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(10)
        opened.close()
        app.POLL_SECONDS = before
