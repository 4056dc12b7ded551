"""Tables of the partitions of a share group: start and end, and the records in flight between them."""

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.topic_commands import print_table
from ottla.node.client.group_lag import PartitionLag
from ottla.node.client.share_group_as_json import error_word, state_word
from ottla.node.wire.messages.describe_share_partitions import InFlightRange, InFlightState

_PARTITION_COLUMNS: Final = ("topic", "partition", "start", "end", "lag", "members")
_IN_FLIGHT_COLUMNS: Final = ("acquired", "available", "waiting", "most deliveries", "next lock expiry")
_REDELIVERED_COLUMNS: Final = ("topic", "partition", "offsets", "deliveries", "state", "member", "lock ends")
# Records that were delivered only once are not listed.
_MIN_LISTED_DELIVERIES: Final = 2


def print_partitions(
    lags: Mapping[TopicPartition, PartitionLag], members: Mapping[TopicPartition, int]
) -> None:
    """Print the partitions, their records with the most deliveries, and failures to write dead letters."""
    has_in_flight = any(lag.in_flight is not None for lag in lags.values())
    rows: list[tuple[object, ...]] = []
    for one, lag in lags.items():
        row = (
            one.topic,
            one.partition,
            lag.committed_offset,
            lag.log_end_offset,
            lag.records,
            members.get(one, 0),
        )
        rows.append((*row, *_in_flight(lag.in_flight)) if has_in_flight else row)
    print_table((*_PARTITION_COLUMNS, *_IN_FLIGHT_COLUMNS) if has_in_flight else _PARTITION_COLUMNS, rows)
    redelivered = list(_redelivered_rows(lags))
    if redelivered:
        print("records of each partition with the most deliveries (more than one):")
        print_table(_REDELIVERED_COLUMNS, redelivered)
    for one, lag in lags.items():
        failure = None if lag.in_flight is None else error_word(lag.in_flight.letter_failure)
        if failure is not None and lag.in_flight is not None:
            print(f"{_dead_letter_failure(str(one), lag.in_flight)}: {failure}")


def _dead_letter_failure(partition: str, state: InFlightState) -> str:
    if state.letters_go_on:
        return f"dead letters of {partition} are retried after a failed attempt"
    when = "" if state.letter_failure_ms < 0 else f" {state.letter_failure_ms // 1000} s ago"
    return f"the last dead letters of {partition} could not be written{when}"


def _in_flight(state: InFlightState | None) -> tuple[object, ...]:
    if state is None:
        return (None,) * len(_IN_FLIGHT_COLUMNS)
    most = state.most_delivered[0] if state.most_delivered else None
    lock = state.next_locks[0] if state.next_locks else None
    return (
        state.acquired,
        state.available,
        state.delayed + state.backing_off,
        None
        if most is None
        else f"{most.delivery_count} of {state.delivery_count_limit}, offset {most.first_offset}",
        None if lock is None else f"{_seconds(lock)}, offset {lock.first_offset}",
    )


def _redelivered_rows(lags: Mapping[TopicPartition, PartitionLag]) -> Iterator[tuple[object, ...]]:
    for partition, lag in lags.items():
        for one in () if lag.in_flight is None else lag.in_flight.most_delivered:
            if one.delivery_count >= _MIN_LISTED_DELIVERIES:
                yield (
                    partition.topic,
                    partition.partition,
                    _offsets(one),
                    one.delivery_count,
                    state_word(one.state),
                    one.member_id,
                    None if one.member_id is None else _seconds(one),
                )


def _offsets(one: InFlightRange) -> str:
    return (
        str(one.first_offset)
        if one.first_offset == one.last_offset
        else f"{one.first_offset}-{one.last_offset}"
    )


def _seconds(one: InFlightRange) -> str:
    return f"in {one.lock_left_ms / 1000:.1f} s"
