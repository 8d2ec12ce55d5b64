"""`twoclocks serve`: checks its arguments, opens the port and serves until it is interrupted."""

from __future__ import annotations

import contextlib
import errno
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.report.live.catalogue import Catalogue, check_folders
from twoclocks.report.live.guard import Guard, is_loopback

GRACE_SECONDS = 1  # for open connections, when the server ends

Report = Callable[[str], None]


def serve(folders: Sequence[Path], host: str, port: int, allow_remote: bool, report: Report) -> None:
    """Serve the page until Ctrl-C."""
    check_folders(folders)
    if not is_loopback(host) and not allow_remote:
        fix = "add --allow-remote, or use an SSH tunnel to 127.0.0.1"
        raise UserError(f"--host: {host!r} can be reached from other machines; {fix}")
    try:
        import uvicorn

        from twoclocks.report.live.app import LivePage
    except ImportError as error:
        raise UserError(f"serve: {error.name} is not installed; run pip install 'twoclocks[live]'") from None
    opened = listen(host, port)
    with contextlib.closing(opened):
        port = opened.getsockname()[1]
        token = None if is_loopback(host) else secrets.token_urlsafe(24)
        guard = Guard(LivePage(Catalogue(folders)).app(), host, port, token)
        config = uvicorn.Config(
            guard,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        report(f"Serving {', '.join(map(str, folders))}: {address(host, port, token)} (Ctrl-C ends)")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[opened])


def address(host: str, port: int, token: str | None) -> str:
    """What to open in a browser."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; UserError if the port is taken or the address is not one of this machine."""
    if not 0 <= port <= 65535:
        raise UserError(f"--port: {port} is not allowed; use a number from 0 (any free port) to 65535")
    try:
        kind, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise UserError(f"--host: {host!r} is not known; use an address of this machine, such as 127.0.0.1") from None
    found = socket.socket(kind, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(where)
        found.listen(128)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"--port: {port} is taken; use another one, such as --port {port + 1}") from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise UserError(f"--host: {host!r} is not an address of this machine; use 127.0.0.1") from None
        raise UserError(f"--port: {port} cannot be opened ({error.strerror}); use one above 1023") from None
    return found
