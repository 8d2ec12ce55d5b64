"""The addresses of the live page, and the task that reads the folders again and again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from twoclocks.report.live.catalogue import Catalogue
from twoclocks.report.live.events import EventLog
from twoclocks.report.live.pages import ASSETS, THEME, asset, data_of, encoded, page_of
from twoclocks.report.live.watched import Change, Watched, clocks_and_decision

POLL_SECONDS = 1.0  # between two readings
FIRST_SECONDS = 1.0  # before the first answer
BATCH = 8  # runs that are read before pages hear of them
PING_SECONDS = 15  # so that a connection that nobody reads is noticed


class LivePage:
    """Answers requests from what was last read."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue, self.log = catalogue, EventLog()

    def app(self) -> Starlette:
        routes = [
            Route("/", self.table),
            Route("/index.html", self.table),
            Route("/run-{name}.html", self.run),
            Route("/assets/{name}", self.asset),
            Route("/data/runs.json", self.data),
            Route("/data/{kind}-{name}.json", self.data),
            Route("/events", self.events),
        ]
        return Starlette(routes=routes, lifespan=self.lifespan)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(self.glance)
        watching = asyncio.create_task(self.watch())
        yield
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching

    def glance(self) -> None:
        """Know all runs by name and state, or as many as the first page may wait for; their rows take longer."""
        self.catalogue.discover()
        until = time.monotonic() + FIRST_SECONDS
        for entry in self.catalogue.entries.values():
            if time.monotonic() < until:
                entry.glance()

    async def watch(self) -> None:
        """Read all folders again and again, and tell the pages that wait what has changed."""
        sweeps: Any = None
        while True:
            await asyncio.to_thread(self.catalogue.discover)
            # At first, those that train are of more interest than those that have ended.
            entries = sorted(self.catalogue.entries.values(), key=lambda entry: entry.state != "running")
            for first in range(0, len(entries), BATCH):
                if await asyncio.to_thread(self.poll, entries[first : first + BATCH]):
                    self.log.wake()
            found = self.catalogue.sweeps()
            if found != sweeps:
                sweeps = found
                self.log.append("sweeps", "", {"sweeps": found})
                self.log.wake()
            await asyncio.sleep(POLL_SECONDS)

    def poll(self, entries: Sequence[Watched]) -> bool:
        """Read some runs; whether any has changed."""
        changed = False
        for entry in entries:
            change = entry.poll()
            if change is not None:
                self.publish(entry, change)
                changed = True
        return changed

    def publish(self, entry: Watched, change: Change) -> None:
        """One event for tables, one with new points and clocks for the page of this run."""
        self.log.append("run", entry.id, self.catalogue.row(entry))
        rows = {"points": change.points, **clocks_and_decision(entry.decision, entry.policy)}
        self.log.append("rows", entry.id, rows)

    def table(self, request: Request) -> Response:
        return Response(page_of(None), media_type="text/html")

    def run(self, request: Request) -> Response:
        name = request.path_params["name"]
        return Response(page_of(name), media_type="text/html") if name in self.catalogue.entries else unknown()

    def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        kind = "text/css" if name == THEME else ASSETS.get(name)
        return unknown() if kind is None else Response(asset(name), media_type=kind)

    def data(self, request: Request) -> Response:
        kind, name = request.path_params.get("kind", "runs"), request.path_params.get("name", "")
        if name in self.catalogue.entries and not self.catalogue.entries[name].version:
            self.poll([self.catalogue.entries[name]])  # its turn has not come yet
        number = self.log.last  # before the data: events after it may tell again what they already contain
        found = data_of(self.catalogue, kind, name) if kind in ("runs", "run", "details") else None
        if found is None:
            return unknown()
        return Response(encoded({**found, "event": self.log.name(number)}), media_type="application/json")

    async def events(self, request: Request) -> Response:
        run = request.query_params.get("run")
        since = request.headers.get("last-event-id") or request.query_params.get("after", "")
        if request.method == "HEAD":  # a stream has no end to wait for
            return Response(media_type="text/event-stream")
        return EventSourceResponse(self.stream(run, since), ping=PING_SECONDS)

    async def stream(self, run: str | None, since: str) -> AsyncIterator[ServerSentEvent]:
        """Events after one that the page names: of all runs for the table, of one run for its page."""
        number = self.log.number(since)
        while True:
            changed = self.log.changed  # before the events: none is missed between the two
            found = None if number is None else self.log.after(number)
            if found is None:
                number = self.log.last
                yield ServerSentEvent("{}", event="reset", id=self.log.name(number))
                continue
            for event in found:
                number = event.number
                wanted = event.run == run if run else event.kind != "rows"
                if wanted:
                    yield ServerSentEvent(encoded(event.data).decode(), event=event.kind, id=self.log.name(number))
            await changed.wait()


def unknown() -> Response:
    return PlainTextResponse("there is no such page", status_code=404)
