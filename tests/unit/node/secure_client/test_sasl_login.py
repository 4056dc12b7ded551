"""The client's side of SASL, tested against the server's side of nodes."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import ScramCredential
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from ottla.node.secure_client.authentication import authentication
from ottla.node.secure_client.client_security import ClientSecurityError, SaslLogin
from ottla.node.secure_client.sasl_login import mechanism_of
from ottla.node.secure_client.scram_client import MAX_ITERATIONS, ScramClient, ServerRefusedError
from ottla.node.security.sasl.plain import read_plain
from ottla.node.security.sasl.sasl_error import SaslError
from ottla.node.security.sasl.scram import ScramExchange
from ottla.node.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.node.wire.messages.sasl_handshake import SaslHandshakeResponse

USER, PASSWORD = "anna,=", "p,=ß"
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
LOGIN = SaslLogin(mechanism="SCRAM-SHA-256", user=USER, password=PASSWORD)


def server(name: str, password: str = PASSWORD) -> ScramExchange:
    mechanism = MECHANISMS[name]
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), b"salt", 4096)
    keys = keys_of(mechanism, salted)
    credential = ScramCredential(
        salt=b"salt", stored_key=keys.stored_key, server_key=keys.server_key, iterations=4096
    )
    return ScramExchange(
        mechanism,
        lambda user: credential if user == USER else None,
        lambda user: credential,
        nonce=b"theirs",
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_node_and_a_client_prove_the_password_to_each_other(name: str) -> None:
    client, node = ScramClient(name, USER, PASSWORD, nonce=b"ours"), server(name)

    proof = client.respond(node.respond(client.first()))
    assert proof is not None
    assert client.respond(node.respond(proof)) is None

    assert client.is_complete and node.is_complete and node.user == USER


def test_a_wrong_password_is_rejected_by_the_node() -> None:
    client, node = ScramClient("SCRAM-SHA-256", USER, "wrong", nonce=b"ours"), server("SCRAM-SHA-256")
    proof = client.respond(node.respond(client.first()))
    assert proof is not None

    with pytest.raises(SaslError):
        node.respond(proof)


def test_the_messages_are_those_of_rfc_7677() -> None:
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", nonce=b"rOprNGfwEbeRWgbNEkqO")
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"

    final = client.respond(first)

    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert final is not None and final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert client.is_complete


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([b"r=ours,s=c2FsdA==,i=4096"], "nonce"),
        ([b"r=theirs,s=c2FsdA==,i=4096"], "nonce"),
        ([b"r=oursx,s=c2FsdA==,i=4095"], "4095 iterations"),
        ([b"r=oursx,s=c2FsdA==,i=%d" % (MAX_ITERATIONS + 1)], "iterations"),
        ([b"r=oursx,s=c2FsdA==,i=99999999999"], "cannot be read"),
        ([b"nonsense"], "cannot be read"),
        ([b"r=oursx,s=c2FsdA==,i=4096", b"v=" + b"AAAA" * 11], "cannot prove"),
        ([b"r=oursx,s=c2FsdA==,i=4096", b"v="], "cannot prove"),
        ([b"r=oursx,s=c2FsdA==,i=4096", b""], "cannot be read"),
        ([b"r=oursx,s=c2FsdA==,i=4096", b"e=other-error"], "other-error"),
    ],
)
def test_a_false_server_is_rejected(messages: list[bytes], words: str) -> None:
    client = ScramClient("SCRAM-SHA-256", "anna", "p", nonce=b"ours")

    with pytest.raises(ServerRefusedError, match=words):
        for message in messages:
            client.respond(message)

    assert not client.is_complete


def test_plain_is_one_message() -> None:
    plain = mechanism_of(SaslLogin(mechanism="PLAIN", user="anna", password="pß"))

    assert read_plain(plain.first()) == ("anna", "pß")
    assert plain.respond(b"") is None and plain.is_complete


def test_a_token_is_sent_with_its_extensions_and_a_rejection_is_answered_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("e30.e30.abc\n")
    login = SaslLogin(mechanism="OAUTHBEARER", token_file=str(file), extensions=(("cluster", "c 1"),))

    bearer = mechanism_of(login)

    assert bearer.first() == b"n,,\x01auth=Bearer e30.e30.abc\x01cluster=c 1\x01\x01"
    assert bearer.respond(b'{"status":"invalid_token"}') == b"\x01"
    assert bearer.respond(b"") == b"\x01" and not bearer.is_complete  # no success can follow
    file.write_text("two words")
    with pytest.raises(ClientSecurityError, match="which has no token"):
        mechanism_of(login)
    with pytest.raises(ClientSecurityError, match="cannot be read: No such file"):
        mechanism_of(replace(login, token_file=str(tmp_path / "none")))


def run(login: SaslLogin, *answers: Any) -> int:
    steps = authentication(login, "host:1")
    next(steps)
    with pytest.raises(StopIteration) as end:
        for answer in answers:
            steps.send(answer)
    return int(end.value.value)


def test_a_completed_login_has_a_lifetime() -> None:
    login = SaslLogin(mechanism="PLAIN", user="a", password="b")
    handshake = SaslHandshakeResponse(mechanisms=["PLAIN"])

    assert run(login, handshake, SaslAuthenticateResponse(session_lifetime_ms=5_000)) == 5_000
    assert run(login, handshake, SaslAuthenticateResponse()) == 0
    assert run(login, handshake, SaslAuthenticateResponse(session_lifetime_ms=-1)) == 0


@pytest.mark.parametrize(
    ("answers", "code", "message"),
    [
        (
            [SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "OAUTHBEARER"])],
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "does not offer SCRAM-SHA-256, but PLAIN, OAUTHBEARER; set sasl.mechanism",
        ),
        ([SaslHandshakeResponse(error_code=34)], ErrorCode.ILLEGAL_SASL_STATE, "has no SASL"),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=58, error_message="Invalid.")],
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f"host:1 refused the login of the user {USER} with SCRAM-SHA-256: Invalid",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"nonsense")],
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "the login to host:1 was aborted: its first SCRAM message cannot be read",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=999)],
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "refused the login",
        ),
    ],
)
def test_a_failed_login_has_a_reason(answers: list[Any], code: ErrorCode, message: str) -> None:
    steps = authentication(LOGIN, "host:1")
    next(steps)

    with pytest.raises(KafkaError) as failed:
        for answer in answers:
            steps.send(answer)

    assert failed.value.code is code and message in failed.value.detail


def test_a_login_ends_if_the_server_always_asks_for_more() -> None:
    login = SaslLogin(mechanism="OAUTHBEARER", token="e30.e30.")
    steps = authentication(login, "host:1")
    next(steps)

    with pytest.raises(KafkaError, match="did not end after"):
        steps.send(SaslHandshakeResponse())
        for _ in range(100):
            steps.send(SaslAuthenticateResponse(auth_bytes=b"{}"))
