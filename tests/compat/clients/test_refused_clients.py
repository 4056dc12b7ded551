"""Six client libraries that are not let in, for their certificate or their token: what each of them says.

A client with TLS 1.3 has ended its handshake before its certificate is judged, and then hears an alert; or,
if that comes while it writes, the end of the connection. In a thorough run Apache Kafka shows the same.
"""

from typing import Final

import pytest

from tests.compat.clients.secured_node import OAUTHBEARER, SecuredNode, client_settings
from tests.compat.clients.secured_programs import SOON_S, Program, assert_says

pytestmark = pytest.mark.slow
ENDED: Final = "reset by peer|broken pipe|EOF"
# Of a certificate, and of a token.
SAYS: Final = {
    "confluent": ("SSL alert number|SSL connection closed|Disconnected", "_AUTHENTICATION.*invalid_token"),
    "java": ("SslAuthenticationException", "SaslAuthenticationException.*invalid_token"),
    "franz": (f"remote error: tls: .*certificate|{ENDED}", "unexpected data in oauth response"),
    # It answers the server's words by four letters in the place of the byte that they stand for.
    "sarama": (
        f"remote error: tls: .*certificate|{ENDED}",
        "SASL Authentication failed: .*invalid credentials with SASL mechanism OAUTHBEARER",
    ),
    "kafka-python": (
        "SSL: .*ALERT|socket disconnected|Errno",
        "SaslAuthenticationFailed|socket disconnected",
    ),
    # It takes whatever is answered to a token for its success, and then finds the connection closed.
    "aiokafka": ("Connection at .* closed", "Unable to update metadata"),
}


@pytest.mark.parametrize("certificate", [None, "old-client", "stranger"])
def test_a_client_without_a_good_certificate_does_not_come_in(
    node: SecuredNode, library: Program, certificate: str | None
) -> None:
    own = {"certificate": str(node.home / f"{certificate}.pem")} if certificate else {}

    answer = library.talk("x", client_settings(node, "MUTUAL", **own), SOON_S)

    assert answer.startswith("failed")
    assert_says(answer, SAYS[library.name][0])


def test_a_token_that_has_expired_is_refused(node: SecuredNode, library: Program) -> None:
    before = node.logins("TLS")

    old = str(node.home / "old-token")
    answer = library.talk("x", client_settings(node, "TLS", OAUTHBEARER, token=old), SOON_S)

    assert answer.startswith("failed")
    assert_says(answer, SAYS[library.name][1])
    after = node.logins("TLS")
    if before and library.name != "franz":  # which leaves when it hears that the token is invalid
        assert after["failed"] > before["failed"]
    assert not before or after["successful"] == before["successful"]
