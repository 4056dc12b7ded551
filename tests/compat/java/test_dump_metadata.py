"""kafka-dump-log --cluster-metadata-decoder reads our metadata log and our snapshot, record by record."""

import json
import re
from base64 import b64encode
from pathlib import Path

import pytest

from ottla.metadata_raft.commands import AddRaftVoter, CreateTopics, RequestId, VoterListener
from ottla.metadata_raft.record_codec import decode_batch
from ottla.metadata_raft.snapshot import encode_snapshot
from tests.compat.java.kafka_tools import KafkaTools
from tests.simulation.raft.world import World
from tests.unit.metadata_raft.metadata_world import MetadataWorld
from tests.unit.metadata_raft.test_security_records import RECORDS, STORED_KEY

pytestmark = [pytest.mark.java, pytest.mark.slow]


def payloads(text: str) -> list[str]:
    return [json.loads(found)["type"] for found in re.findall(r"payload: (\{.*\})", text)]


def test_kafka_reads_our_metadata(tools: KafkaTools, tmp_path: Path) -> None:
    world = MetadataWorld(brokers=2)
    world.submit(CreateTopics(topics=[world.topic("t", 3, 2, configs=[("retention.ms", "5")])]))
    world.start_broker(1)
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"".join(world.log))
    snapshot = tmp_path / f"{world.image.version + 1:020d}-{world.image.epoch:010d}.checkpoint"
    snapshot.write_bytes(b"".join(encode_snapshot(world.image)))

    read = [
        tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(path))
        for path in (log, snapshot)
    ]

    records = [record for encoded in world.log for record in decode_batch(encoded)[0].records]
    assert [one.code for one in read] == [0, 0]
    assert all("isvalid: false" not in one.text for one in read)
    assert len(payloads(read[0].text)) == len(records)
    assert payloads(read[1].text) == [
        *["REGISTER_BROKER_RECORD"] * 2,
        "TOPIC_RECORD",
        *["PARTITION_RECORD"] * 3,
        "CONFIG_RECORD",
    ]
    assert "SnapshotHeader" in read[1].text and "SnapshotFooter" in read[1].text


def test_kafka_reads_access_control_entries_quotas_and_credentials(tools: KafkaTools, tmp_path: Path) -> None:
    world = MetadataWorld(brokers=0)
    world.append(RECORDS)
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"".join(world.log))
    snapshot = tmp_path / f"{world.image.version + 1:020d}-{world.image.epoch:010d}.checkpoint"
    snapshot.write_bytes(b"".join(encode_snapshot(world.image)))

    read = [
        tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(path))
        for path in (log, snapshot)
    ]

    assert all(one.code == 0 and "isvalid: false" not in one.text for one in read)
    assert payloads(read[0].text) == [
        *["ACCESS_CONTROL_ENTRY_RECORD"] * 2,
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        *["CLIENT_QUOTA_RECORD"] * 4,
        *["USER_SCRAM_CREDENTIAL_RECORD"] * 2,
        "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    ]
    assert payloads(read[1].text) == [
        "ACCESS_CONTROL_ENTRY_RECORD",
        *["CLIENT_QUOTA_RECORD"] * 2,
        "USER_SCRAM_CREDENTIAL_RECORD",
    ]
    # Unlike our tools, it shows the keys as well.
    credential = next(line for line in read[1].text.splitlines() if "USER_SCRAM" in line)
    assert f'"storedKey":"{b64encode(STORED_KEY).decode()}"' in credential and "alice" in credential


def test_kafka_skips_the_records_that_are_our_own(tools: KafkaTools, tmp_path: Path) -> None:
    """The reply to a repeated command, and the voters: Kafka's tool reports unknown records, and reads on."""
    world = MetadataWorld(brokers=1)
    request = RequestId(world.image.brokers[0].broker_epoch, 0, 0)
    world.submit(CreateTopics(topics=[world.topic("t", 1)]), request)
    listener = VoterListener(name="CONTROLLER", host="h", port=9093)
    world.submit(AddRaftVoter(voter_id=0, voter_directory_id=b"d" * 16, listeners=[listener]))
    world.submit(CreateTopics(topics=[world.topic("u", 1)]))
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"".join(world.log))

    read = tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log))

    assert read.code == 0 and "isvalid: false" not in read.text
    assert payloads(read.text).count("TOPIC_RECORD") == 2


def test_kafka_reads_the_log_of_a_voter_with_its_terms(tools: KafkaTools, tmp_path: Path) -> None:
    """The index and term of a Raft entry are in the header fields that a producer uses elsewhere."""
    world = World(1)
    for number in range(3):
        world.leader().propose(f"n{number}")
    world.run(1)
    world.make_snapshot(world.leader())
    world.run(1)
    node = world.leader()
    files = [path for path in node.disk.files if path.suffix in (".log", ".checkpoint")]
    for path in files:
        (tmp_path / path.name).write_bytes(bytes(node.disk.files[path].content))

    read = {
        path.suffix: tools.run(
            "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(tmp_path / path.name)
        )
        for path in files
    }

    assert all(one.code == 0 and "isvalid: false" not in one.text for one in read.values())
    assert "LeaderChange" in read[".log"].text
    assert payloads(read[".log"].text) == ["CONFIG_RECORD"] * 3
    assert payloads(read[".checkpoint"].text) == ["CONFIG_RECORD"] * 3
