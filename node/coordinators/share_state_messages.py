"""Converts requests about the state of share-partitions to and from the wire (APIs 83 to 87).

A request on the wire is about partitions of one group, topic by topic.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

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


class _Keyed(Protocol):
    @property
    def key(self) -> SharePartitionKey: ...


class _Partition(Protocol):
    @property
    def partition(self) -> int: ...


class _Result(Protocol):
    @property
    def partition(self) -> int: ...
    @property
    def error_code(self) -> int: ...
    @property
    def error_message(self) -> str | None: ...


class _Batch(Protocol):
    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def delivery_state(self) -> int: ...
    @property
    def delivery_count(self) -> int: ...


K = TypeVar("K", bound=_Keyed)
P = TypeVar("P", bound=_Partition)
P_co = TypeVar("P_co", bound=_Partition, covariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class _Topic(Protocol[P_co]):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[P_co]: ...


class _MakeResult(Protocol[R_co]):
    def __call__(self, *, partition: int, error_code: int, error_message: str | None) -> R_co: ...


# ---- requests ----------------------------------------------------------------------------------------------


def initializations(request: initialize.InitializeShareGroupStateRequest) -> list[StateRequest]:
    return [
        InitializeState(key, one.state_epoch, one.start_offset)
        for key, one in _each(request.group_id, request.topics)
    ]


def reads(request: read.ReadShareGroupStateRequest) -> list[StateRequest]:
    return [ReadState(key, one.leader_epoch) for key, one in _each(request.group_id, request.topics)]


def summaries(request: summary.ReadShareGroupStateSummaryRequest) -> list[StateRequest]:
    return [ReadStateSummary(key, one.leader_epoch) for key, one in _each(request.group_id, request.topics)]


def writes(request: write.WriteShareGroupStateRequest) -> list[StateRequest]:
    return [
        WriteState(
            key,
            one.state_epoch,
            one.leader_epoch,
            one.start_offset,
            one.delivery_complete_count,
            _batches(one.state_batches),
            None if one.dead_letters is None else bytes(one.dead_letters),
            one.incarnation,
        )
        for key, one in _each(request.group_id, request.topics)
    ]


def deletions(request: delete.DeleteShareGroupStateRequest) -> list[StateRequest]:
    return [DeleteState(key) for key, _ in _each(request.group_id, request.topics)]


def _each(group: str, topics: Iterable[_Topic[P]]) -> Iterator[tuple[SharePartitionKey, P]]:
    for topic in topics:
        for one in topic.partitions:
            yield SharePartitionKey(group, topic.topic_id, one.partition), one


def _batches(batches: Iterable[_Batch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    )


# ---- answers -----------------------------------------------------------------------------------------------


def initialize_response(answers: Sequence[StateAnswer]) -> initialize.InitializeShareGroupStateResponse:
    return initialize.InitializeShareGroupStateResponse(
        results=[
            initialize.InitializeStateResult(
                topic_id=topic_id, partitions=[_result(initialize.PartitionResult, one) for one in of_topic]
            )
            for topic_id, of_topic in _by_topic(answers)
        ]
    )


def read_response(answers: Sequence[StateAnswer]) -> read.ReadShareGroupStateResponse:
    return read.ReadShareGroupStateResponse(
        results=[
            read.ReadStateResult(topic_id=topic_id, partitions=[_read_result(one) for one in of_topic])
            for topic_id, of_topic in _by_topic(answers)
        ]
    )


def summary_response(answers: Sequence[StateAnswer]) -> summary.ReadShareGroupStateSummaryResponse:
    return summary.ReadShareGroupStateSummaryResponse(
        results=[
            summary.ReadStateSummaryResult(
                topic_id=topic_id, partitions=[_summary_result(one) for one in of_topic]
            )
            for topic_id, of_topic in _by_topic(answers)
        ]
    )


def write_response(answers: Sequence[StateAnswer]) -> write.WriteShareGroupStateResponse:
    return write.WriteShareGroupStateResponse(
        results=[
            write.WriteStateResult(
                topic_id=topic_id, partitions=[_result(write.PartitionResult, one) for one in of_topic]
            )
            for topic_id, of_topic in _by_topic(answers)
        ]
    )


def delete_response(answers: Sequence[StateAnswer]) -> delete.DeleteShareGroupStateResponse:
    return delete.DeleteShareGroupStateResponse(
        results=[
            delete.DeleteStateResult(
                topic_id=topic_id, partitions=[_result(delete.PartitionResult, one) for one in of_topic]
            )
            for topic_id, of_topic in _by_topic(answers)
        ]
    )


def _by_topic(keyed: Iterable[K]) -> Iterator[tuple[bytes, list[K]]]:
    """Yield requests or answers by topic; if a partition is named twice, only the last one counts."""
    topics: dict[bytes, dict[int, K]] = {}
    for one in keyed:
        topics.setdefault(one.key.topic_id, {})[one.key.partition] = one
    for topic_id, partitions in topics.items():
        yield topic_id, list(partitions.values())


def _result(make: _MakeResult[R], answer: StateAnswer) -> R:
    return make(partition=answer.key.partition, error_code=answer.error, error_message=answer.message or None)


def _read_result(answer: StateAnswer) -> read.PartitionResult:
    assert isinstance(answer, StateRead)
    return read.PartitionResult(
        partition=answer.key.partition,
        error_code=answer.error,
        error_message=answer.message or None,
        state_epoch=answer.state_epoch,
        start_offset=answer.start_offset,
        state_batches=[
            read.StateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in answer.batches
        ],
        dead_letters=answer.dead_letters,
        incarnation=answer.incarnation,
    )


def _summary_result(answer: StateAnswer) -> summary.PartitionResult:
    assert isinstance(answer, StateSummary)
    return summary.PartitionResult(
        partition=answer.key.partition,
        error_code=answer.error,
        error_message=answer.message or None,
        state_epoch=answer.state_epoch,
        leader_epoch=answer.leader_epoch,
        start_offset=answer.start_offset,
        delivery_complete_count=answer.delivery_complete_count,
    )


# ---- requests to other nodes -------------------------------------------------------------------------------


class WireApi(NamedTuple):
    """Functions that make a request on the wire of requests of one kind and group, and read its response."""

    request: Callable[[str, Sequence[StateRequest]], object]
    response_type: type[object]
    answers: Callable[[str, object], Iterator[StateAnswer]]


def _initialize_request(group: str, requests: Sequence[StateRequest]) -> object:
    def partition(one: StateRequest) -> initialize.PartitionData:
        assert isinstance(one, InitializeState)
        return initialize.PartitionData(
            partition=one.key.partition, state_epoch=one.state_epoch, start_offset=one.start_offset
        )

    topics = [
        initialize.InitializeStateData(topic_id=topic_id, partitions=list(map(partition, of_topic)))
        for topic_id, of_topic in _by_topic(requests)
    ]
    return initialize.InitializeShareGroupStateRequest(group_id=group, topics=topics)


def _read_request(group: str, requests: Sequence[StateRequest]) -> object:
    def partition(one: StateRequest) -> read.PartitionData:
        assert isinstance(one, ReadState)
        return read.PartitionData(partition=one.key.partition, leader_epoch=one.leader_epoch)

    topics = [
        read.ReadStateData(topic_id=topic_id, partitions=list(map(partition, of_topic)))
        for topic_id, of_topic in _by_topic(requests)
    ]
    return read.ReadShareGroupStateRequest(group_id=group, topics=topics)


def _summary_request(group: str, requests: Sequence[StateRequest]) -> object:
    def partition(one: StateRequest) -> summary.PartitionData:
        assert isinstance(one, ReadStateSummary)
        return summary.PartitionData(partition=one.key.partition, leader_epoch=one.leader_epoch)

    topics = [
        summary.ReadStateSummaryData(topic_id=topic_id, partitions=list(map(partition, of_topic)))
        for topic_id, of_topic in _by_topic(requests)
    ]
    return summary.ReadShareGroupStateSummaryRequest(group_id=group, topics=topics)


def _write_request(group: str, requests: Sequence[StateRequest]) -> object:
    def partition(one: StateRequest) -> write.PartitionData:
        assert isinstance(one, WriteState)
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
            dead_letters=one.dead_letters,
            incarnation=one.incarnation,
        )

    topics = [
        write.WriteStateData(topic_id=topic_id, partitions=list(map(partition, of_topic)))
        for topic_id, of_topic in _by_topic(requests)
    ]
    return write.WriteShareGroupStateRequest(group_id=group, topics=topics)


def _delete_request(group: str, requests: Sequence[StateRequest]) -> object:
    topics = [
        delete.DeleteStateData(
            topic_id=topic_id,
            partitions=[delete.PartitionData(partition=one.key.partition) for one in of_topic],
        )
        for topic_id, of_topic in _by_topic(requests)
    ]
    return delete.DeleteShareGroupStateRequest(group_id=group, topics=topics)


def _results(group: str, response: object) -> Iterator[StateAnswer]:
    assert isinstance(
        response,
        initialize.InitializeShareGroupStateResponse
        | write.WriteShareGroupStateResponse
        | delete.DeleteShareGroupStateResponse,
    )
    topics: Sequence[_Topic[_Result]] = response.results
    for key, one in _each(group, topics):
        yield StateResult(key, known_code(one.error_code), one.error_message or "")


def _read_answers(group: str, response: object) -> Iterator[StateAnswer]:
    assert isinstance(response, read.ReadShareGroupStateResponse)
    for key, one in _each(group, response.results):
        yield StateRead(
            key,
            known_code(one.error_code),
            one.error_message or "",
            one.state_epoch,
            one.start_offset,
            _batches(one.state_batches),
            bytes(one.dead_letters),
            one.incarnation,
        )


def _summary_answers(group: str, response: object) -> Iterator[StateAnswer]:
    assert isinstance(response, summary.ReadShareGroupStateSummaryResponse)
    for key, one in _each(group, response.results):
        yield StateSummary(
            key,
            known_code(one.error_code),
            one.error_message or "",
            one.state_epoch,
            one.leader_epoch,
            one.start_offset,
            one.delivery_complete_count,
        )


WIRE_APIS: Final[dict[type[StateRequest], WireApi]] = {
    InitializeState: WireApi(_initialize_request, initialize.InitializeShareGroupStateResponse, _results),
    ReadState: WireApi(_read_request, read.ReadShareGroupStateResponse, _read_answers),
    ReadStateSummary: WireApi(_summary_request, summary.ReadShareGroupStateSummaryResponse, _summary_answers),
    WriteState: WireApi(_write_request, write.WriteShareGroupStateResponse, _results),
    DeleteState: WireApi(_delete_request, delete.DeleteShareGroupStateResponse, _results),
}


def answers_of(requests: Sequence[StateRequest], response: object) -> list[StateAnswer]:
    """Return the answers to requests of one kind and group; an answer missing in the response is an error."""
    first = requests[0]
    found = {one.key: one for one in WIRE_APIS[type(first)].answers(first.key.group, response)}
    answers = []
    for request in requests:
        answer = found.get(request.key)
        if answer is None:
            message = "The share coordinator did not answer."
            answer = refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, message)
        answers.append(answer)
    return answers


def known_code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # a later release may have more codes


def key_of_text(text: str) -> SharePartitionKey | None:
    """Return the share-partition that a key of FindCoordinator names, None if the key is not valid."""
    words = text.rsplit(":", 2)
    if len(words) != 3 or not words[0].strip() or not _INT.fullmatch(words[2]):
        return None
    try:
        topic_id = uuid_from_text(words[1])
    except KafkaError:
        return None
    partition = int(words[2])
    return SharePartitionKey(words[0], topic_id, partition) if -(2**31) <= partition < 2**31 else None
