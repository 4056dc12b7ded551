"""A node as probes, metrics and the REST API see it while it starts, serves and stops."""

from collections.abc import Sequence

from ottla.node.net.listener import Listener
from ottla.node.node_state import NodeState
from ottla.node.security.security_reload import SecurityReload
from ottla.node.services import QuorumServices, Services, StartTask
from ottla.node.settings.config import BrokerConfig


class NodeView:
    """Holds the parts of a node that are there already; read on the node's loop."""

    def __init__(
        self,
        state: NodeState,
        start_task: StartTask,
        listeners: Sequence[Listener],
        listener_tls: SecurityReload,
    ) -> None:
        self.state = state
        self.listener_tls = listener_tls
        self.start_task = start_task
        self.listeners = listeners
        self.quorum_services: QuorumServices | None = None  # None while it looks for the metadata quorum
        self._services: Services | None = None

    @property
    def config(self) -> BrokerConfig:
        """The settings that are valid now."""
        return self.state.config

    @property
    def has_services(self) -> bool:
        """Return whether the node has come so far that it has `services`."""
        return self._services is not None

    @property
    def services(self) -> Services:
        """What a node has whose logs are open: ask only then."""
        assert self._services is not None, "the logs of the node are not open yet"
        return self._services

    def serves_peers(self, services: QuorumServices) -> None:
        """Show the metadata from now on."""
        self.quorum_services = services

    def serves_clients(self, services: Services) -> None:
        """Show everything from now on."""
        self._services = services
