"""The errors of six client libraries that are rejected because of their certificate or their token.

With TLS 1.3, a client ends its handshake before the server has checked its certificate. It then receives an
alert or, if that arrives while it writes, the end of the connection. A thorough run shows the same with
Apache Kafka.
"""

from typing import Final

import pytest

from tests.compat.clients.secured_node import OAUTHBEARER, SecuredNode, client_settings
from tests.compat.clients.secured_programs import SOON_S, Program, assert_answer

pytestmark = pytest.mark.slow
ENDED: Final = "reset by peer|broken pipe|EOF"
# The error for a certificate, and for a token.
MESSAGES: Final = {
    "confluent": ("SSL alert number|SSL connection closed|Disconnected", "_AUTHENTICATION.*invalid_token"),
    "java": ("SslAuthenticationException", "SaslAuthenticationException.*invalid_token"),
    "franz": (f"remote error: tls: .*certificate|{ENDED}", "unexpected data in oauth response"),
    # It answers the server's error with the letters AQ== in place of the byte that they encode in base64.
    "sarama": (
        f"remote error: tls: .*certificate|{ENDED}",
        "SASL Authentication failed: .*invalid credentials with SASL mechanism OAUTHBEARER",
    ),
    "kafka-python": (
        "SSL: .*ALERT|socket disconnected|Errno",
        "SaslAuthenticationFailed|socket disconnected",
    ),
    # It takes any answer to a token for success, and then finds the connection closed.
    "aiokafka": ("Connection at .* closed", "Unable to update metadata"),
}


@pytest.mark.parametrize("certificate", [None, "old-client", "untrusted"])
def test_a_client_without_a_valid_certificate_is_rejected(
    node: SecuredNode, library: Program, certificate: str | None
) -> None:
    own = {"certificate": str(node.home / f"{certificate}.pem")} if certificate else {}

    answer = library.talk("x", client_settings(node, "MUTUAL", **own), SOON_S)

    assert answer.startswith("failed")
    assert_answer(answer, MESSAGES[library.name][0])


def test_a_token_that_has_expired_is_rejected(node: SecuredNode, library: Program) -> None:
    before = node.logins("TLS")

    old = str(node.home / "old-token")
    answer = library.talk("x", client_settings(node, "TLS", OAUTHBEARER, token=old), SOON_S)

    assert answer.startswith("failed")
    assert_answer(answer, MESSAGES[library.name][1])
    after = node.logins("TLS")
    if before and library.name != "franz":  # franz-go leaves as soon as it reads that the token is invalid
        assert after["failed"] > before["failed"]
    assert not before or after["successful"] == before["successful"]
