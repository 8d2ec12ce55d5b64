"""Sweeps of one test process share a warm fork server: starting one means importing torch, which takes seconds."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from twoclocks.sweeps.local import LocalPool

IDLE: list[subprocess.Popen[bytes]] = []  # servers whose last pool was closed with nothing left to run


@pytest.fixture(scope="session", autouse=True)
def no_server_is_left_behind() -> Iterator[None]:
    yield
    for server in IDLE:
        server.kill()
        server.communicate()


@pytest.fixture(autouse=True)
def warm_server(monkeypatch: pytest.MonkeyPatch) -> None:
    send, close = LocalPool.send, LocalPool.close

    def send_to_idle_server(self: LocalPool, message: dict[str, Any]) -> None:
        if self.server is None and IDLE:
            self.server = IDLE.pop()
        send(self, message)

    def close_or_keep_server(self: LocalPool) -> None:
        if self.running or self.server is None or self.server.poll() is not None:
            close(self)
        else:
            IDLE.append(self.server)
            self.server = None

    monkeypatch.setattr(LocalPool, "send", send_to_idle_server)
    monkeypatch.setattr(LocalPool, "close", close_or_keep_server)
