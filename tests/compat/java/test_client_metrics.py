"""Apache Kafka's own clients push their metrics (KIP-714), subscribed to by its own tools."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.node.client_metrics.client_instances import ClientReading
from ottla.node.client_metrics.otlp_reader import PointKind
from tests.compat.java.kafka_tools import KafkaTools
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded

pytestmark = [pytest.mark.java, pytest.mark.slow]

PREFIX = "org.apache.kafka.producer."


@pytest.fixture
def node(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    started = start_embedded(tmp_path / "node")
    yield started
    started.stop()


def pushed(node: EmbeddedBroker) -> list[ClientReading]:
    def read(broker: object) -> list[ClientReading]:
        services = node.broker.view.services
        assert services is not None
        found = services.client_metrics.read(services.clock.now_ms())
        return [one for one in found if one is not None]

    return node.call(read)


def test_the_tool_creates_shows_and_deletes_subscriptions(tools: KafkaTools, node: EmbeddedBroker) -> None:
    def run(tool: str, *arguments: str) -> str:
        ran = tools.run(tool, "--bootstrap-server", node.bootstrap, *arguments)
        assert ran.code == 0 and "Exception" not in ran.text, ran.text
        return ran.text

    one = ("--name", "one")
    settings = ("--metrics", f"{PREFIX},org.b", "--interval", "1000", "--match", "client_id=a.*")
    run("kafka-client-metrics", "--alter", *one, *settings)
    listed = run("kafka-client-metrics", "--list")
    described = run("kafka-client-metrics", "--describe", *one)
    configs = run("kafka-configs", "--describe", "--entity-type", "client-metrics", "--entity-name", "one")
    wrong = tools.run(
        *("kafka-client-metrics", "--bootstrap-server", node.bootstrap),
        *("--alter", *one, "--interval", "99"),
    )
    run("kafka-client-metrics", "--delete", *one)

    assert listed.split() == ["one"]
    assert f"metrics={PREFIX},org.b" in described and "interval.ms=1000" in described
    assert "match=client_id=a.*" in described and "match=client_id=a.*" in configs
    assert "interval must be between 100 and 3600000" in wrong.text
    assert run("kafka-client-metrics", "--list").split() == []


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_java_producer_pushes_the_subscribed_metrics(
    tools: KafkaTools, node: EmbeddedBroker, compression: str
) -> None:
    server = ("--bootstrap-server", node.bootstrap)
    subscribed = tools.run(
        *("kafka-client-metrics", *server, "--alter", "--name", "s", "--metrics", PREFIX),
        *("--interval", "200", "--match", "client_software_name=apache-kafka-java"),
    )
    sent = tools.run(
        *("kafka-producer-perf-test", *server, "--topic", "t", "--num-records", "40"),
        *("--record-size", "10", "--throughput", "20"),
        *("--command-property", "client.id=shop", f"compression.type={compression}"),
    )

    assert subscribed.code == 0, subscribed.text
    assert sent.code == 0, sent.text
    (client,) = [one for one in pushed(node) if one.client_id == "shop"]
    values = {key.metric: value for key, value in client.series}
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", client.client_instance_id)
    assert all(name.startswith(PREFIX) for name in values)
    # Records after the last push are not counted.
    counted = values[f"{PREFIX}record.send.total"]
    assert isinstance(counted, float) and 0 < counted <= 40
    kinds = {key.metric: key.kind for key, _ in client.series}
    assert kinds[f"{PREFIX}record.send.total"] is PointKind.COUNTER
    assert kinds[f"{PREFIX}record.send.rate"] is PointKind.GAUGE
