"""PLAIN, with the messages that Kafka's PlainSaslServer accepts and rejects."""

import hashlib

import pytest

from ottla.metadata_raft.image import ScramCredential, ScramKey
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.security.sasl.plain import (
    INVALID,
    PlainCredentials,
    PlainExchange,
    StoredPlainExchange,
    check_password,
    read_plain,
)
from ottla.node.security.sasl.sasl_error import OTHER_AUTHORIZATION_ID, SaslError


def test_one_message_has_user_and_password() -> None:
    assert read_plain(b"\0ann\0pass") == ("ann", "pass")
    assert read_plain("ann\0ann\0p\u00e4ss".encode()) == ("ann", "p\u00e4ss")


@pytest.mark.parametrize(
    ("token", "expected"),
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
def test_any_other_message_is_rejected(token: bytes, expected: str) -> None:
    with pytest.raises(SaslError) as failed:
        read_plain(token)

    assert failed.value.message == expected


def test_a_password_is_compared_as_a_whole() -> None:
    given = PlainCredentials("ann", "pass")
    check_password(given, "pass")

    for expected in ("", "pas", "passs", "Pass", None):
        with pytest.raises(SaslError) as failed:
            check_password(given, expected)
        assert failed.value.message == INVALID


def test_no_representation_shows_a_password() -> None:
    assert "secret-word" not in repr(PlainCredentials("ann", "secret-word"))


FALSE = FalseCredentials(dict, key=b"key")


def kept(mechanism: ScramMechanism, password: bytes) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, b"salt", 5_000)
    return ScramCredential(b"salt", *keys_of(mechanism, salted), 5_000)


def test_users_of_a_listener_log_in_with_their_password() -> None:
    exchange = PlainExchange({"ann": "pass"}.get)

    assert exchange.respond(b"\0ann\0pass") == b""
    assert exchange.is_complete and exchange.user == "ann"


@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_users_of_the_cluster_log_in_by_the_keys_of_any_mechanism(mechanism: ScramMechanism) -> None:
    users = {("ann", mechanism): kept(mechanism, b"pass")}
    exchange = StoredPlainExchange(lambda user, wanted: users.get((user, wanted)), FALSE.of_password)

    assert exchange.respond(b"\0ann\0pass") == b""
    assert exchange.is_complete and exchange.user == "ann"


@pytest.mark.parametrize("token", [b"\0ann\0wrong", b"\0bert\0pass"])
def test_a_wrong_password_and_an_unknown_user_get_equal_errors(token: bytes) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    users = {("ann", mechanism): kept(mechanism, b"pass")}
    stored = StoredPlainExchange(lambda user, wanted: users.get((user, wanted)), FALSE.of_password)

    for exchange in (stored, PlainExchange({"ann": "pass"}.get)):
        with pytest.raises(SaslError) as failed:
            exchange.respond(token)
        assert failed.value.message == INVALID
        # The audit log records the claimed user.
        assert not exchange.is_complete and exchange.user == token.split(b"\0")[1].decode()


def test_passwords_of_unknown_users_take_as_many_hashes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the time of an answer would reveal which users exist."""
    users = {ScramKey("ann", ScramMechanism.SCRAM_SHA_256): kept(ScramMechanism.SCRAM_SHA_256, b"pass")}
    computed, pbkdf2 = [], hashlib.pbkdf2_hmac

    def counted(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        computed.append((name, iterations))
        return pbkdf2(name, password, salt, 1)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    for user in (b"ann", b"bert"):
        exchange = StoredPlainExchange(
            lambda user, mechanism: users.get(ScramKey(user, mechanism)),
            FalseCredentials(lambda: users).of_password,
        )
        with pytest.raises(SaslError):
            exchange.respond(b"\0" + user + b"\0wrong")

    assert computed == [("sha256", 5_000)] * 2
