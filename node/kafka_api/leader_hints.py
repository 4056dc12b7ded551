"""Where the leader of a partition is now, told with the error, so that clients need not ask (KIP-951)."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.request_context import ConnectionInfo
from ottla.node.services import Services

# The errors that mean "this client's idea of the leader is old".
WRONG_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def controller_to_name(services: Services, reachable: Sequence[int]) -> int:
    """The broker to which clients send what the controller decides: the controller while it is there.

    Else this one, for each passes it on: a client that is told of one that has just died waits for it. So
    too while this node is cut off from the quorum: clients that know no controller do not even ask for what
    any node can tell. Ottla's own tools read who leads from a field of their own.
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
    """A leader, its epoch, and where a client of this connection reaches it."""

    leader_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None


def leader_hint(
    services: Services, connection: ConnectionInfo, topic: str, partition: int
) -> LeaderHint | None:
    """The present leader of a partition, None while there is none that can be reached."""
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
