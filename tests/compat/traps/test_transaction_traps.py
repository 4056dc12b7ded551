"""The parts of traps 12, 19, 28 and 29 that concern transactions."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.batches import CONTROL, read_headers
from tests.compat.raw_transactions import Transaction, last_stable_offset, produce_transactional
from tests.compat.wire_client import WireClient, eventually, only

Connect = Callable[..., WireClient]
NONE, UNKNOWN_TOPIC, NOT_LOADED, NO_COORDINATOR, NOT_ENOUGH_REPLICAS, INVALID_ID = 0, 3, 14, 15, 19, 42
INVALID_EPOCH, INVALID_TXN_STATE, INVALID_TIMEOUT, CONCURRENT, NOT_ATTEMPTED = 47, 48, 50, 51, 55
NOT_COORDINATOR, FENCED, ABORTABLE = 16, 90, 120
# Transient codes: markers are being written, or the coordinator is loading or unknown to a leader.
PASSES = {NOT_LOADED, NO_COORDINATOR, NOT_COORDINATOR, NOT_ENOUGH_REPLICAS, CONCURRENT}
LAST_VERSION_OF_V1, FIRST_VERSION_OF_V2 = 4, 5  # of EndTxn


@pytest.fixture
def transaction(client: WireClient, topic: str) -> Transaction:
    """Return a transaction without partitions."""
    return Transaction(client, topic)


def init(client: WireClient, transactional_id: str | None, timeout_ms: int = 60_000, version: int = 4) -> Any:
    """Send InitProducerId until the coordinator serves it and has ended the open transaction.

    FindCoordinator creates the internal topic, without which no node becomes the coordinator.
    """
    if transactional_id:
        eventually(
            lambda: client.call("find_coordinator", 4, key_type=1, coordinator_keys=[transactional_id]),
            lambda found: only(found.coordinators).error_code == NONE,
        )
    return eventually(
        lambda: client.call(
            "init_producer_id",
            version,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        ),
        lambda found: found.error_code not in PASSES,
    )


def produce(one: Transaction, version: int, **fields: int) -> int:
    """Produce one record to partition 0 until the error is not transient, and return the error code."""
    return eventually(
        lambda: produce_transactional(
            one.wire, one.topic, one.id, version=version, **{**one.pair, "base_sequence": 0, **fields}
        ),
        lambda code: code not in PASSES,
    )


def add(one: Transaction, *topics: dict[str, Any], version: int = 3) -> list[int]:
    """Send AddPartitionsToTxn, and return the codes in ascending order."""

    def codes() -> list[int]:
        answer = one.wire.call(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=one.id,
            v3_and_below_producer_id=one.pair["producer_id"],
            v3_and_below_producer_epoch=one.pair["producer_epoch"],
            v3_and_below_topics=list(topics),
        )
        return sorted(
            partition.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        )

    return eventually(codes, lambda found: not PASSES & set(found))


def end(one: Transaction, version: int, *, committed: bool) -> Any:
    request = {"transactional_id": one.id, **one.pair, "committed": committed}
    return eventually(
        lambda: one.wire.call("end_txn", version, **request), lambda found: found.error_code not in PASSES
    )


def latest(client: WireClient, topic: str) -> int:
    """Return the offset after the last record, markers included."""
    request = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    return int(
        only(only(client.call("list_offsets", 5, replica_id=-1, topics=request).topics).partitions).offset
    )


def fetch_committed(client: WireClient, topic: str) -> Any:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [wanted]}]
    answer = client.call("fetch", 11, max_wait_ms=0, min_bytes=0, isolation_level=1, topics=topics)
    return only(only(answer.responses).partitions)


def test_trap_12_a_new_transactional_id_has_to_wait_until_its_coordinator_serves(
    client: WireClient,
) -> None:
    seen: list[int] = []

    def ask(name: str) -> int:
        found = client.call("find_coordinator", 4, key_type=1, coordinator_keys=[name])
        seen.append(only(found.coordinators).error_code)
        if seen[-1] == NONE:
            request = {"transactional_id": name, "transaction_timeout_ms": 60_000}
            seen.append(client.call("init_producer_id", 4, **request).error_code)
        return seen[-1]

    # Ids of several partitions of the internal topic, each of which loads on its own.
    for number in range(5):
        name = f"trap-12-{number}-{uuid4().hex[:8]}"
        assert eventually(lambda name=name: ask(name), lambda code: code == NONE) == NONE  # type: ignore[misc]

    assert set(seen) <= {NONE, NOT_LOADED, NO_COORDINATOR, NOT_COORDINATOR}


def test_trap_19_the_latest_offset_of_read_committed_is_the_last_stable_one(transaction: Transaction) -> None:
    transaction.add(0)
    assert produce(transaction, 9) == NONE

    stable, everything = (ask(transaction.wire, transaction.topic) for ask in (last_stable_offset, latest))

    assert (stable, everything) == (0, 1)
    assert transaction.end(committed=False) == NONE


@pytest.mark.parametrize("version", range(5))
def test_trap_28_time_outs_above_the_maximum_and_the_empty_id_are_invalid(
    client: WireClient, version: int
) -> None:
    name = f"trap-28-{uuid4().hex[:8]}"

    assert init(client, name, timeout_ms=900_001, version=version).error_code == INVALID_TIMEOUT
    assert init(client, name, timeout_ms=900_000, version=version).error_code == NONE
    assert init(client, "", version=version).error_code == INVALID_ID


def test_trap_28_a_repeated_call_bumps_the_epoch(client: WireClient) -> None:
    name = f"trap-28-{uuid4().hex[:8]}"

    first, second = (init(client, name) for _ in range(2))

    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (NONE, first.producer_id, 1)


def test_trap_28_a_repeated_call_aborts_the_open_transaction(transaction: Transaction) -> None:
    transaction.add(0)
    assert produce(transaction, 9) == NONE
    client, topic, before = transaction.wire, transaction.topic, transaction.pair

    successor = init(client, transaction.id)

    assert (successor.error_code, successor.producer_id) == (NONE, before["producer_id"])
    assert successor.producer_epoch > before["producer_epoch"]
    # InitProducerId is answered when the markers are written, one of which is in this partition.
    found = fetch_committed(client, topic)
    assert found.last_stable_offset == found.high_watermark == 2
    aborted = only(found.aborted_transactions)
    assert (aborted.producer_id, aborted.first_offset) == (before["producer_id"], 0)
    assert read_headers(found.records)[-1]["attributes"] & CONTROL


def test_trap_29_a_partition_that_was_not_added_is_rejected_and_since_version_12_added(
    transaction: Transaction,
) -> None:
    rejected = [produce(transaction, version) for version in (9, 10, 11)]
    before = latest(transaction.wire, transaction.topic)
    added = produce(transaction, 12)

    assert rejected == [INVALID_TXN_STATE, INVALID_TXN_STATE, ABORTABLE]
    assert (before, added, latest(transaction.wire, transaction.topic)) == (0, NONE, 1)
    assert end(transaction, FIRST_VERSION_OF_V2, committed=True).error_code == NONE


def test_trap_29_an_old_epoch_is_fenced_with_the_error_of_the_version(transaction: Transaction) -> None:
    transaction.add(0)
    assert produce(transaction, 9) == NONE
    assert init(transaction.wire, transaction.id).error_code == NONE
    there = {"name": transaction.topic, "partitions": [0]}

    added = {version: add(transaction, there, version=version) for version in (1, 2, 3)}

    assert added == {1: [INVALID_EPOCH], 2: [FENCED], 3: [FENCED]}
    assert [produce(transaction, version, base_sequence=1) for version in (9, 12)] == [INVALID_EPOCH] * 2
    assert end(transaction, LAST_VERSION_OF_V1, committed=True).error_code == FENCED


def test_trap_29_an_unknown_partition_keeps_all_others_out_of_the_transaction(
    transaction: Transaction,
) -> None:
    there, nowhere = {"name": transaction.topic, "partitions": [0]}, {"name": "nowhere", "partitions": [0, 1]}

    assert add(transaction, there, nowhere) == [UNKNOWN_TOPIC, UNKNOWN_TOPIC, NOT_ATTEMPTED]
    assert add(transaction, there) == [NONE]


def test_trap_29_the_end_gives_the_next_epoch_and_its_retry_with_the_old_one_succeeds(
    transaction: Transaction,
) -> None:
    assert produce(transaction, 12) == NONE

    ends = [end(transaction, FIRST_VERSION_OF_V2, committed=True) for _ in range(2)]

    results = {(one.error_code, one.producer_id, one.producer_epoch) for one in ends}
    assert results == {(NONE, transaction.pair["producer_id"], transaction.pair["producer_epoch"] + 1)}


@pytest.mark.parametrize("version", range(FIRST_VERSION_OF_V2 + 1))
def test_trap_29_a_commit_without_a_transaction_is_an_invalid_state(
    transaction: Transaction, version: int
) -> None:
    assert end(transaction, version, committed=True).error_code == INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_trap_29_the_last_stable_offset_moves_only_after_the_marker(
    transaction: Transaction, committed: bool
) -> None:
    transaction.add(0)
    client, topic = transaction.wire, transaction.topic
    assert produce(transaction, 9) == NONE
    open_ = fetch_committed(client, topic)
    assert transaction.end(committed=committed) == NONE
    looks: list[tuple[int, list[int]]] = []

    def is_stable() -> bool:
        found = fetch_committed(client, topic)
        looks.append(
            (
                found.last_stable_offset,
                [header["attributes"] & CONTROL for header in read_headers(found.records)],
            )
        )
        return found.last_stable_offset > 0

    assert eventually(is_stable, lambda found: found)

    assert (open_.last_stable_offset, open_.high_watermark, open_.records) == (0, 1, b"")
    assert set(map(repr, looks[:-1])) <= {repr((0, []))}
    assert looks[-1] == (2, [0, CONTROL])
