"""The current leader of a partition, returned with an error to save a Metadata request (KIP-951)."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.request_context import ConnectionInfo
from ottla.node.services import Services

# The errors that mean "this client's idea of the leader is old".
WRONG_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def advertised_controller(services: Services, reachable: Sequence[int]) -> int:
    """Return the broker to which clients should send requests for the controller.

    It is the controller if it can be reached, and otherwise this broker, since each broker forwards such
    requests: a client that is directed to a dead controller would wait for it. It is this broker too while
    this node is cut off from the quorum, because clients that know no controller do not even send requests
    that any node can answer. If the client cannot reach this broker either, it is any that it can reach, or
    -1. Ottla's own tools read the actual controller from a field of its own.
    """
    own_id, controller_id = services.config.node_id, services.metadata.controller_id
    is_there = controller_id == own_id or (
        controller_id >= 0 and services.peers.has_connection(controller_id)
    )
    is_there = is_there and services.cut_off_since_ms is None
    if controller_id in reachable and is_there:
        return controller_id
    return own_id if own_id in reachable else min(reachable, default=-1)


class LeaderHint(NamedTuple):
    """A leader, its epoch, and the address at which a client of this connection reaches it."""

    leader_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None


def leader_hint(
    services: Services, connection: ConnectionInfo, topic: str, partition: int
) -> LeaderHint | None:
    """Return the current leader of a partition, or None if it has none or it is not reachable."""
    image = services.metadata.image
    topic_image = image.topics.by_name.get(topic)
    if topic_image is None or not 0 <= partition < len(topic_image.partitions):
        return None
    partition_image = topic_image.partitions[partition]
    leader_id = partition_image.leader
    leader = image.brokers.get(leader_id)
    endpoint = services.endpoint_of(leader_id, connection)
    if leader is None or endpoint is None:
        return None
    return LeaderHint(leader_id, partition_image.leader_epoch, endpoint.host, endpoint.port, leader.rack)
