"""Whole sessions of groups: Ottla and Apache Kafka answer and log the same, step by step."""

import os
from functools import partial
from typing import Any

import pytest

from tests.compat.differential import migration_sessions
from tests.compat.differential.compare import prime
from tests.compat.differential.group_sessions import SESSIONS, VERSIONS, Script, Session
from tests.compat.differential.migration_sessions import MigrationSession
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
RUN = os.urandom(3).hex()
TOPICS = {f"sessions-{RUN}": 3, f"migrations-{RUN}": migration_sessions.PARTITIONS}


def has(partitions: int, found: Any) -> bool:
    topic = only(found.topics)
    return topic.error_code == 0 and len(topic.partitions) == partitions


@pytest.fixture(scope="module")
def servers(ottla: Server, reference: Server) -> tuple[Server, Server]:
    """Both, with the topics of the sessions, and with coordinators that have loaded."""
    for server in (ottla, reference):
        with WireClient(server.bootstrap) as client:
            prime(client)
            for name, partitions in TOPICS.items():
                wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1}
                client.call("create_topics", 7, topics=[wanted], timeout_ms=10_000)
                eventually(
                    partial(client.call, "metadata", 12, topics=[{"name": name}]), partial(has, partitions)
                )
    return ottla, reference


@pytest.mark.parametrize("age", VERSIONS)
@pytest.mark.parametrize("script", [script for _, script in SESSIONS], ids=[name for name, _ in SESSIONS])
def test_both_answer_and_log_the_same(servers: tuple[Server, Server], script: Script, age: str) -> None:
    played = [play(server, script, age) for server in servers]

    for step, (ours, theirs) in enumerate(zip(*(one.transcript() for one in played), strict=True)):
        assert ours == theirs, f"step {step}"
    assert played[0].logged() == played[1].logged()


@pytest.mark.parametrize("script", migration_sessions.SESSIONS, ids=lambda script: script.__name__)
def test_groups_that_change_their_protocol_answer_and_log_the_same(
    servers: tuple[Server, Server], script: migration_sessions.Script
) -> None:
    played = [play_migration(server, script) for server in servers]

    for step, (ours, theirs) in enumerate(zip(*(one.base.transcript() for one in played), strict=True)):
        assert ours == theirs, f"step {step}"
    assert played[0].logged() == played[1].logged()


def play_migration(server: Server, script: migration_sessions.Script) -> MigrationSession:
    base = Session(
        bootstrap=server.bootstrap,
        group=f"{script.__name__}-{RUN}",
        topic=f"migrations-{RUN}",
        age="new",
    )
    try:
        one = MigrationSession(base)
        script(one)
        return one
    finally:
        base.close()


def play(server: Server, script: Script, age: str) -> Session:
    """The session as it went against one server."""
    group = f"{script.__name__}-{age}-{RUN}"
    one = Session(bootstrap=server.bootstrap, group=group, topic=f"sessions-{RUN}", age=age)
    try:
        script(one)
    finally:
        one.close()
    return one


def test_ids_and_times_are_not_compared() -> None:
    one = Session(bootstrap="", group="g", topic="t", age="new", ids={"anna-1": "<anna>"})
    value: dict[str, Any] = {"leader": "anna-1", "commit_timestamp": 7, "members": [{"b": 1}, {"a": 1}]}

    assert one.normal(value) == {
        "leader": "<anna>",
        "commit_timestamp": "given",
        "members": [{"a": 1}, {"b": 1}],
    }
