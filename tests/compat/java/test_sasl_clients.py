"""Apache Kafka's own tools over listeners where clients log in, and log in again later."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.java.kafka_tools import KafkaTools
from tests.integration.embedded_broker import EmbeddedBroker
from tests.integration.test_sasl_listener import OPEN, OVER_TLS, PLAIN, SCRAM_256, SCRAM_512, SHORT, Node

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("sasl"))
    yield node
    embedded: EmbeddedBroker = node.embedded
    embedded.stop()


def properties(node: Node, home: Path, listener: str, mechanism: str, password: str = "secret") -> str:
    module = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
    path = home / "client.properties"
    path.write_text(
        f"""
security.protocol={"SASL_SSL" if listener == OVER_TLS else "SASL_PLAINTEXT"}
ssl.truststore.type=PEM
ssl.truststore.location={node.ca}
sasl.mechanism={mechanism}
sasl.jaas.config=org.apache.kafka.common.security.{module} required username="anna" password="{password}";
"""
    )
    return str(path)


@pytest.mark.parametrize(("listener", "mechanism"), [(OPEN, SCRAM_512), (OPEN, SCRAM_256), (OVER_TLS, PLAIN)])
def test_the_console_tools_log_in(
    tools: KafkaTools, node: Node, tmp_path: Path, listener: str, mechanism: str
) -> None:
    of_tool = ("--command-config", properties(node, tmp_path, listener, mechanism))
    server = ("--bootstrap-server", node.address(listener), "--topic", f"java-{mechanism}")

    sent = tools.run("kafka-console-producer", *server, *of_tool, stdin="hello\n")
    found = tools.run(
        "kafka-console-consumer",
        *(*server, *of_tool, "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000"),
    )

    assert sent.code == 0, sent.text
    assert "hello" in found.text.splitlines(), found.text


@pytest.mark.parametrize(
    ("listener", "mechanism", "message"),
    [
        (
            OPEN,
            SCRAM_512,
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "SCRAM-SHA-512",
        ),
        (OVER_TLS, PLAIN, "Authentication failed: Invalid username or password"),
        (OPEN, PLAIN, "Client SASL mechanism 'PLAIN' not enabled in the server"),
    ],
)
def test_a_client_that_cannot_log_in_learns_why(
    tools: KafkaTools, node: Node, tmp_path: Path, listener: str, mechanism: str, message: str
) -> None:
    of_tool = ("--command-config", properties(node, tmp_path, listener, mechanism, "wrong"))

    rejected = tools.run("kafka-topics", "--bootstrap-server", node.address(listener), *of_tool, "--list")

    assert rejected.code != 0 and message in rejected.text


def test_a_java_client_logs_in_again_while_it_produces(tools: KafkaTools, node: Node, tmp_path: Path) -> None:
    done = tools.run(
        "kafka-producer-perf-test",
        *("--topic", "java-again", "--num-records", "600", "--record-size", "100", "--throughput", "150"),
        *("--bootstrap-server", node.address(SHORT)),
        *("--command-config", properties(node, tmp_path, SHORT, SCRAM_512)),
    )

    assert done.code == 0 and "600 records sent" in done.text, done.text
    assert "rror" not in done.text, done.text
    counts = node.counts(SHORT)
    assert counts["successful_again"] >= 2 and counts["expired"] == counts["failed_again"] == 0
