"""Who may ask, and what browsers may do with the answer: host names, token, methods, headers."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
METHODS = ("GET", "HEAD")


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be reached from this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_name(header: str) -> str:
    """The name in a Host header, without the port.

    >>> host_name("localhost:8765"), host_name("[::1]:8765"), host_name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


class Guard:
    """Lets a request through if it is GET or HEAD, names this server and, where there is a token, has it.

    A page of somebody else can make its own name point to this machine (DNS rebinding). Its requests then carry that
    name as Host. Addresses cannot be made to point elsewhere: they are accepted, and the names of this machine.
    """

    def __init__(self, app: App, host: str, port: int, token: str | None) -> None:
        self.app, self.token, self.remote = app, token, not is_loopback(host)
        names = {"localhost", host.lower()}
        self.names = names | {socket.gethostname().lower(), socket.getfqdn().lower()} if self.remote else names
        self.cookie = f"twoclocks-{port}"  # browsers send a cookie to every port of a host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self.refusal(scope, headers)
        if refused is not None:
            await answer(send, *refused)
            return

        open_body = False

        async def guarded(message: Message) -> None:
            nonlocal open_body
            open_body = message.get("more_body", message["type"] == "http.response.start")
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0].decode("latin-1").lower() not in HEADERS]
                message["headers"] = [*kept, *encoded(HEADERS)]
            await send(message)

        await self.app(scope, receive, guarded)
        if open_body:  # a stream of events that the end of the server cuts short
            await send({"type": "http.response.body", "body": b""})

    def refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, dict[str, str]] | None:
        """Status, text and headers of the answer to a request that is not let through."""
        if not self.is_here(headers.get("host", "")):
            return 421, "this server does not have that name; use the address that it printed", {}
        if scope["method"] not in METHODS:
            return 405, "this page is only read: use GET", {"allow": ", ".join(METHODS)}
        if self.token is None:
            return None
        query = [pair for pair in scope["query_string"].decode("latin-1").split("&") if pair]
        given = next((pair.partition("=")[2] for pair in query if pair.startswith("token=")), None)
        if given is not None and self.is_token(given):
            # The token leaves the address bar and the history; from now on the cookie has it.
            rest = "&".join(pair for pair in query if not pair.startswith("token="))
            cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            where = "/" + scope["path"].lstrip("/") + (f"?{rest}" if rest else "")
            return 303, "", {"location": where, "set-cookie": cookie}
        if self.is_token(self.cookie_in(headers.get("cookie", ""))):
            return None
        return 403, "the address needs the token that the server printed: /?token=…", {}

    def is_here(self, header: str) -> bool:
        """Whether a Host header names this server."""
        name = host_name(header).lower()
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return self.remote or address.is_loopback

    def is_token(self, given: str) -> bool:
        """Compared in constant time, so that answers do not tell how much of a guess is right."""
        return self.token is not None and secrets.compare_digest(given.encode(), self.token.encode())

    def cookie_in(self, header: str) -> str:
        """The token in a Cookie header: pairs ``name=value`` between semicolons; empty if there is none."""
        pairs = (pair.strip().partition("=") for pair in header.split(";"))
        return next((value for name, _, value in pairs if name == self.cookie), "")


def encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def answer(send: Send, status: int, text: str, headers: dict[str, str]) -> None:
    """A short plain answer."""
    body = f"{text}\n".encode()
    plain = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
    start = {"type": "http.response.start", "status": status, "headers": encoded({**HEADERS, **plain, **headers})}
    await send(start)
    await send({"type": "http.response.body", "body": body})
