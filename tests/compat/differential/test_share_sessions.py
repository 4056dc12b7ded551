"""Whole sessions of share groups (KIP-932): Ottla and Apache Kafka answer and log the same, step by step."""

import os
from functools import partial
from typing import Any

import pytest

from ottla.groupcoord.assignors.simple_assignor import hash_of_partition_key
from ottla.groupcoord.java_hash_order import JavaHashMap
from tests.compat.differential.compare import prime
from tests.compat.differential.group_sessions import VERSIONS
from tests.compat.differential.share_sessions import SHARE_SESSIONS, SHARE_VERSIONS, ShareScript, ShareSession
from tests.compat.differential.test_group_sessions import (
    assert_same_answers,
    finished,
    has,
    on_both,
    session_on,
    unique,
)
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
RUN = os.urandom(3).hex()
TOPIC, SECOND = f"shared-{RUN}", f"shared-too-{RUN}"
TOPICS = {TOPIC: 3, SECOND: 2}


@pytest.fixture(scope="module")
def servers(ottla: Server, reference: Server) -> tuple[Server, Server]:
    """Return both servers, with the topics of the sessions, when their coordinators have loaded."""
    for server in (ottla, reference):
        with WireClient(server.bootstrap) as client:
            prime(client)
            for name, partitions in TOPICS.items():
                while not has_partitions_in_order(create(client, name, partitions), partitions):
                    client.call("delete_topics", 5, topic_names=[name], timeout_ms=10_000)
                    eventually(partial(look_at, client, name), is_gone)
    return ottla, reference


def create(client: WireClient, name: str, partitions: int) -> bytes:
    """Create a topic, wait for its partitions, and return its id."""
    wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    client.call("create_topics", 7, topics=[wanted], timeout_ms=10_000)
    found = eventually(partial(look_at, client, name), partial(has, partitions))
    return bytes(only(found.topics).topic_id)


def look_at(client: WireClient, name: str) -> Any:
    return client.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)


def has_partitions_in_order(topic_id: bytes, partitions: int) -> bool:
    """Return True if the assignor takes the partitions in their order, with hash tables of either size."""
    for buckets in (8, 16):
        table: JavaHashMap[tuple[bytes, int], None] = JavaHashMap(hash_of_partition_key, buckets)
        for number in range(partitions):
            table[topic_id, number] = None
        if table.ordered() != [(topic_id, number) for number in range(partitions)]:
            return False
    return True


def is_gone(found: Any) -> bool:
    return bool(only(found.topics).error_code)


@pytest.mark.parametrize("script", SHARE_SESSIONS, ids=lambda script: script.__name__)
def test_share_groups_answer_and_log_the_same(
    servers: tuple[Server, Server], script: ShareScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VERSIONS, "share", VERSIONS["new"] | SHARE_VERSIONS)
    group = unique(script.__name__[:24])

    def play(server: Server) -> ShareSession:
        base = session_on(server, group, TOPIC, "share")
        return finished(base, ShareSession(base=base, second=SECOND), script)

    ours, theirs = on_both(servers, play)

    assert_same_answers(ours.base, theirs.base)
    assert ours.logged() == theirs.logged()
