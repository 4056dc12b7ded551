"""The tools that replay internal logs, on the files that a node leaves."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.embedded import Cluster
from ottla.node.tools.dump_state import main
from tests.compat import command_line
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = pytest.mark.slow


def test_what_a_node_leaves_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1, data=tmp_path) as cluster:
        command_line.ottla(cluster.bootstrap, "topic", "create", "orders", "-p", "2")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "billing-1"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"value", partition=0)
        producer.commit_transaction(30)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 1, 7)], asynchronous=False)
        consumer.close()
        write_share_state(cluster.bootstrap)
    data = tmp_path / "node-0"
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}

    metadata = dumped(capsys, "dump-metadata", next(data.glob("__cluster_metadata-0")))
    offsets = [
        row for path in data.glob("__consumer_offsets-*") for row in dumped(capsys, "dump-group", path)
    ]
    txns = [row for path in data.glob("__transaction_state-*") for row in dumped(capsys, "dump-group", path)]
    shares = [
        row for path in data.glob("__share_group_state-*") for row in dumped(capsys, "dump-group", path)
    ]
    codes = [main(["replay", str(path)]) for path in data.glob("__*-*")]

    assert "orders" in [row.get("name") for row in metadata if row["type"] == "TopicRecord"]
    [commit] = [row for row in offsets if row["type"] == "offset"]
    assert (commit["group"], commit["topic"], commit["partition"], commit["offset"]) == (
        "billing",
        "orders",
        1,
        7,
    )
    [txn] = txns
    assert (txn["transactional_id"], txn["state"]) == ("billing-1", "CompleteCommit")
    [share] = shares
    assert (share["group"], share["partition"], share["start_offset"]) == ("workers", 1, 3)
    assert share["batches"] == [
        {"first_offset": 5, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}
    ]
    assert set(codes) == {0}, capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}


def write_share_state(bootstrap: str) -> None:
    """A state as the leader of a share-partition and the coordinator of its group write it."""
    with WireClient(bootstrap) as client:
        metadata = client.call("metadata", 12, topics=[{"name": "orders"}])
        topic_id = only(metadata.topics).topic_id
        key = f"workers:{uuid_to_text(topic_id)}:1"
        eventually(
            lambda: client.call("find_coordinator", 6, key_type=2, coordinator_keys=[key]),
            lambda answer: only(answer.coordinators).error_code == 0,
        )
        beginning = {"partition": 1, "state_epoch": 0, "start_offset": 3}
        change = {
            "partition": 1,
            "state_epoch": 0,
            "leader_epoch": 0,
            "start_offset": -1,
            "delivery_complete_count": 5,
            "state_batches": [
                {"first_offset": 5, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}
            ],
        }
        for api, version, partition in (
            ("initialize_share_group_state", 0, beginning),
            ("write_share_group_state", 1, change),
        ):
            topics = [{"topic_id": topic_id, "partitions": [partition]}]

            def ask(api: str = api, version: int = version, topics: object = topics) -> Any:
                return client.call(api, version, group_id="workers", topics=topics)

            answer = eventually(ask, lambda told: only(only(told.results).partitions).error_code == 0)
            assert only(only(answer.results).partitions).error_code == 0, answer


def dumped(capsys: pytest.CaptureFixture[str], tool: str, directory: Path) -> list[dict[str, object]]:
    assert main([tool, "--json", str(directory)]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
