"""A prepared transaction (KIP-939) survives the process that prepared it, and the node.

Another process commits it then.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.compat.batches import TRANSACTIONAL, batch, read_headers
from tests.compat.conftest import create_topic
from tests.compat.servers import StartNode, free_port
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = pytest.mark.slow
FENCED = 90
ENABLED = "transaction.two.phase.commit.enable=true"


def begin(client: WireClient, *, keep: bool) -> Any:
    """Initialize a producer of the id; with `keep`, a prepared transaction stays open."""
    eventually(
        lambda: client.call("find_coordinator", 3, key="bank", key_type=1),
        lambda found: found.error_code == 0,
    )
    return eventually(
        lambda: client.call(
            "init_producer_id",
            6,
            transactional_id="bank",
            transaction_timeout_ms=1,
            enable2_pc=True,
            keep_prepared_txn=keep,
        ),
        lambda answer: answer.error_code == 0,
    )


def produce(client: WireClient, topic: str, producer: Any) -> None:
    records = batch(
        attributes=TRANSACTIONAL,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
    )
    answer = client.call(
        "produce",
        12,
        transactional_id="bank",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
    )
    assert only(only(answer.responses).partition_responses).error_code == 0


def end(client: WireClient, producer_id: int, producer_epoch: int) -> int:
    return int(
        client.call(
            "end_txn",
            5,
            transactional_id="bank",
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=True,
        ).error_code
    )


def committed(client: WireClient, topic: str) -> int:
    """Return how many batches a read_committed consumer gets, control batches included."""
    answer = client.call(
        "fetch",
        12,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=1,
        session_epoch=-1,
        topics=[
            {
                "topic": topic,
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
            }
        ],
    )
    return len(read_headers(only(only(answer.responses).partitions).records))


def test_a_new_process_ends_a_transaction_that_was_prepared_before_a_crash(
    start_node: StartNode, tmp_path: Path
) -> None:
    port = free_port()
    first = start_node(tmp_path, ENABLED, port=port)
    with WireClient(first.bootstrap) as client:
        topic = create_topic(client)
        prepared = begin(client, keep=False)
        produce(client, topic, prepared)
        assert committed(client, topic) == 0
    first.kill()

    second = start_node(tmp_path, ENABLED, port=port)
    with WireClient(second.bootstrap) as client:
        kept = begin(client, keep=True)
        was = (prepared.producer_id, prepared.producer_epoch)
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == was
        assert (kept.producer_id, kept.producer_epoch) == (was[0], was[1] + 1)
        assert committed(client, topic) == 0
        assert end(client, *was) == FENCED

        assert end(client, kept.producer_id, kept.producer_epoch) == 0

        assert eventually(lambda: committed(client, topic), lambda count: count == 2) == 2
