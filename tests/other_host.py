"""The command on a machine whose name can be searched for in what it writes."""

from __future__ import annotations

import os
import platform
import socket

from twoclocks.cli import main as command


def main() -> int:
    name = os.environ["HOSTNAME"]
    socket.gethostname = platform.node = lambda: name
    return command()
