"""The checks of each request to the share coordinator: one table, in Kafka's order.

A request with an epoch below the recorded one is fenced: the share-partition has a newer leader (leader
epoch), or its state was initialized again (state epoch). An epoch of -1 passes both checks. Only reads and
writes of the state check the leader epoch, and only initializations and writes check the state epoch.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.groupcoord.share_state.share_state_config import MAX_BATCHES, MAX_DEAD_LETTERS_BYTES
from ottla.groupcoord.share_state.share_state_shard import UNKNOWN_INCARNATION, ShareStateShard
from ottla.groupcoord.share_state.share_state_words import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NOT_GIVEN,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    StateRequest,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError

# Raises a KafkaError if the request is not allowed in the shard; later checks rely on earlier ones.
Check: TypeAlias = Callable[[ShareStateShard, StateRequest], None]
_DELIVERY_STATES: Final = frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED})
_MAX_OFFSET: Final = 2**63 - 1


def check_request(shard: ShareStateShard, request: StateRequest) -> None:
    """Raise the KafkaError of the first check that rejects the request."""
    for check in CHECKS[type(request)]:
        check(shard, request)


def _check_partition(_: ShareStateShard, request: StateRequest) -> None:
    if request.key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _check_initialized_to_write(shard: ShareStateShard, request: StateRequest) -> None:
    if request.key not in shard.states:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."
        )


def _check_initialized_to_read(shard: ShareStateShard, request: StateRequest) -> None:
    if request.key not in shard.states:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed."
        )


def _check_leader_epoch(shard: ShareStateShard, request: StateRequest) -> None:
    assert isinstance(request, ReadState | WriteState)
    if NOT_GIVEN != request.leader_epoch < shard.states[request.key].leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            "The leader epoch in the request is older than the epoch on the broker.",
        )


def _check_state_epoch(shard: ShareStateShard, request: StateRequest) -> None:
    assert isinstance(request, InitializeState | WriteState)
    known = shard.states.get(request.key)
    if known is not None and NOT_GIVEN != request.state_epoch < known.state_epoch:
        raise KafkaError(
            ErrorCode.FENCED_STATE_EPOCH,
            "The share coordinator rejected the request because the share-group state epoch did not match.",
        )


def _check_incarnation(shard: ShareStateShard, request: StateRequest) -> None:
    """Raise FENCED_STATE_EPOCH if the state that the writer read was deleted and initialized again since.

    Kafka has no such check: there, a leader that missed the deletion goes on writing into the new state.
    """
    assert isinstance(request, WriteState)
    incarnation = shard.incarnation_of(request.key)
    if request.incarnation != NOT_GIVEN and incarnation not in (UNKNOWN_INCARNATION, request.incarnation):
        raise KafkaError(
            ErrorCode.FENCED_STATE_EPOCH, "The state was initialized again after the writer read it."
        )


def _check_topic(shard: ShareStateShard, request: StateRequest) -> None:
    if request.key.partition >= shard.partitions_of(request.key.topic_id):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )


def _check_numbers(_: ShareStateShard, request: StateRequest) -> None:
    """Raise INVALID_REQUEST for impossible numbers.

    Kafka has no such check: its nodes send no such numbers, but other clients must not ruin the state (D63).
    """
    assert isinstance(request, InitializeState | WriteState)
    if request.start_offset < NOT_GIVEN or request.state_epoch < NOT_GIVEN:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A start offset or a state epoch is below -1.")
    if isinstance(request, InitializeState):
        return
    if request.leader_epoch < NOT_GIVEN or request.delivery_complete_count < NOT_GIVEN:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "A leader epoch or a count of completed deliveries is below -1."
        )
    if len(request.batches) > MAX_BATCHES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"More than {MAX_BATCHES} batches are in one request.")
    if len(request.dead_letters or b"") > MAX_DEAD_LETTERS_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The note on dead letters is longer than {MAX_DEAD_LETTERS_BYTES} bytes.",
        )
    for first_offset, last_offset, delivery_state, delivery_count in request.batches:
        if not 0 <= first_offset <= last_offset < _MAX_OFFSET:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The offsets of a batch are negative, too large or not in order."
            )
        if delivery_state not in _DELIVERY_STATES or delivery_count < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A batch has an unknown delivery state or a negative delivery count.",
            )


CHECKS: Final[dict[type[StateRequest], tuple[Check, ...]]] = {
    InitializeState: (_check_partition, _check_numbers, _check_state_epoch, _check_topic),
    ReadState: (_check_partition, _check_initialized_to_read, _check_leader_epoch, _check_topic),
    ReadStateSummary: (_check_partition, _check_topic),
    WriteState: (
        _check_partition,
        _check_initialized_to_write,
        _check_numbers,
        _check_leader_epoch,
        _check_state_epoch,
        _check_incarnation,
        _check_topic,
    ),
    DeleteState: (_check_partition, _check_topic),
}
