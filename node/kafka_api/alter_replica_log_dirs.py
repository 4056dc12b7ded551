"""AlterReplicaLogDirs: moves replicas to other log directories of this node (KIP-113). Versions 1 and 2.

The response means that the move has begun. The log is copied in the background, and the copy replaces it when
it has caught up; until then DescribeLogDirs shows it as a future replica.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation
from ottla.node.kafka_api.api_description import PARTITIONS, ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.node.wire.request_limits import MANY_PARTITIONS, PATH, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, at_once, take_turns

API: Final = ApiDescription(
    versions=(1, 2),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(MANY_PARTITIONS, {"dirs.path": PATH, "dirs.topics.name": TOPIC}),
    echoes=(Echo("dirs.topics", "results", ("name>topic_name",), PARTITIONS),),
)


async def handle(
    services: Services, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    steps = _answer(services, request)
    return await take_turns(steps) if context.is_large else at_once(steps)


def _answer(services: Services, request: AlterReplicaLogDirsRequest) -> Steps[AlterReplicaLogDirsResponse]:
    """Start the moves; return the result for each partition."""
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index,
                        error_code=_move(services, TopicPartition(topic.name, index), directory.path),
                    )
                )
                yield
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def _move(services: Services, topic_partition: TopicPartition, path: str) -> ErrorCode:
    target = next((one.path for one in services.log_manager.dirs if str(one.path.absolute()) == path), None)
    known = services.metadata.image.topics.partition(topic_partition)
    try:
        if target is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        services.log_manager.move_to_dir(topic_partition, target)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
