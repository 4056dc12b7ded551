"""Apache Kafka's own tools at a cluster of `--secure`, with the client.properties that it writes."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from ottla.node.secure_setup.client_settings import properties_text
from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.wire_client import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def cluster(data: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1, secure=True, data=data) as started:
        yield started


def test_the_administrators_file_works_as_it_is(tools: KafkaTools, cluster: Cluster, data: Path) -> None:
    of_tool = ("--command-config", str(data / "secure" / "client.properties"))
    server = ("--bootstrap-server", cluster.bootstrap)
    topic = (*server, *of_tool, "--topic", "orders")

    created = tools.run("kafka-topics", *topic, "--create", "--if-not-exists", "--partitions", "1")
    sent = tools.run("kafka-console-producer", *topic, stdin="hello\n")
    found = tools.run(
        "kafka-console-consumer", *topic, "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000"
    )

    assert created.code == 0, created.text
    assert sent.code == 0, sent.text
    assert "hello" in found.text.splitlines(), found.text


def test_a_user_logs_in_with_the_settings_for_java_and_has_the_rights_that_were_granted(
    tools: KafkaTools, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.add_user("anna", 'odd "password" \\ größe')
    cluster.allow("anna", "DESCRIBE", topic="anna-", prefixed=True)
    properties = tmp_path / "anna.properties"
    properties.write_text(properties_text(cluster.client_config("java", user="anna")))
    of_tool = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(properties))

    visible, hidden = f"anna-{uuid4().hex[:8]}", f"hidden-{uuid4().hex[:8]}"
    admin = AdminClient(cluster.client_config())
    for created in admin.create_topics([NewTopic(visible), NewTopic(hidden)]).values():
        created.result(60)

    rejected = tools.run("kafka-topics", *of_tool, "--create", "--topic", "other")
    listed = eventually(
        lambda: tools.run("kafka-topics", *of_tool, "--list"), lambda ran: visible in ran.lines(), 30
    )

    assert rejected.code != 0 and "Authorization failed" in rejected.text, rejected.text
    assert listed.code == 0 and visible in listed.lines() and hidden not in listed.text, listed.text
