"""An EndTxn that arrives seconds after its client gave it up has no effect (KAFKA-17754)."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.compat.wire_client import WireClient, eventually, only
from tests.integration.embedded_broker import EmbeddedBroker

pytestmark = pytest.mark.slow
ID = {"transactional_id": "copied"}
TOPIC = "written"


def begin(client: WireClient) -> dict[str, Any]:
    eventually(
        lambda: client.call("find_coordinator", 3, key="copied", key_type=1),
        lambda answer: answer.error_code == 0,
    )
    answer = eventually(
        lambda: client.call("init_producer_id", 4, **ID, transaction_timeout_ms=60_000),
        lambda answer: answer.error_code == 0,
    )
    return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def add(client: WireClient, producer: dict[str, Any]) -> None:
    fields = {f"v3_and_below_{name}": value for name, value in {**ID, **producer}.items()}
    fields["v3_and_below_topics"] = [{"name": TOPIC, "partitions": [0]}]
    answer = client.call("add_partitions_to_txn", 3, **fields)
    assert only(only(answer.results_by_topic_v3_and_below).results_by_partition).partition_error_code == 0


def state(client: WireClient) -> str:
    answer = client.call("describe_transactions", 0, transactional_ids=["copied"])
    return str(only(answer.transaction_states).transaction_state)


def test_a_late_end_txn_closes_its_connection_and_the_next_transaction_continues(
    embedded: Callable[..., EmbeddedBroker],
) -> None:
    node = embedded()
    with (
        contextlib.closing(WireClient(node.bootstrap)) as timed_out,
        contextlib.closing(WireClient(node.bootstrap)) as other,
        contextlib.closing(WireClient(node.bootstrap)) as client,
    ):
        wanted = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
        assert only(other.call("create_topics", 7, topics=[wanted], timeout_ms=10_000).topics).error_code == 0
        producer = begin(timed_out)
        add(timed_out, producer)
        late = timed_out.frame("end_txn", 4, **ID, **producer, committed=True)
        assert client.call("end_txn", 4, **ID, **producer, committed=True).error_code == 0
        add(client, producer)

        timed_out.send_bytes(late)

        assert timed_out.is_closed()
        assert state(other) == "Ongoing"
        assert client.call("end_txn", 4, **ID, **producer, committed=False).error_code == 0
        assert eventually(lambda: state(other), lambda found: found == "CompleteAbort") == "CompleteAbort"
