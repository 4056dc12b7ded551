"""Transactions sent request by request, and a transaction left hanging."""

from typing import Any
from uuid import uuid4

from tests.compat.batches import TRANSACTIONAL, batch
from tests.compat.wire_client import WireClient, eventually, only

LONG_MS = 60_000
TIMEOUT_S = 60.0


class Transaction:
    """A transaction of the old protocol (before KIP-890), request by request."""

    def __init__(self, wire: WireClient, topic: str) -> None:
        self.wire, self.topic = wire, topic
        self.id = f"txn-{uuid4().hex[:8]}"
        eventually(
            lambda: wire.call("find_coordinator", 4, key_type=1, coordinator_keys=[self.id]),
            lambda found: only(found.coordinators).error_code == 0,
            60,
        )
        made = eventually(
            lambda: wire.call(
                "init_producer_id", 4, transactional_id=self.id, transaction_timeout_ms=LONG_MS
            ),
            lambda answer: answer.error_code == 0,
            60,
        )
        self.pair = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}

    def add(self, *partitions: int) -> None:
        answer = self.wire.call(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.pair["producer_id"],
            v3_and_below_producer_epoch=self.pair["producer_epoch"],
            v3_and_below_topics=[{"name": self.topic, "partitions": list(partitions)}],
        )
        results = only(answer.results_by_topic_v3_and_below).results_by_partition
        assert [one.partition_error_code for one in results] == [0] * len(partitions)

    def end(self, *, committed: bool) -> int:
        request = {"transactional_id": self.id, **self.pair, "committed": committed}
        return int(self.wire.call("end_txn", 3, **request).error_code)


def produce_transactional(
    wire: WireClient, topic: str, transactional_id: str | None, *, version: int = 9, **fields: Any
) -> int:
    """Produce one transactional record to partition 0 and return the error code."""
    records = batch(**{"base_sequence": 0, "attributes": TRANSACTIONAL, **fields})
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    answer = wire.call(
        "produce", version, transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=data
    )
    return int(only(only(answer.responses).partition_responses).error_code)


def last_stable_offset(wire: WireClient, topic: str) -> int:
    """Return the last stable offset of partition 0."""
    request = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    answer = wire.call("list_offsets", 5, replica_id=-1, isolation_level=1, topics=request)
    return int(only(only(answer.topics).partitions).offset)


def leave_hanging(wire: WireClient, topic: str, producer_id: int, producer_epoch: int) -> None:
    """Leave a hanging transaction in partition 0: one that no coordinator knows.

    Such transactions could begin before leaders verified them with the coordinator (KAFKA-12671); here the
    verification is turned off for one batch.
    """
    turned_off = {
        "name": "transaction.partition.verification.enable",
        "value": "false",
        "config_operation": 0,
    }
    resource = {"resource_type": 4, "resource_name": "", "configs": [turned_off]}
    assert only(wire.call("incremental_alter_configs", 1, resources=[resource]).responses).error_code == 0
    pair = {"producer_id": producer_id, "producer_epoch": producer_epoch}
    try:
        code = eventually(
            lambda: produce_transactional(wire, topic, "nobody", **pair), lambda code: code == 0, TIMEOUT_S
        )
        assert code == 0
    finally:
        turned_off["config_operation"] = 1
        wire.call("incremental_alter_configs", 1, resources=[resource])
