"""A Connect worker with exactly.once.source.support that is killed while its source counts.

No number is missing, and none is there twice.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path
from uuid import uuid4

import pytest

from tests.compat.java.jars import KAFKA, reason_to_skip
from tests.compat.java.java_programs import java_program
from tests.compat.processes import running, wait_until
from tests.compat.topics import counter_of_committed, new_topic, read_committed
from tests.ports import free_port

pytestmark = [pytest.mark.java, pytest.mark.slow]
DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"
NUMBERS, BATCH = 150, 3
# A starting worker reads the offsets to their end, and so waits until the open transaction of the last one
# has timed out.
WORKER = """
group.id={group}
bootstrap.servers={bootstrap}
listeners=http://127.0.0.1:{port}
exactly.once.source.support=enabled
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic={group}-configs
offset.storage.topic={group}-offsets
status.storage.topic={group}-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=2
status.storage.partitions=1
session.timeout.ms=6000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=0
producer.transaction.timeout.ms=5000
plugin.discovery=service_load
"""


def write_services(folder: Path) -> Path:
    """Write the file by which a worker finds the connector as a plug-in, and return its class path."""
    services = folder / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.kafka.connect.source.SourceConnector").write_text("NumberSource\n")
    return folder


def put(url: str, content: object) -> bool:
    """Return True if the worker accepts the content, which it does not while it starts."""
    request = urllib.request.Request(
        url, json.dumps(content).encode(), {"Content-Type": "application/json"}, method="PUT"
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bool(answer.status in (200, 201))
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def test_a_source_counts_exactly_although_its_worker_is_killed(
    cluster_bootstrap: str, tmp_path: Path
) -> None:
    if (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    topic = new_topic(cluster_bootstrap)
    settings, log, port = tmp_path / "worker.properties", tmp_path / "worker.log", free_port()
    group = f"connect-{uuid4().hex[:8]}"
    settings.write_text(WORKER.format(group=group, bootstrap=cluster_bootstrap, port=port))
    command = [*java_program(DISTRIBUTED, KAFKA, write_services(tmp_path / "plugin")), str(settings)]
    connector = {
        "connector.class": "NumberSource",
        "tasks.max": "1",
        "topic": topic,
        "batch": str(BATCH),
        "exactly.once.support": "required",
    }

    with counter_of_committed(cluster_bootstrap, topic) as count:
        with running(command, log) as worker:
            there = f"http://127.0.0.1:{port}/connectors/numbers/config"
            wait_until(lambda: put(there, connector), worker, log)
            wait_until(lambda: count() >= NUMBERS, worker, log)
        before = len(read_committed(cluster_bootstrap, topic))
        with running(command, log) as worker:
            wait_until(lambda: count() >= before + NUMBERS, worker, log)

    found = [int(value) for _, value in read_committed(cluster_bootstrap, topic)]
    assert found == list(range(len(found)))
