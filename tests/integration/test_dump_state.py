"""The tools that replay internal logs, on the files that a node leaves behind."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.node.embedded import Cluster
from ottla.node.tools.dump_state import main
from tests.compat import command_line
from tests.compat.share_states import write_share_state

pytestmark = pytest.mark.slow


def test_the_logs_of_a_stopped_node_are_consistent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
        write_share_state(cluster.bootstrap, "orders", 1)
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


def dumped(capsys: pytest.CaptureFixture[str], tool: str, directory: Path) -> list[dict[str, object]]:
    assert main([tool, "--json", str(directory)]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
