"""ListOffsets: the offset of a special position of a log, or the first at or after a timestamp.

Versions 1 to 11. read_committed since 2, leader epochs since 4. Special timestamps: -3 (the newest timestamp)
since 7, -4 (earliest local) since 8, -5 (latest tiered) since 9, -6 (earliest not tiered) since 11.
"""

from collections.abc import Awaitable, Sequence
from typing import Final, NamedTuple

from ottla.logstore.log_reader import SegmentsChanged
from ottla.logstore.partition_log import MAX_TIMESTAMP, FetchIsolation
from ottla.logstore.segment import TimestampAndOffset
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import PARTITIONS, ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Delayed, Result
from ottla.node.replica.partition import Partition
from ottla.node.services import Services
from ottla.node.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.node.wire.request_limits import MANY_PARTITIONS, TOPIC, RequestLimits
from ottla.node.work.fair_pool import Allowance
from ottla.node.work.turns import Steps, Turn, at_once, distinct, take_turns

API: Final = ApiDescription(
    versions=(1, 11),
    asks=Asks(by_handler=((AclOperation.DESCRIBE, ResourceType.TOPIC),)),
    limits=RequestLimits(MANY_PARTITIONS, {"topics.name": TOPIC}),
    echoes=(Echo("topics", "topics", ("name",), PARTITIONS),),
    changes_nothing=True,
)

_CONSUMER = -1
_READ_COMMITTED = 1
# A search starts over if a segment was deleted meanwhile.
MAX_SEARCHES = 10
# Limits for all lookups by time of one request together: some 30 ms of CPU each for hundreds of partitions,
# and 4 GiB of decompressed bytes. A usual lookup takes a millisecond; beyond the limits clients retry.
MAX_CPU_S = 10.0
MAX_STEPS = 16 * 1024
# Special timestamp -> the first version that has it.
_SPECIAL_SINCE = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}


class _Search(NamedTuple):
    """A lookup by time that a thread makes, and the list and index of its answer."""

    partition: Partition
    timestamp: int
    answers: list[ListOffsetsPartitionResponse]
    answer_index: int
    partition_index: int


def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> Result[ListOffsetsResponse]:
    if request.replica_id >= 0 and context.connection.peer_id != request.replica_id:
        return _refuse_follower(request)
    if request.replica_id != _CONSUMER:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level == _READ_COMMITTED:
        isolation = FetchIsolation.TXN_COMMITTED
    else:
        isolation = FetchIsolation.HIGH_WATERMARK
    searches: list[_Search] = []
    steps = _answer_all(services, context, request, isolation, searches)
    if context.is_large:
        return _finish(services, context, take_turns(steps), searches, isolation)
    response = at_once(steps)
    if not searches:
        return response
    searching = _search_all(services, context, response, searches, isolation)
    return Delayed(searching, _as_it_is, ends_with_client=True)


def _as_it_is(response: ListOffsetsResponse) -> ListOffsetsResponse:
    return response


def _refuse_follower(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Reject the request of a client that has not proven to be a node: it may read committed offsets only."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_answer(one.partition_index, code, None) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _finish(
    services: Services,
    context: RequestContext,
    response: Awaitable[ListOffsetsResponse],
    searches: list[_Search],
    isolation: FetchIsolation,
) -> ListOffsetsResponse:
    return await _search_all(services, context, await response, searches, isolation)


def _answer_all(
    services: Services,
    context: RequestContext,
    request: ListOffsetsRequest,
    isolation: FetchIsolation,
    searches: list[_Search],
) -> Steps[ListOffsetsResponse]:
    """Answer all partitions except those that need opened batches, which are added to `searches`."""
    version, access = context.api_version, context.access
    named = ((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    _, repeated = yield from distinct(named)
    refused: set[tuple[str, int]] = set()
    topics = []
    for topic in request.topics:
        is_allowed = access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
        answers: list[ListOffsetsPartitionResponse] = []
        for wanted in topic.partitions:
            yield
            index, timestamp = wanted.partition_index, wanted.timestamp
            key = topic.name, index
            if key in refused:
                continue
            code = ErrorCode.NONE
            found = None
            try:
                if not is_allowed:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if key in repeated:
                    refused.add(key)
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                partition = _partition_of(services, version, topic.name, wanted)
                if timestamp >= 0 or timestamp == MAX_TIMESTAMP:
                    searches.append(_Search(partition, timestamp, answers, len(answers), index))
                else:
                    found = partition.offset_for_timestamp(timestamp, isolation)
            except KafkaError as error:
                code = _code_of(error, version)
            answers.append(_answer(index, code, found))
        if answers:
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _partition_of(services: Services, version: int, topic: str, wanted: ListOffsetsPartition) -> Partition:
    timestamp = wanted.timestamp
    if timestamp < 0 and version < _SPECIAL_SINCE.get(timestamp, 2**15):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition = services.replica_manager.partition((topic, wanted.partition_index))
    partition.check_leader(wanted.current_leader_epoch)
    return partition


async def _search_all(
    services: Services,
    context: RequestContext,
    response: ListOffsetsResponse,
    searches: Sequence[_Search],
    isolation: FetchIsolation,
) -> ListOffsetsResponse:
    """Look up times in a thread: a batch is opened for each, and its index may not be in memory.

    Lookups that are left when the allowance of the request is used up are answered with REQUEST_TIMED_OUT,
    which clients retry.
    """
    allowance = Allowance(cpu_s=MAX_CPU_S, steps=MAX_STEPS)
    turn = Turn()  # partitions that are rejected at once wait for nothing
    for one in searches:
        await turn.step()
        code = ErrorCode.NONE
        found = None
        try:
            found = one.partition.offset_to_show(
                one.timestamp, await _search(services, context, one, allowance), isolation
            )
        except KafkaError as error:
            code = _code_of(error, context.api_version)
            if error.code is ErrorCode.CORRUPT_MESSAGE:
                services.maintenance.scrub.soon(one.partition.topic_partition)
        one.answers[one.answer_index] = _answer(one.partition_index, code, found)
    return response


async def _search(
    services: Services, context: RequestContext, wanted: _Search, allowance: Allowance
) -> TimestampAndOffset | None:
    partition = wanted.partition
    for _ in range(MAX_SEARCHES):
        search = partition.log.time_search(wanted.timestamp)
        try:
            return await services.time_pool.submit(context.connection, search.run, allowance=allowance)
        except SegmentsChanged:
            continue
        except OSError as error:
            raise partition.log.flush_failed(error) from error
    raise KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"Segments of {partition.topic_partition} were deleted during each attempt to look up offsets.",
    )


def _code_of(error: KafkaError, version: int) -> ErrorCode:
    """Return the code for the client: OFFSET_NOT_AVAILABLE exists since version 5 (KIP-207)."""
    is_unknown = error.code is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5
    return ErrorCode.LEADER_NOT_AVAILABLE if is_unknown else error.code


def _answer(index: int, code: ErrorCode, found: TimestampAndOffset | None) -> ListOffsetsPartitionResponse:
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )
