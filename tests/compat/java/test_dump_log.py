"""kafka-dump-log, Apache Kafka's own reader of log directories, finds our files valid."""

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.tools.dump_log import main as dump_log
from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.servers import Server, start_ottla
from tests.compat.share_states import write_share_state

pytestmark = [pytest.mark.java, pytest.mark.slow]
WAIT_S = 60
SEGMENT_BYTES = 1 << 20  # the smallest that Kafka 4 allows
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
TROUBLE = re.compile(
    r"isvalid: false|[Mm]ismatch|non-sequential|[Cc]orrupt|Exception|could not|Could not|out of order"
)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Fill a node, stop it, and return its partition directories by name."""
    place = tmp_path_factory.mktemp("dump")
    settings = (
        "offsets.topic.num.partitions=1",
        "transaction.state.log.num.partitions=1",
        "share.coordinator.state.topic.num.partitions=1",
    )
    server = start_ottla(place, "group.initial.rebalance.delay.ms=0", *settings)
    try:
        fill(server)
        fill_with_transactions(server)
        write_share_state(server.bootstrap, "none", 0)
    finally:
        assert server.stop() == 0
    return {path.parent.name: path.parent for path in (place / "ottla").rglob("*.log") if path.stem.isdigit()}


def fill(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    config = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "512"}
    wanted = [NewTopic(name, 1, 1, config=config) for name in (*COMPRESSIONS, "idempotent")]
    for done in admin.create_topics(wanted).values():
        done.result(WAIT_S)
    for name in (*COMPRESSIONS, "idempotent"):
        settings: dict[str, Any] = {"bootstrap.servers": server.bootstrap, "batch.num.messages": 20}
        settings |= {"enable.idempotence": True} if name == "idempotent" else {"compression.type": name}
        producer = Producer(settings)
        noise = random.Random(name)  # does not compress, so that every topic rolls
        for number in range(3000):
            value = b"value %d " % number + noise.randbytes(450)
            producer.produce(name, value, f"key-{number}", headers=[("number", str(number))])
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "dumped", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["none"])
    deadline = time.monotonic() + WAIT_S
    read = 0
    while read < 3000 and time.monotonic() < deadline:
        read += len(consumer.consume(500, 0.5))
    consumer.commit(asynchronous=False)
    consumer.close()
    assert read == 3000


def fill_with_transactions(server: Server) -> None:
    """Write six transactions of two records each: three are committed, three aborted."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "my-id"})
    producer.init_transactions(WAIT_S)
    for number in range(6):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce("transactional", str(number))
        producer.flush(WAIT_S)
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)


def dump(tools: KafkaTools, files: list[Path], *arguments: str) -> str:
    ran = tools.run("kafka-dump-log", "--files", ",".join(map(str, files)), *arguments)
    assert ran.code == 0, ran.text
    found = TROUBLE.search(ran.text)
    assert found is None, ran.text[max(0, found.start() - 400) : found.end() + 400]
    return ran.text


@pytest.mark.parametrize("name", [*COMPRESSIONS, "idempotent"])
def test_every_segment_and_record_is_valid(
    tools: KafkaTools, directories: dict[str, Path], name: str
) -> None:
    files = sorted(directories[f"{name}-0"].glob("*.log"))

    text = dump(tools, files, "--deep-iteration", "--print-data-log")

    assert len(files) > 1, "the topic rolled"
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", text, flags=re.M)]
    assert offsets == list(range(3000))
    assert f"compresscodec: {'none' if name == 'idempotent' else name}" in text


@pytest.mark.parametrize("name", ["none", "zstd"])
@pytest.mark.parametrize("check", ["--index-sanity-check", "--verify-index-only", ""])
def test_indexes_agree_with_their_logs(
    tools: KafkaTools, directories: dict[str, Path], name: str, check: str
) -> None:
    folder = directories[f"{name}-0"]
    files = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])

    text = dump(tools, files, *([check] if check else []))

    assert len(files) >= 4
    assert len(re.findall(r"^Dumping ", text, flags=re.M)) == len(files)
    if check == "--index-sanity-check":
        assert len(re.findall(r"passed sanity check", text)) == len(files)
    if not check:
        assert len(re.findall(r"^offset: \d+ position: \d+", text, flags=re.M)) > 10
        assert len(re.findall(r"^timestamp: \d+ offset: \d+", text, flags=re.M)) > 5


