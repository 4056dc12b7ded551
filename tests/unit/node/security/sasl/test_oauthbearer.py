"""OAUTHBEARER, with the messages that Kafka's OAuthBearerSaslServer accepts and rejects."""

import pytest

from ottla.node.security.access_token import JwtError, VerifiedToken
from ottla.node.security.sasl.oauthbearer import (
    INVALID_TOKEN,
    OauthBearerExchange,
    OauthBearerRequest,
    read_request,
)
from ottla.node.security.sasl.sasl_error import SaslError


def verified(token: str) -> VerifiedToken:
    if token != "good":
        raise JwtError("it is not good")
    return VerifiedToken("alice", 5_000, frozenset())


@pytest.mark.parametrize(
    ("message", "token", "authorization_id"),
    [
        (b"n,,\x01auth=Bearer abc\x01\x01", "abc", ""),
        (b"n,,\x01auth=bEARER  a.b-c_~+/==\x01\x01", "a.b-c_~+/==", ""),
        (b"n,a=alice,\x01auth=Bearer abc\x01\x01", "abc", "alice"),
        (b"n,a=al=2Cice,\x01auth=Bearer abc\x01\x01", "abc", "al=2Cice"),  # not unescaped, as in Kafka
        (b"n,,\x01traceId=1 2\x01auth=Bearer abc\x01other=x=y\x01\x01", "abc", ""),
        (b"n,,\x01auth=Basic x\x01auth=Bearer abc\x01\x01", "abc", ""),
    ],
)
def test_the_first_message_has_the_token(message: bytes, token: str, authorization_id: str) -> None:
    assert read_request(message) == (token, authorization_id)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer abc\x01\x01x",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer abc\x01\x01",
        b"n,b=alice,\x01auth=Bearer abc\x01\x01",
        b"n,a=,\x01auth=Bearer abc\x01\x01",
        b"n,a=a,b,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a=b\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer abc\n\x01\x01",
        b"n,,\x01key1=x\x01auth=Bearer abc\x01\x01",
        b"n,,\x01key=\x01auth=Bearer abc\x01\x01",
        "n,,\x01key=ä\x01auth=Bearer abc\x01\x01".encode(),
        b"n,,\x01key=\xff\x01auth=Bearer abc\x01\x01",
    ],
)
def test_any_other_first_message_is_rejected(message: bytes) -> None:
    with pytest.raises(SaslError):
        read_request(message)


def test_a_valid_token_completes_the_login_until_it_expires() -> None:
    exchange = OauthBearerExchange(verified)

    assert exchange.respond(b"n,a=alice,\x01auth=Bearer good\x01\x01") == b""
    assert (exchange.user, exchange.is_complete, exchange.expires_ms) == ("alice", True, 5_000)
    with pytest.raises(SaslError):
        exchange.respond(b"\x01")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"\x01", INVALID_TOKEN),
        (b"n,,\x01auth=Bearer good\x01\x01", ""),
        (b"", ""),
        (b"\\x01", ""),  # four characters, which sarama sends
    ],
)
def test_an_invalid_token_is_reported_and_any_next_message_fails(message: bytes, expected: str) -> None:
    exchange = OauthBearerExchange(verified)

    assert exchange.respond(b"n,,\x01auth=Bearer bad\x01\x01") == b'{"status":"invalid_token"}'
    with pytest.raises(SaslError) as failed:
        exchange.respond(message)

    assert failed.value.message == expected
    assert (exchange.user, exchange.is_complete, exchange.expires_ms) == ("", False, None)


def test_the_authorization_id_must_be_the_principal_of_the_token() -> None:
    exchange = OauthBearerExchange(verified)

    with pytest.raises(SaslError) as failed:
        exchange.respond(b"n,a=root,\x01auth=Bearer good\x01\x01")

    assert "(root) that is different from the token's principal name (alice)" in failed.value.message
    assert not exchange.is_complete


def test_no_representation_shows_a_token() -> None:
    assert "abc" not in repr(OauthBearerRequest("abc", "alice"))


def test_hostile_messages_take_little_time() -> None:
    for message in (
        b"n,a=" + b"=2C" * 20_000,
        b"n,,\x01" + b"a=b\x01" * 15_000,
        b"n,,\x01auth=Bearer " + b"=" * 60_000 + b"x\x01\x01",
        b"n,,\x01" + b"a" * 60_000,
    ):
        with pytest.raises(SaslError):
            read_request(message)
