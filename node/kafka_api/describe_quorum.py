"""DescribeQuorum: the voters of the metadata quorum, its leader, and the progress of all (KIP-595, KIP-853).

Only the leader knows the progress of the others, so other nodes ask it. A node that is cut off from the
quorum returns the voters that it last knew, if the client accepts old data.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import METADATA_TOPIC
from ottla.metadata_raft.quorum import QuorumStatus, ReplicaStatus
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.connection_info import NO_PEER
from ottla.node.services import Services
from ottla.node.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataResponse,
    ReplicaState,
    TopicDataResponse,
)
from ottla.node.wire.request_limits import MANY, TOPIC, RequestLimits

API: Final = ApiDescription(
    versions=(0, 2),
    asks=Asks(of_cluster=AclOperation.DESCRIBE),
    limits=RequestLimits(MANY, {"topics.topic_name": TOPIC}),
    changes_nothing=True,
)

FORWARD_TIMEOUT_S = 5.0
PURPOSE = "command"


async def handle(
    services: Services, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    metadata, since_ms = services.metadata, services.cut_off_since_ms
    if since_ms is not None and request.accepts_old:
        # No progress is returned: this node knows only its own, and that of the others from before it was cut
        # off.
        status = metadata.quorum_status()._replace(leader_id=-1, observers=(), voters=_known_voters(services))
        return _response(services, request, status, may_answer=True, cut_off_since_ms=since_ms)
    if not metadata.is_controller and context.connection.peer_id == NO_PEER:
        try:
            return await services.peers.ask(
                metadata.controller_id, PURPOSE, request, DescribeQuorumResponse, FORWARD_TIMEOUT_S
            )
        except KafkaError as error:
            return DescribeQuorumResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=error.detail)
    return _response(services, request, metadata.quorum_status(), may_answer=metadata.is_controller)


def _known_voters(services: Services) -> list[ReplicaStatus]:
    voters = services.metadata.image.voters
    if voters:
        return [ReplicaStatus(one.voter_id, one.directory_id, -1, -1, -1) for one in voters]
    configured = services.config.controller_quorum_voters
    return [ReplicaStatus(one.node_id, ZERO_UUID, -1, -1, -1) for one in configured]


def _response(
    services: Services,
    request: DescribeQuorumRequest,
    status: QuorumStatus,
    *,
    may_answer: bool,
    cut_off_since_ms: int = -1,
) -> DescribeQuorumResponse:
    # As in Apache Kafka, a request must name the metadata partition exactly once: each repetition would be
    # answered with all voters.
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if [(one.topic_name, [each.partition_index for each in one.partitions]) for one in request.topics] == [
        (METADATA_TOPIC, [0])
    ]:
        error = ErrorCode.NONE if may_answer else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return DescribeQuorumResponse(
        error_message=None,
        cut_off_since_ms=cut_off_since_ms,
        topics=[
            TopicDataResponse(
                topic_name=topic.topic_name,
                partitions=[_partition(one.partition_index, status, error) for one in topic.partitions],
            )
            for topic in request.topics
        ],
        nodes=_nodes(services),
    )


def _partition(index: int, status: QuorumStatus, error: ErrorCode) -> PartitionDataResponse:
    if error is not ErrorCode.NONE:
        return PartitionDataResponse(partition_index=index, error_code=error, error_message=None)
    return PartitionDataResponse(
        partition_index=index,
        error_message=None,
        leader_id=status.leader_id,
        leader_epoch=status.epoch,
        high_watermark=status.high_watermark,
        current_voters=[_replica(one) for one in status.voters],
        observers=[_replica(one) for one in status.observers],
    )


def _replica(status: ReplicaStatus) -> ReplicaState:
    return ReplicaState(
        replica_id=status.node_id,
        replica_directory_id=status.directory_id,
        log_end_offset=status.log_end_offset,
        last_fetch_timestamp=status.last_fetch_ms,
        last_caught_up_timestamp=status.last_caught_up_ms,
        is_disk_old=status.is_disk_old,
        is_disk_copied=status.is_disk_copied,
    )


def _nodes(services: Services) -> list[Node]:
    """Return the listeners of the voters' controllers."""
    image, config = services.metadata.image, services.config
    if image.voters:
        return [
            Node(
                node_id=voter.voter_id,
                listeners=[
                    Listener(name=name, host=point.host, port=point.port)
                    for name, point in sorted(voter.endpoints.items())
                ],
            )
            for voter in image.voters
        ]
    name = next((one.name for one in config.controller_listeners), "CONTROLLER")
    return [
        Node(node_id=one.node_id, listeners=[Listener(name=name, host=one.host, port=one.port)])
        for one in config.controller_quorum_voters
    ]