def test_producer_snapshots_name_their_producers(tools: KafkaTools, directories: dict[str, Path]) -> None:
    files = sorted(directories["idempotent-0"].glob("*.snapshot"))

    text = dump(tools, files)

    assert files
    assert re.search(r"producerId: \d+ producerEpoch: 0 ", text)


def test_transaction_indexes_can_be_read(tools: KafkaTools, directories: dict[str, Path]) -> None:
    files = sorted(directories["transactional-0"].glob("*.txnindex"))

    text = dump(tools, files)

    rows = re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", text)
    assert rows == [("3", "5", "6"), ("9", "11", "12"), ("15", "17", "18")]


def test_markers_are_decoded(tools: KafkaTools, directories: dict[str, Path]) -> None:
    files = sorted(directories["transactional-0"].glob("*.log"))

    text = dump(tools, files, "--deep-iteration", "--print-data-log")

    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: 0", text) == ["COMMIT", "ABORT"] * 3


def test_transactions_are_decoded(
    tools: KafkaTools, directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """`ottla log dump` decodes them too, and finds the same."""
    files = sorted(directories["__transaction_state-0"].glob("*.log"))

    text = dump(tools, files, "--transaction-log-decoder")
    capsys.readouterr()
    assert dump_log(["--records", "--json", *map(str, files)]) == 0

    theirs = [json.loads(found) for found in re.findall(r"payload: (\{.*\})$", text, flags=re.M)]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    ours = [json.loads(line["payload"]) for line in lines if line["type"] == "record"]
    assert [one["data"]["transactionStatus"] for one in theirs] == [0, *(1, 2, 4, 1, 3, 5) * 3]
    ends = ["Ongoing", "PrepareCommit", "CompleteCommit", "Ongoing", "PrepareAbort", "CompleteAbort"]
    assert [one["state"] for one in ours] == ["Empty", *ends * 3]
    for their, our in zip(theirs, ours, strict=True):
        data = their["data"]
        partitions = [
            f"{topic['topic']}-{number}"
            for topic in data["transactionPartitions"] or ()
            for number in topic["partitionIds"]
        ]
        assert our["partitions"] == partitions
        assert our["producer_id"] == data["producerId"] == our["previous_producer_id"]
        assert (our["timeout_ms"], our["start_ms"]) == (
            data["transactionTimeoutMs"],
            data["transactionStartTimestampMs"],
        )


def test_committed_offsets_are_decoded(tools: KafkaTools, directories: dict[str, Path]) -> None:
    files = sorted(directories["__consumer_offsets-0"].glob("*.log"))

    text = dump(tools, files, "--offsets-decoder")

    assert '"group":"dumped"' in text
    assert re.search(r'"topic":"none".*"offset":3000', text)
    assert re.search(r'"protocolType":"consumer"', text)


def test_states_of_share_partitions_are_decoded(
    tools: KafkaTools, directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """`ottla log dump` decodes them too."""
    files = sorted(directories["__share_group_state-0"].glob("*.log"))

    text = dump(tools, files, "--share-group-state-decoder")
    capsys.readouterr()
    assert dump_log(["--records", "--json", *map(str, files)]) == 0

    snapshot, update = [
        json.loads(found)["data"] for found in re.findall(r"payload: (\{.*\})$", text, flags=re.M)
    ]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    ours = [json.loads(line["payload"]) for line in lines if line["type"] == "record"]
    assert (
        [snapshot["startOffset"], update["startOffset"]] == [one["start_offset"] for one in ours] == [3, -1]
    )
    assert snapshot["createTimestamp"] == ours[0]["create_time_ms"]
    [theirs], [mine] = update["stateBatches"], ours[1]["batches"]
    assert list(theirs.values()) == list(mine.values()) == [5, 9, 2, 1]
