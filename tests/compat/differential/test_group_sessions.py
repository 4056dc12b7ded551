"""Whole sessions of groups: Ottla and Apache Kafka answer and log the same, step by step."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import pytest

from tests.compat.differential import migration_sessions
from tests.compat.differential.compare import prime
from tests.compat.differential.consumer_sessions import CONSUMER_SESSIONS, ConsumerScript, ConsumerSession
from tests.compat.differential.group_sessions import SESSIONS, VERSIONS, Script, Session
from tests.compat.differential.migration_sessions import MigrationSession
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
RUN = os.urandom(3).hex()
TOPIC, SECOND, MIGRATED = f"sessions-{RUN}", f"second-{RUN}", f"migrations-{RUN}"
TOPICS = {TOPIC: 3, SECOND: 2, MIGRATED: migration_sessions.PARTITIONS}
T = TypeVar("T")


def has(partitions: int, found: Any) -> bool:
    topic = only(found.topics)
    return topic.error_code == 0 and len(topic.partitions) == partitions


@pytest.fixture(scope="module")
def servers(ottla: Server, reference: Server) -> tuple[Server, Server]:
    """Return both servers, with the topics of the sessions, when their coordinators have loaded."""
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
    group = unique(f"{script.__name__}-{age}")

    def play(server: Server) -> Session:
        base = session_on(server, group, TOPIC, age)
        return finished(base, base, script)

    ours, theirs = on_both(servers, play)

    assert_same_answers(ours, theirs)
    assert ours.logged() == theirs.logged()


@pytest.mark.parametrize(
    ("script", "age"),
    [
        pytest.param(script, age, id=f"{name}-{age}")
        for name, script, ages in CONSUMER_SESSIONS
        for age in ages
    ],
)
def test_consumer_groups_answer_and_log_the_same(
    servers: tuple[Server, Server], script: ConsumerScript, age: str
) -> None:
    """KIP-848."""

    group = unique(f"consumer-{script.__name__}-{age}")

    def play(server: Server) -> ConsumerSession:
        base = session_on(server, group, TOPIC, age)
        return finished(base, ConsumerSession(base=base, second=SECOND), script)

    ours, theirs = on_both(servers, play)

    assert_same_answers(ours.base, theirs.base)
    assert ours.logged() == theirs.logged()


@pytest.mark.parametrize("script", migration_sessions.SESSIONS, ids=lambda script: script.__name__)
def test_groups_that_change_their_protocol_answer_and_log_the_same(
    servers: tuple[Server, Server], script: migration_sessions.Script
) -> None:
    group = unique(script.__name__)

    def play(server: Server) -> MigrationSession:
        base = session_on(server, group, MIGRATED, "new")
        return finished(base, MigrationSession(base), script)

    ours, theirs = on_both(servers, play)

    assert_same_answers(ours.base, theirs.base)
    assert ours.logged() == theirs.logged()


def unique(name: str) -> str:
    """Return a new group id, so that a test that is repeated does not find the group of its first run."""
    return f"{name}-{os.urandom(3).hex()}"


def session_on(server: Server, group: str, topic: str, age: str) -> Session:
    base = Session(bootstrap=server.bootstrap, group=group, topic=topic, age=age)
    base.learn_topics()
    return base


def finished(base: Session, one: T, script: Callable[[T], None]) -> T:
    """Run a script and close the connections of its session, which is returned."""
    try:
        script(one)
    finally:
        base.close()
    return one


def on_both(servers: tuple[Server, Server], play: Callable[[Server], T]) -> tuple[T, T]:
    """Run a session on both servers at the same time: sessions mostly wait."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        ours, theirs = pool.map(play, servers)
    return ours, theirs


def assert_same_answers(ours: Session, theirs: Session) -> None:
    for step, (mine, other) in enumerate(zip(ours.transcript(), theirs.transcript(), strict=True)):
        assert mine == other, f"step {step}"


def test_ids_and_times_are_not_compared() -> None:
    one = Session(bootstrap="", group="g", topic="t", age="new", ids={"anna-1": "<anna>"})
    value: dict[str, Any] = {"leader": "anna-1", "commit_timestamp": 7, "members": [{"b": 1}, {"a": 1}]}

    assert one.normal(value) == {
        "leader": "<anna>",
        "commit_timestamp": "given",
        "members": [{"a": 1}, {"b": 1}],
    }
