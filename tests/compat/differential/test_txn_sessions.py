"""Whole sessions of transactions: Ottla and Apache Kafka answer and log the same, step by step."""

import pytest

from tests.compat.differential.compare import prime
from tests.compat.differential.test_group_sessions import unique
from tests.compat.differential.txn_sessions import (
    DIFFERENCES,
    SESSIONS,
    Difference,
    Script,
    TxnSession,
)
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
TOPIC = unique("transactions")
PARTITIONS = 3


@pytest.fixture(scope="module")
def servers(ottla: Server, reference: Server) -> tuple[Server, Server]:
    """Return both servers, with the topic of the sessions."""
    for server in (ottla, reference):
        with WireClient(server.bootstrap) as client:
            prime(client)
            wanted = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
            client.call("create_topics", 7, topics=[wanted], timeout_ms=10_000)
            indexes = [{"partition_index": index, "timestamp": -1} for index in range(PARTITIONS)]
            request = {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": indexes}]}
            eventually(
                lambda client=client, request=request: client.call("list_offsets", 5, **request),  # type: ignore[misc]
                lambda found: all(one.error_code == 0 for one in only(found.topics).partitions),
            )
            key = {"key_type": 1, "coordinator_keys": ["sessions"]}
            eventually(
                lambda client=client, key=key: client.call("find_coordinator", 4, **key),  # type: ignore[misc]
                lambda found: only(found.coordinators).error_code == 0,
            )
    return ottla, reference


@pytest.mark.parametrize(
    ("script", "age"),
    [pytest.param(script, age, id=f"{script.__name__}-{age}") for script, ages in SESSIONS for age in ages],
)
def test_both_answer_and_log_the_same(servers: tuple[Server, Server], script: Script, age: str) -> None:
    name = unique(f"{script.__name__}-{age}")

    ours, theirs = (play(server, script, age, name) for server in servers)

    for step, (mine, other) in enumerate(zip(ours.answers, theirs.answers, strict=True)):
        assert mine == other, f"step {step}"


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: one.script.__name__)
def test_both_differ_as_listed(servers: tuple[Server, Server], difference: Difference) -> None:
    name = unique(difference.script.__name__)

    ours, theirs = (play(server, difference.script, difference.age, name) for server in servers)

    # The last note is the log, by `play`; the one before it is the last of the script.
    assert (ours.answers[-2][1], theirs.answers[-2][1]) == (difference.ours, difference.theirs)


def play(server: Server, script: Script, age: str, name: str) -> TxnSession:
    """Run a script and return its session; its last note is the log."""
    one = TxnSession(bootstrap=server.bootstrap, name=name, topic=TOPIC, age=age)
    try:
        script(one)
        one.note("log", one.logged())
        return one
    finally:
        one.close()
