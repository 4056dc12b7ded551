"""The feature `transaction.version`, with the same requests to Ottla and Apache Kafka 4.3.1.

Its level decides how states of transactions are written, and how an abort by the server changes the
producer's epoch.
"""

import os
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.logstore.record import iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.node.coordinators.key_partition import partition_for
from tests.compat.differential.raw_producer import Producer
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
RUN = os.urandom(3).hex()
TOPIC, GROUP = f"versions-{RUN}", f"versions-{RUN}"
STATES = "__transaction_state"
UPGRADE, SAFE_DOWNGRADE = 1, 2
NEWEST = 2


def features(client: WireClient) -> tuple[Any, int]:
    """Return the range of levels that the server supports, and the finalized level."""
    response = client.call("api_versions", 4, client_software_name="x", client_software_version="1")
    known = [
        (one.min_version, one.max_version)
        for one in response.supported_features
        if one.name == "transaction.version"
    ]
    levels = [
        one.max_version_level for one in response.finalized_features if one.name == "transaction.version"
    ]
    return known, levels[0] if levels else 0


def set_level(client: WireClient, level: int) -> int:
    """Upgrade or downgrade to a level, and return the error code."""
    current = features(client)[1]
    update = {
        "feature": "transaction.version",
        "max_version_level": level,
        "upgrade_type": UPGRADE if level > current else SAFE_DOWNGRADE,
    }
    answer = client.call("update_features", 2, timeout_ms=5000, feature_updates=[update], validate_only=False)
    eventually(lambda: features(client)[1], lambda found: found == level)
    return int(answer.error_code)


def values(client: WireClient, transactional_id: str) -> list[tuple[int, int, int]]:
    """Return version, producer epoch and state of each record of the transactional id."""
    topic = only(client.call("metadata", 9, topics=[{"name": STATES}]).topics)
    partition = partition_for(transactional_id, len(topic.partitions))
    found: list[tuple[int, int, int]] = []
    offset = 0
    while True:
        partition_request = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        answer = client.call(
            "fetch",
            11,
            max_wait_ms=0,
            min_bytes=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": STATES, "partitions": [partition_request]}],
        )
        content = bytes(only(only(answer.responses).partitions).records or b"")
        if not content:
            return found
        for position, header in iterate_headers(content):
            offset = header.last_offset + 1
            for record in iterate_records(content[position : position + header.size_bytes]):
                assert record.key is not None and record.value is not None
                if record.key[4:].decode() == transactional_id:
                    version, _, epoch, _, state = struct.unpack_from(">hqhib", record.value)
                    found.append((version, epoch, state))


def answers(server: Server) -> Iterator[tuple[str, Any]]:
    with WireClient(server.bootstrap) as client:
        created = [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}]
        client.call("create_topics", 7, topics=created, timeout_ms=10_000)
        yield "a new cluster", features(client)
        try:
            for number, level in enumerate((NEWEST, 1, 0, 1)):
                yield f"to {level}", (set_level(client, level), features(client))
                for name in ("ended", "fenced"):
                    transactional_id = f"{name}-{number}-{RUN}"
                    producer = Producer(client, transactional_id, topic=TOPIC, group=GROUP)
                    yield f"{level} begun", producer.add_partition()
                    if name == "ended":
                        yield f"{level} ended", producer.end(committed=True)
                    else:
                        producer.init()  # another instance, while the transaction is open
                        yield f"{level} fenced", producer.epoch
                    yield f"{level} {name} log", values(client, producer.transactional_id)
        finally:
            set_level(client, NEWEST)


def test_the_level_decides_what_is_written_and_how_the_server_aborts(
    ottla: Server, reference: Server
) -> None:
    for ours, theirs in zip(answers(ottla), answers(reference), strict=True):
        assert ours == theirs
