"""The connections of a process to the nodes of one cluster, each opened when it is first needed.

Control and data have separate connections, so that a metadata request never waits behind a fetch. A child
that Spark forks does not use its parent's connections: two processes on one socket would read each other's
answers.
"""

import os
import socket
from collections.abc import Iterable
from enum import Enum
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.connection import BrokerConnection
from ottla.pipeline.client.first_contact import FirstContact
from ottla.pipeline.client.setting_names import PREFIX
from ottla.pipeline.words import OptionError

MAX_NODES: Final = 10_000  # in one answer; far above Kafka's largest clusters


class Purpose(Enum):
    """The use of a connection: short requests, or rows in or out."""

    CONTROL = "control"
    FETCH = "fetch"
    PRODUCE = "produce"


class BrokerConnections:
    """Connections by node and purpose; addresses of nodes are learnt from metadata."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._pid = os.getpid()
        self._addresses: dict[int, tuple[str, int]] = {}
        self._open: dict[tuple[str, int, Purpose], BrokerConnection] = {}
        self._last_node: tuple[str, int] | None = None  # the node that `to_any` chose last
        self._passed_over: dict[tuple[str, int], int] = {}  # the number of times
        self._contact = FirstContact()

    def learn(self, nodes: Iterable[tuple[int, str, int]]) -> None:
        """Replace the nodes of the cluster, (id, host, port) each; connections to others are closed."""
        addresses = {node_id: (host, port) for node_id, host, port in nodes}
        if len(addresses) > MAX_NODES:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{len(addresses)} nodes; at most {MAX_NODES} are allowed"
            )
        self._addresses = addresses
        kept = {*addresses.values(), *self.settings.bootstrap_servers}
        for host, port, purpose in list(self._open):
            if (host, port) not in kept:
                self._open.pop((host, port, purpose)).close()

    def knows(self, node_id: int) -> bool:
        """Return True if the last metadata had that node."""
        return node_id in self._addresses

    def nodes(self) -> list[int]:
        """Return the nodes of the last metadata, in order."""
        return sorted(self._addresses)

    def to(self, node_id: int, purpose: Purpose) -> BrokerConnection:
        """Return a connection to one node; LEADER_NOT_AVAILABLE (retriable) if the cluster lacks it now."""
        address = self._addresses.get(node_id)
        if address is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"node {node_id} is not in the cluster at the moment"
            )
        return self._to(address, purpose)

    def pass_over(self) -> None:
        """Prefer another node next time: the last answer was stale, perhaps from a node that is cut off.

        A node is counted once for all requests since the last call, so a node that was not asked is not
        demoted.
        """
        node, self._last_node = self._last_node, None
        if node is not None:
            self._passed_over[node] = self._times_passed_over(node) + 1

    def to_any(self) -> BrokerConnection:
        """Return a connection to the first node that answers: open ones, bootstrap addresses, all others.

        Nodes that were passed over more often come later. Raises NETWORK_EXCEPTION if none answers, and
        OptionError if no bootstrap address has a name that can be resolved.
        """
        self._close_after_fork()
        addresses = dict.fromkeys((*self.settings.bootstrap_servers, *self._addresses.values()))
        least = min(map(self._times_passed_over, addresses))
        for (host, port, purpose), connection in list(self._open.items()):
            is_preferred = purpose is Purpose.CONTROL and self._times_passed_over((host, port)) <= least
            if is_preferred and connection.is_open():
                self._last_node = host, port
                return connection
        problems = []
        for address in sorted(addresses, key=self._times_passed_over):
            self._last_node = address
            try:
                return self._to(address, Purpose.CONTROL)
            except KafkaError as error:
                self.pass_over()
                problems.append(error)
        if not self._addresses and not any(map(_is_name_known, self.settings.bootstrap_servers)):
            raise OptionError(PREFIX + "bootstrap.servers", "none of these host names can be resolved")
        # An error that waiting cannot mend, as from a server that does not speak Kafka, is the better report.
        raise next((one for one in problems if not one.code.retriable), problems[0])

    def close(self) -> None:
        """Close all connections of this process; they are opened again when needed."""
        opened, self._open = self._open, {}
        for connection in opened.values():
            connection.close()

    def _times_passed_over(self, address: tuple[str, int]) -> int:
        return self._passed_over.get(address, 0)

    def _to(self, address: tuple[str, int], purpose: Purpose) -> BrokerConnection:
        self._close_after_fork()
        key = (*address, purpose)
        connection = self._open.get(key)
        if connection is None or not connection.is_open():
            self._open.pop(key, None)
            connection = self._open[key] = BrokerConnection.connect(*address, self.settings, self._contact)
        return connection

    def _close_after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self.close()  # closes this process's descriptors only: the parent's connections stay open


def _is_name_known(address: tuple[str, int]) -> bool:
    try:
        return bool(socket.getaddrinfo(*address))
    except OSError:
        return False
