"""Apache Kafka's own console tools over a listener with TLS that requires certificates."""

from pathlib import Path

import pytest
import trustme

from tests.compat.java.kafka_tools import KafkaTools
from tests.integration.embedded_broker import start_embedded
from tests.pem_files import write_pem

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_the_console_tools_connect_with_a_certificate(
    tools: KafkaTools, tmp_path: Path, version: str
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name in ("node", "client"):
        write_pem(tmp_path, name, ca)
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"""
security.protocol=SSL
ssl.enabled.protocols={version}
ssl.truststore.type=PEM
ssl.truststore.location={tmp_path}/ca.pem
ssl.keystore.type=PEM
ssl.keystore.location={tmp_path}/client.pem
"""
    )
    node = start_embedded(
        tmp_path / "node",
        listeners="SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        ssl_keystore_location=tmp_path / "node.pem",
        ssl_truststore_location=tmp_path / "ca.pem",
        ssl_client_auth="required",
    )
    try:
        server = ("--bootstrap-server", node.bootstrap, "--topic", "java-tls")
        lines = "".join(f"value-{number}\n" for number in range(50))
        of_tool = ("--command-config", str(properties))

        sent = tools.run("kafka-console-producer", *server, *of_tool, stdin=lines)
        found = tools.run(
            "kafka-console-consumer",
            *(*server, *of_tool, "--from-beginning", "--max-messages", "50", "--timeout-ms", "30000"),
        )
    finally:
        node.stop()

    assert sent.code == 0, sent.text
    assert [one for one in found.text.splitlines() if one.startswith("value-")] == lines.split(), found.text
