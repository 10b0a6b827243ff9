"""Ports for the servers that tests start."""

import random
import socket
from contextlib import ExitStack

#: Below those that Linux gives to whoever asks for any, among which one that was free may be taken before it is used.
RANGE = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface on which nobody listens."""
    found: list[int] = []
    with ExitStack() as open_sockets:
        for port in random.Random().sample(RANGE, len(RANGE)):
            if len(found) == count:
                break
            each = open_sockets.enter_context(socket.socket())
            try:
                each.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    assert len(found) == count
    return found
