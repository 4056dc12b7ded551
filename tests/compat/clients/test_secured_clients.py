"""Six client libraries at listeners with TLS and logins: protocols, mechanisms, and each kind of fault."""

from typing import Final

import pytest

from tests.compat.clients.secured_node import (
    OAUTHBEARER,
    PLAIN,
    SCRAM_256,
    SCRAM_512,
    SecuredNode,
    client_settings,
)
from tests.compat.clients.secured_programs import SOON_S, Program, assert_answer

pytestmark = pytest.mark.slow
# The error of each library for a failed login, and for a certificate that it does not trust.
MESSAGES: Final = {
    "confluent": ("_AUTHENTICATION.*Authentication failed", "certificate verify failed"),
    "java": ("SaslAuthenticationException: Authentication failed", "SslAuthenticationException"),
    "franz": ("SASL_AUTHENTICATION_FAILED", "x509: certificate"),
    "sarama": ("SASL Authentication failed", "x509: certificate"),
    # It drops a response if the end of the connection is read together with it; so on a busy machine it may
    # report only that the connection ended, with Kafka too.
    "kafka-python": ("SaslAuthenticationFailed|socket disconnected", "CERTIFICATE_VERIFY_FAILED"),
    "aiokafka": ("SaslAuthenticationFailed", "CERTIFICATE_VERIFY_FAILED"),
}


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SSL", None),
        ("MUTUAL", None),
        ("OPEN", SCRAM_256),
        ("OPEN", SCRAM_512),
        ("TLS", PLAIN),
        ("TLS", SCRAM_256),
        ("TLS", SCRAM_512),
        ("TLS", OAUTHBEARER),
    ],
)
def test_a_record_goes_there_and_back(
    node: SecuredNode, library: Program, listener: str, mechanism: str | None
) -> None:
    own = {"certificate": str(node.home / "client.pem")} if listener == "MUTUAL" else {}

    answer = library.talk(
        f"{library.name}-{listener}-{mechanism}", client_settings(node, listener, mechanism, **own)
    )

    assert answer == "ok"


@pytest.mark.parametrize(
    ("listener", "mechanism"), [("OPEN", SCRAM_256), ("OPEN", SCRAM_512), ("TLS", PLAIN)]
)
def test_a_wrong_password_is_reported_as_such_and_soon(
    node: SecuredNode, library: Program, listener: str, mechanism: str
) -> None:
    before = node.logins(listener)

    answer = library.talk("x", client_settings(node, listener, mechanism, password="guessed"), SOON_S)

    assert answer.startswith("failed")
    assert_answer(answer, MESSAGES[library.name][0])
    assert not before or node.logins(listener)["failed"] > before["failed"]


@pytest.mark.parametrize(("listener", "authority"), [("SSL", "other-ca"), ("EXPIRED", "ca")])
def test_a_client_does_not_trust_a_node_with_an_invalid_certificate(
    node: SecuredNode, library: Program, listener: str, authority: str
) -> None:
    answer = library.talk(
        "x", client_settings(node, listener, ca=str(node.home / f"{authority}.pem")), SOON_S
    )

    assert answer.startswith("failed")
    assert_answer(answer, MESSAGES[library.name][1])
