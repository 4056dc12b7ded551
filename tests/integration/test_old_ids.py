"""Groups and transactional ids from before the limit of 1,024 bytes: found, described, deleted, ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.groupcoord.group_records import OffsetCommitValue, OffsetRecord
from ottla.groupcoord.record_codec import encode_key, encode_value
from ottla.groupcoord.transactions import transaction_records
from ottla.groupcoord.transactions.transaction import Transaction
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.key_partition import partition_for
from tests.compat.batches import batch, now_ms
from tests.compat.wire_client import WireClient, eventually, only
from tests.integration.embedded_broker import start_embedded

pytestmark = pytest.mark.slow
ID = "x" * 32_000
TOPIC, PRODUCER_ID, EPOCH = "read", 7_000, 3
PARTITIONS = 4  # of each internal topic


def write(client: WireClient, topic: str, key: bytes, value: bytes) -> None:
    """Write a record of a coordinator, as an administrator's tool may do."""
    data = {
        "index": partition_for(ID, PARTITIONS),
        "records": batch([value], keys=[key]),
    }
    answer = client.call(
        "produce", 9, acks=-1, timeout_ms=30_000, topic_data=[{"name": topic, "partition_data": [data]}]
    )
    assert only(only(answer.responses).partition_responses).error_code == ErrorCode.NONE


def is_found(client: WireClient, key_type: int, key: str) -> bool:
    return eventually(
        lambda: client.call("find_coordinator", 3, key=key, key_type=key_type).error_code == ErrorCode.NONE,
        bool,
    )


def settled(ask: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
    """Return the answer once the coordinator has loaded and has ended open transactions."""
    waits = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
    return eventually(ask, lambda answer: code_of(answer) not in waits)


def test_groups_and_transactions_from_before_the_limit_of_ids_can_be_removed(tmp_path: Path) -> None:
    settings = {
        "offsets_topic_num_partitions": PARTITIONS,
        "transaction_state_log_num_partitions": PARTITIONS,
    }
    before = start_embedded(tmp_path, **settings)
    offsets = [
        OffsetRecord(ID, TOPIC, number, OffsetCommitValue(offset=5, commit_timestamp=now_ms()))
        for number in (0, 1)
    ]
    transaction = Transaction(
        transactional_id=ID,
        producer_id=PRODUCER_ID,
        previous_producer_id=-1,
        producer_epoch=EPOCH,
        timeout_ms=600_000,
        state=TransactionState.ONGOING,
        partitions=frozenset({TopicPartition(TOPIC, 0)}),
        start_ms=now_ms(),
        last_update_ms=now_ms(),
    )
    with WireClient(before.bootstrap, client_id="__admin_client") as client:
        topics = [{"name": TOPIC, "num_partitions": 2, "replication_factor": 1}]
        client.call("create_topics", 7, topics=topics, timeout_ms=30_000)
        assert is_found(client, 0, "any") and is_found(client, 1, "any")
        for record in offsets:
            value = encode_value(record)
            assert value is not None
            write(client, "__consumer_offsets", encode_key(record), value)
        write(
            client,
            "__transaction_state",
            transaction_records.encode_key(ID),
            transaction_records.encode_value(transaction, 0),
        )
    before.stop()

    node = start_embedded(tmp_path, **settings)
    with WireClient(node.bootstrap) as client:
        found = [is_found(client, key_type, ID) for key_type in (0, 1)]
        one = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
        offset_deleted = settled(
            lambda: client.call("offset_delete", 0, group_id=ID, topics=one), lambda answer: answer.error_code
        )
        fetched = client.call("offset_fetch", 8, groups=[{"group_id": ID, "topics": None}])
        described = client.call("describe_groups", 5, groups=[ID])
        deleted = client.call("delete_groups", 2, groups_names=[ID])
        left = client.call("list_groups", 4)
        ongoing = settled(
            lambda: only(client.call("describe_transactions", 0, transactional_ids=[ID]).transaction_states),
            lambda answer: answer.error_code,
        )
        fenced = settled(
            lambda: client.call("init_producer_id", 4, transactional_id=ID, transaction_timeout_ms=1_000),
            lambda answer: answer.error_code,
        )
        ended = only(client.call("describe_transactions", 0, transactional_ids=[ID]).transaction_states)
        new = client.call("init_producer_id", 4, transactional_id=ID + "y", transaction_timeout_ms=1_000)
        joins = client.call("join_group", 5, group_id=ID, session_timeout_ms=10_000, protocol_type="consumer")
    node.stop()

    assert found == [True, True]
    assert offset_deleted.error_code == ErrorCode.NONE
    assert [one.partition_index for one in only(only(fetched.groups).topics).partitions] == [1]
    assert only(described.groups).group_state == "Empty"
    assert only(deleted.results).error_code == ErrorCode.NONE and left.groups == []
    assert ongoing.transaction_state == "Ongoing"
    assert (fenced.error_code, fenced.producer_id) == (ErrorCode.NONE, PRODUCER_ID)
    assert fenced.producer_epoch > EPOCH and ended.transaction_state == "Empty"
    assert new.error_code == ErrorCode.INVALID_REQUEST
    assert joins.error_code == ErrorCode.INVALID_GROUP_ID
