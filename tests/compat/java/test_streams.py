"""A Kafka Streams application with processing.guarantee=exactly_once_v2 that is killed repeatedly.

Each record counts once, and each count is written once.
"""

import time
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from tests.compat.java.jars import reason_to_skip
from tests.compat.java.java_programs import java_program
from tests.compat.processes import running
from tests.compat.topics import counter_of_committed, new_topic, read_committed

pytestmark = [pytest.mark.java, pytest.mark.slow]
TIMEOUT_S = 120.0
KEYS, KILLS, RECORDS_PER_RUN = 5, 2, 300


def test_counts_are_exact_although_the_application_is_killed(cluster_bootstrap: str, tmp_path: Path) -> None:
    if (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    source, counts = new_topic(cluster_bootstrap, 2), new_topic(cluster_bootstrap)
    application, log = f"counting-{uuid4().hex[:8]}", tmp_path / "streams.log"
    command = [
        *java_program("CountingStream"),
        *(cluster_bootstrap, application, source, counts),
        *(str(tmp_path / "state"), "commit.interval.ms=100", "auto.offset.reset=earliest"),
        # A member that comes back takes its own place: no session has to end first.
        "consumer.group.instance.id=the-only-one",
    ]
    random, producer = (
        Random(7),
        Producer({"bootstrap.servers": cluster_bootstrap, "enable.idempotence": True}),
    )
    expected = [0] * KEYS

    with counter_of_committed(cluster_bootstrap, counts) as count:
        for run in range(KILLS + 1):
            with running(command, log) as process:
                before = len(read_committed(cluster_bootstrap, counts))
                for _ in range(RECORDS_PER_RUN):
                    key = random.randrange(KEYS)
                    expected[key] += 1
                    producer.produce(source, key=str(key), value=b"one")
                producer.flush()
                wanted = sum(expected) if run == KILLS else before + random.randint(1, RECORDS_PER_RUN // 2)
                deadline = time.monotonic() + TIMEOUT_S
                while count() < wanted:
                    assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
                    time.sleep(random.uniform(0, 0.1))

    by_key: dict[str, list[int]] = {}
    for key_text, value in read_committed(cluster_bootstrap, counts):
        by_key.setdefault(key_text, []).append(int(value))
    assert by_key == {str(key): list(range(1, count + 1)) for key, count in enumerate(expected)}
