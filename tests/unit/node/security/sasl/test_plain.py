"""PLAIN, by what Kafka's PlainSaslServer takes and refuses."""

import pytest

from ottla.node.security.sasl.plain import INVALID, PlainCredentials, check_password, read_plain
from ottla.node.security.sasl.sasl_error import OTHER_AUTHORIZATION_ID, SaslError


def test_user_and_password_stand_in_one_message() -> None:
    assert read_plain(b"\0ann\0pass") == ("ann", "pass")
    assert read_plain("ann\0ann\0p\u00e4ss".encode()) == ("ann", "p\u00e4ss")


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"", ""),
        (b"ann\0pass", ""),
        (b"\0ann\0pass\0", ""),
        (b"\0ann\0\xff", ""),
        (b"\0\0pass", "Authentication failed: username not specified"),
        (b"\0ann\0", "Authentication failed: password not specified"),
        (b"root\0ann\0pass", OTHER_AUTHORIZATION_ID),
    ],
)
def test_any_other_message_is_refused(token: bytes, told: str) -> None:
    with pytest.raises(SaslError) as failed:
        read_plain(token)

    assert failed.value.told == told


def test_a_password_is_compared_whole() -> None:
    given = PlainCredentials("ann", "pass")
    check_password(given, "pass")

    for expected in ("", "pas", "passs", "Pass", None):
        with pytest.raises(SaslError) as failed:
            check_password(given, expected)
        assert failed.value.told == INVALID


def test_a_password_is_shown_nowhere() -> None:
    assert "secret-word" not in repr(PlainCredentials("ann", "secret-word"))
