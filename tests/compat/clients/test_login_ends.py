"""Six client libraries whose login ends after a while (KIP-368), and users who are removed meanwhile.

A thorough run shows that the same happens with Apache Kafka.
"""

from typing import Final

import pytest

from tests.compat.clients.secured_node import (
    LIFETIME_MS,
    SCRAM_512,
    SecuredNode,
    add_user,
    client_settings,
    remove_user,
)
from tests.compat.clients.secured_programs import SOON_S, Program, assert_answer

pytestmark = pytest.mark.slow
RECONNECTS: Final = "aiokafka"  # it cannot log in again over an open connection
# The errors of each library after its user was removed: of its next write, and of its next connection. The
# first two libraries do not always give the reason, but may report that a record was not written in time.
REMOVED: Final = {
    "java": ("SaslAuthenticationException|Expiring 1 record", "SaslAuthenticationException"),
    "kafka-python": (
        "SaslAuthenticationFailed|Expiring 1 record",
        "SaslAuthenticationFailed|socket disconnected",
    ),
    "confluent": ("_AUTHENTICATION", "_AUTHENTICATION"),
    "franz": ("SASL_AUTHENTICATION_FAILED", "SASL_AUTHENTICATION_FAILED"),
    "sarama": ("SASL Authentication failed", "SASL Authentication failed"),
    "aiokafka": ("SaslAuthenticationFailed", "SaslAuthenticationFailed"),
}


def test_a_client_that_writes_longer_than_its_login_lasts_sees_no_error(
    node: SecuredNode, library: Program
) -> None:
    before = node.logins("SHORT")

    library.send("stay", str(LIFETIME_MS * 3 // 2), client_settings(node, "SHORT", SCRAM_512))

    assert [library.receive(), library.receive()] == ["begun", "ok"]
    after = node.logins("SHORT")
    if not before:
        return
    if library.name == RECONNECTS:
        assert after["expired"] > before["expired"]
        assert after["successful_again"] == before["successful_again"]
    else:
        assert after["successful_again"] > before["successful_again"]
        assert after["expired"] == before["expired"]
    assert [after[one] for one in ("failed", "failed_again")] == [
        before[one] for one in ("failed", "failed_again")
    ]


def test_a_client_whose_user_was_removed_is_stopped_when_its_login_ends(
    node: SecuredNode, library: Program
) -> None:
    user = f"leaver-{library.name}"
    add_user(node, user)
    before = node.logins("SHORT")
    library.send("stay", "30000", client_settings(node, "SHORT", SCRAM_512, user=user))
    assert library.receive() == "begun"

    remove_user(node, user)
    answer = library.receive(LIFETIME_MS / 1000 + SOON_S)

    assert answer.startswith("failed")
    assert_answer(answer, REMOVED[library.name][0])
    after = node.logins("SHORT")
    assert not before or sum(after[one] - before[one] for one in ("failed", "failed_again")) > 0


def test_a_client_whose_user_was_removed_stays_where_logins_do_not_end_and_never_returns(
    node: SecuredNode, library: Program
) -> None:
    user = f"stayer-{library.name}"
    add_user(node, user)
    library.send("stay", "2000", client_settings(node, "TLS", SCRAM_512, user=user))
    assert library.receive() == "begun"

    remove_user(node, user)

    assert library.receive() == "ok"
    answer = library.talk("x", client_settings(node, "TLS", SCRAM_512, user=user), SOON_S)
    assert_answer(answer, REMOVED[library.name][1])
