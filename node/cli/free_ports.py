"""Checks that the ports of a local cluster are free before its nodes are started."""

import errno
import socket
from collections.abc import Iterable

from ottla.node.cli.failure import CommandError


def refuse_taken_ports(host: str, ports: Iterable[int]) -> None:
    """Raise CommandError for the first port that another process listens on."""
    for port in ports:
        with socket.socket() as probe:
            # As a listener does: connections of an earlier process that linger do no harm.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise CommandError(
                        f"Port {port} of {host} is already in use; choose other ports with --base-port."
                    ) from None
                raise CommandError(f"Port {port} of {host} cannot be opened: {error.strerror}.") from None
