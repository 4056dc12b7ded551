"""The addresses at which this node reaches the other nodes of its cluster."""

from collections.abc import Callable

from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.quorum import Quorum
from ottla.node.node_state import NodeState


class PeerAddresses:
    """An address book, empty until `follow` or `ask` gives it a source."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._image: Callable[[], MetadataImage] = MetadataImage
        self._endpoint_by_quorum: Callable[[int], Endpoint | None] = lambda node_id: None

    def ask(self, quorum: Quorum) -> None:
        """Use the addresses that voters sent to the quorum, until the voters have registered."""
        self._endpoint_by_quorum = quorum.endpoint_of

    def follow(self, image: Callable[[], MetadataImage]) -> None:
        """Use the addresses that nodes have registered in the metadata."""
        self._image = image

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Return the address of a node: as it registered, or as a voter sent it to the quorum."""
        broker = self._image().brokers.get(node_id)
        registered = broker and broker.endpoint_for_peers(self._state.config.inter_broker_listener_name)
        if broker is not None and registered is not None and not broker.fenced:
            return registered
        return self._endpoint_by_quorum(node_id) or registered

    def is_only_controller(self, node_id: int) -> bool:
        """Return True if a node is only a controller: it serves other nodes at its controller listener."""
        image, endpoint = self._image(), self._endpoint_by_quorum(node_id)
        if endpoint is None or node_id in image.brokers:
            return False
        configured = self._state.config.controller_quorum_voters
        ports = {one.port for one in configured if one.node_id == node_id}
        ports |= {
            point.port
            for voter in image.voters
            if voter.voter_id == node_id
            for point in voter.endpoints.values()
        }
        return endpoint.port in ports

    def hosts_of(self, node_id: int) -> set[str]:
        """Return the hosts by which the cluster knows a node."""
        broker = self._image().brokers.get(node_id)
        endpoints = [] if broker is None else [*broker.listeners.values()]
        endpoint = self._endpoint_by_quorum(node_id)
        voters = self._state.config.controller_quorum_voters
        return {
            *(one.host for one in endpoints),
            *(one.host for one in [endpoint] if one is not None),
            *(one.host for one in voters if one.node_id == node_id),
        }

    def host_names(self) -> list[str]:
        """Return the host names under which the nodes of the cluster are registered."""
        brokers = self._image().brokers.values()
        return [endpoint.host for one in brokers for endpoint in one.listeners.values()]
