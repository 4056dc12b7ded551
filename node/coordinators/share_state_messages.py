"""Requests about the state of share-partitions in words and on the wire (APIs 83 to 87), both ways.

A request of the wire is about partitions of one group, topic by topic.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    SharePartitionKey,
    StateAnswer,
    StateBatch,
    StateRead,
    StateRequest,
    StateResult,
    StateSummary,
    WriteState,
    refused,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import uuid_from_text
from ottla.node.wire.messages import delete_share_group_state as delete
from ottla.node.wire.messages import initialize_share_group_state as initialize
from ottla.node.wire.messages import read_share_group_state as read
from ottla.node.wire.messages import read_share_group_state_summary as summary
from ottla.node.wire.messages import write_share_group_state as write

_INT: Final = re.compile(r"[+-]?[0-9]{1,10}")

A = TypeVar("A")  # an element of an answer

# ---- requests ----------------------------------------------------------------------------------------------


def initializations(request: initialize.InitializeShareGroupStateRequest) -> list[StateRequest]:
    return [
        InitializeState(key, one.state_epoch, one.start_offset) for key, one in _each(request, request.topics)
    ]


def reads(request: read.ReadShareGroupStateRequest) -> list[StateRequest]:
    return [ReadState(key, one.leader_epoch) for key, one in _each(request, request.topics)]


def summaries(request: summary.ReadShareGroupStateSummaryRequest) -> list[StateRequest]:
    return [ReadStateSummary(key, one.leader_epoch) for key, one in _each(request, request.topics)]


def writes(request: write.WriteShareGroupStateRequest) -> list[StateRequest]:
    return [
        WriteState(
            key,
            one.state_epoch,
            one.leader_epoch,
            one.start_offset,
            one.delivery_complete_count,
            [
                StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in one.state_batches
            ],
        )
        for key, one in _each(request, request.topics)
    ]


def deletions(request: delete.DeleteShareGroupStateRequest) -> list[StateRequest]:
    return [DeleteState(key) for key, _ in _each(request, request.topics)]


def _each(request: Any, topics: Iterable[Any]) -> Iterable[tuple[SharePartitionKey, Any]]:
    for topic in topics:
        for one in topic.partitions:
            yield SharePartitionKey(request.group_id, topic.topic_id, one.partition), one


# ---- answers -----------------------------------------------------------------------------------------------


def initialized(answers: Sequence[StateAnswer]) -> initialize.InitializeShareGroupStateResponse:
    return initialize.InitializeShareGroupStateResponse(
        results=_by_topic(answers, _result(initialize.PartitionResult), initialize.InitializeStateResult)
    )


def was_read(answers: Sequence[StateAnswer]) -> read.ReadShareGroupStateResponse:
    return read.ReadShareGroupStateResponse(results=_by_topic(answers, _read_result, read.ReadStateResult))


def summarized(answers: Sequence[StateAnswer]) -> summary.ReadShareGroupStateSummaryResponse:
    return summary.ReadShareGroupStateSummaryResponse(
        results=_by_topic(answers, _summary_result, summary.ReadStateSummaryResult)
    )


def written(answers: Sequence[StateAnswer]) -> write.WriteShareGroupStateResponse:
    return write.WriteShareGroupStateResponse(
        results=_by_topic(answers, _result(write.PartitionResult), write.WriteStateResult)
    )


def deleted(answers: Sequence[StateAnswer]) -> delete.DeleteShareGroupStateResponse:
    return delete.DeleteShareGroupStateResponse(
        results=_by_topic(answers, _result(delete.PartitionResult), delete.DeleteStateResult)
    )


def _by_topic(
    answers: Sequence[StateAnswer], partition: Callable[[StateAnswer], Any], topic: Callable[..., A]
) -> list[A]:
    """One result a topic and partition; of a partition that is named twice, that of the last."""
    topics: dict[bytes, dict[int, Any]] = {}
    for one in answers:
        topics.setdefault(one.key.topic_id, {})[one.key.partition] = partition(one)
    return [
        topic(topic_id=topic_id, partitions=list(partitions.values()))
        for topic_id, partitions in topics.items()
    ]


def _result(cls: Callable[..., A]) -> Callable[[StateAnswer], A]:
    return lambda one: cls(
        partition=one.key.partition, error_code=one.error, error_message=one.message or None
    )


def _read_result(one: StateAnswer) -> read.PartitionResult:
    assert isinstance(one, StateRead)
    return read.PartitionResult(
        partition=one.key.partition,
        error_code=one.error,
        error_message=one.message or None,
        state_epoch=one.state_epoch,
        start_offset=one.start_offset,
        state_batches=[
            read.StateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in one.batches
        ],
    )


def _summary_result(one: StateAnswer) -> summary.PartitionResult:
    assert isinstance(one, StateSummary)
    return summary.PartitionResult(
        partition=one.key.partition,
        error_code=one.error,
        error_message=one.message or None,
        state_epoch=one.state_epoch,
        leader_epoch=one.leader_epoch,
        start_offset=one.start_offset,
        delivery_complete_count=one.delivery_complete_count,
    )


# ---- what one node asks another ----------------------------------------------------------------------------


class WireApi(NamedTuple):
    """How requests of one kind about one group go to another node."""

    request: Callable[[str, Sequence[Any]], object]
    response_type: type[Any]
    answer: Callable[[SharePartitionKey, Any], StateAnswer]  # of what the response says of a partition


def _topics(requests: Sequence[Any], partition: Callable[[Any], Any], topic: Callable[..., A]) -> list[A]:
    topics: dict[bytes, list[Any]] = {}
    for one in requests:
        topics.setdefault(one.key.topic_id, []).append(partition(one))
    return [topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]


def _initialize_request(group: str, requests: Sequence[InitializeState]) -> object:
    def partition(one: InitializeState) -> initialize.PartitionData:
        return initialize.PartitionData(
            partition=one.key.partition, state_epoch=one.state_epoch, start_offset=one.start_offset
        )

    topics = _topics(requests, partition, initialize.InitializeStateData)
    return initialize.InitializeShareGroupStateRequest(group_id=group, topics=topics)


def _read_request(group: str, requests: Sequence[ReadState]) -> object:
    def partition(one: ReadState) -> read.PartitionData:
        return read.PartitionData(partition=one.key.partition, leader_epoch=one.leader_epoch)

    return read.ReadShareGroupStateRequest(
        group_id=group, topics=_topics(requests, partition, read.ReadStateData)
    )


def _summary_request(group: str, requests: Sequence[ReadStateSummary]) -> object:
    def partition(one: ReadStateSummary) -> summary.PartitionData:
        return summary.PartitionData(partition=one.key.partition, leader_epoch=one.leader_epoch)

    return summary.ReadShareGroupStateSummaryRequest(
        group_id=group, topics=_topics(requests, partition, summary.ReadStateSummaryData)
    )


def _write_request(group: str, requests: Sequence[WriteState]) -> object:
    def partition(one: WriteState) -> write.PartitionData:
        return write.PartitionData(
            partition=one.key.partition,
            state_epoch=one.state_epoch,
            leader_epoch=one.leader_epoch,
            start_offset=one.start_offset,
            delivery_complete_count=one.delivery_complete_count,
            state_batches=[
                write.StateBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.delivery_state,
                    delivery_count=each.delivery_count,
                )
                for each in one.batches
            ],
        )

    return write.WriteShareGroupStateRequest(
        group_id=group, topics=_topics(requests, partition, write.WriteStateData)
    )


def _delete_request(group: str, requests: Sequence[DeleteState]) -> object:
    def partition(one: DeleteState) -> delete.PartitionData:
        return delete.PartitionData(partition=one.key.partition)

    return delete.DeleteShareGroupStateRequest(
        group_id=group, topics=_topics(requests, partition, delete.DeleteStateData)
    )


def _result_answer(key: SharePartitionKey, told: Any) -> StateAnswer:
    return StateResult(key, known_code(told.error_code), told.error_message or "")


def _read_answer(key: SharePartitionKey, told: read.PartitionResult) -> StateAnswer:
    return StateRead(
        key,
        known_code(told.error_code),
        told.error_message or "",
        told.state_epoch,
        told.start_offset,
        tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in told.state_batches
        ),
    )


def _summary_answer(key: SharePartitionKey, told: summary.PartitionResult) -> StateAnswer:
    return StateSummary(
        key,
        known_code(told.error_code),
        told.error_message or "",
        told.state_epoch,
        told.leader_epoch,
        told.start_offset,
        told.delivery_complete_count,
    )


WIRE_APIS: Final[dict[type[StateRequest], WireApi]] = {
    InitializeState: WireApi(
        _initialize_request, initialize.InitializeShareGroupStateResponse, _result_answer
    ),
    ReadState: WireApi(_read_request, read.ReadShareGroupStateResponse, _read_answer),
    ReadStateSummary: WireApi(_summary_request, summary.ReadShareGroupStateSummaryResponse, _summary_answer),
    WriteState: WireApi(_write_request, write.WriteShareGroupStateResponse, _result_answer),
    DeleteState: WireApi(_delete_request, delete.DeleteShareGroupStateResponse, _result_answer),
}


def answers_of(requests: Sequence[StateRequest], response: Any) -> list[StateAnswer]:
    """Return the answers to requests of one kind; what the response does not tell of has failed."""
    told = {(topic.topic_id, one.partition): one for topic in response.results for one in topic.partitions}
    answers = []
    for request in requests:
        of_partition = told.get((request.key.topic_id, request.key.partition))
        answers.append(
            refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, "The share coordinator did not answer.")
            if of_partition is None
            else WIRE_APIS[type(request)].answer(request.key, of_partition)
        )
    return answers


def known_code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # of a later release


def key_of_text(text: str) -> SharePartitionKey | None:
    """Return the share-partition that a key of FindCoordinator names, None for a text that names none."""
    words = text.rsplit(":", 2)
    if len(words) != 3 or not words[0].strip() or not _INT.fullmatch(words[2]):
        return None
    try:
        topic_id = uuid_from_text(words[1])
    except KafkaError:
        return None
    partition = int(words[2])
    return SharePartitionKey(words[0], topic_id, partition) if -(2**31) <= partition < 2**31 else None
