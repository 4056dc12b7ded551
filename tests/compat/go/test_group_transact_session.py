"""franz-go's GroupTransactSession: two members of a group copy a topic, and one is killed and comes back.

Each record has one copy.
"""

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from tests.compat.go.programs import go_program
from tests.compat.processes import running, wait_until
from tests.compat.topics import counter_of_committed, new_topic, read_committed

pytestmark = pytest.mark.slow
PARTITIONS, RECORDS = 4, 240


def test_each_record_has_one_copy(cluster_bootstrap: str, tmp_path: Path) -> None:
    program = go_program("transact")
    if isinstance(program, str):
        pytest.skip(program)
    source, copies = new_topic(cluster_bootstrap, PARTITIONS), new_topic(cluster_bootstrap, PARTITIONS)
    group, producer = f"copiers-{uuid4().hex[:8]}", Producer({"bootstrap.servers": cluster_bootstrap})

    def command(name: str) -> list[str]:
        return [str(program), cluster_bootstrap, group, f"{group}-{name}", source, copies]

    def feed(first: int) -> None:
        for number in range(first, first + RECORDS):
            producer.produce(source, str(number).encode(), partition=number % PARTITIONS)
        producer.flush()

    logs = [tmp_path / "anna.log", tmp_path / "berta.log"]
    with running(command("anna"), logs[0]) as anna, counter_of_committed(cluster_bootstrap, copies) as count:
        with running(command("berta"), logs[1]):
            feed(0)
            wait_until(lambda: count() > RECORDS // 4, anna, logs[0])
        with running(command("berta"), logs[1]):
            feed(RECORDS)
            wait_until(lambda: count() >= 2 * RECORDS, anna, logs[0])

    found = sorted(int(value) for _, value in read_committed(cluster_bootstrap, copies))
    assert found == list(range(2 * RECORDS))
    assert all("committed" in log.read_text() for log in logs)
