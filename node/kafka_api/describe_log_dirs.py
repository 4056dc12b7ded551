"""DescribeLogDirs: the log directories of this node, their logs, and the size of their disks (KIP-113).

Versions 1 to 5. Disk sizes since 4 (KIP-827); `is_cordoned` since 5: Ottla cannot cordon a directory.
"""

from collections.abc import Coroutine, Iterator
from typing import Any, Final

from ottla.logstore.log_dir import LogDir
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.volume import volume_bytes
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.node.wire.request_limits import MANY_PARTITIONS, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, distinct, one_turn_at_once

API: Final = ApiDescription(
    versions=(1, 5),
    asks=Asks(of_cluster=AclOperation.DESCRIBE),
    limits=RequestLimits(MANY_PARTITIONS, {"topics.topic": TOPIC}),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Coroutine[Any, Any, DescribeLogDirsResponse]:
    return one_turn_at_once(_steps(services, request))


def _steps(services: Services, request: DescribeLogDirsRequest) -> Steps[DescribeLogDirsResponse]:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted, _ = yield from distinct(
            (topic.topic, index) for topic in request.topics for index in topic.partitions
        )
    results = []
    for log_dir in services.log_manager.dirs:
        results.append((yield from _describe(services, log_dir, wanted)))
    return DescribeLogDirsResponse(results=results)


def _describe(
    services: Services, log_dir: LogDir, wanted: set[tuple[str, int]] | None
) -> Steps[DescribeLogDirsResult]:
    path = str(log_dir.path.absolute())
    if not log_dir.is_online:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    # A list, since logs come and go between two steps.
    for name, log, is_future in list(_logs(services)):
        yield
        if log.directory.parent == log_dir.path and (wanted is None or name in wanted):
            topics.setdefault(name.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=name.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(services, name, log, is_future),
                    is_future_key=is_future,
                )
            )
    volume = volume_bytes(log_dir.path)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[
            DescribeLogDirsTopic(name=topic, partitions=partitions)
            for topic, partitions in sorted(topics.items())
        ],
        total_bytes=volume.total,
        usable_bytes=volume.usable,
    )


def _logs(services: Services) -> Iterator[tuple[TopicPartition, PartitionLog, bool]]:
    for name, log in services.log_manager.logs.items():
        yield name, log, False
    for name, log in services.log_manager.future_logs.items():
        yield name, log, True


def _lag(services: Services, name: TopicPartition, log: PartitionLog, is_future: bool) -> int:
    """Return the lag of a future log behind the current log, or of a replica behind its high watermark."""
    if not is_future:
        return max(0, log.high_watermark - log.log_end_offset)
    current = services.log_manager.logs.get(name)
    return 0 if current is None else current.log_end_offset - log.log_end_offset
