"""As sitecustomize.py: each Python process notes, and refuses, whatever would leave this machine."""

import os
import sys

EVENTS = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"}
HERE = ("127.", "::1", "localhost", "0.0.0.0", "::")


def leaves(event: str, arguments: tuple) -> bool:
    """Whether a call is about another machine: sockets of the file system and loopback are not."""
    address = arguments[1] if event in {"socket.connect", "socket.sendto", "socket.sendmsg"} else arguments[0]
    host = address[0] if isinstance(address, tuple) and address else address
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"} and not isinstance(address, tuple):
        return False
    host = host.decode() if isinstance(host, bytes) else host
    return bool(host) and not str(host).startswith(HERE)


def watch(event: str, arguments: tuple) -> None:
    if event in EVENTS and leaves(event, arguments):
        with open(os.environ["OFFLINE_LOG"], "a", encoding="utf-8") as stream:  # noqa: PTH123 (nothing more to import)
            stream.write(f"{sys.argv[:2]} {event} {arguments[-1] if event == 'socket.connect' else arguments[:2]}\n")
        raise PermissionError(f"{event}: no network in this test")


if "OFFLINE_LOG" in os.environ:
    sys.addaudithook(watch)
