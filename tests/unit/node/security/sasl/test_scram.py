"""SCRAM, with the example of RFC 7677 and with messages that an attacker changed."""

import base64
import hashlib
import hmac
import random
from collections.abc import Callable

import pytest

from ottla.metadata_raft.image import ScramCredential
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.security.sasl.sasl_error import OTHER_AUTHORIZATION_ID, SaslError
from ottla.node.security.sasl.scram import ScramExchange

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
# From RFC 7677, section 3: user "user", password "pencil".
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
OURS = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCE = b"rOprNGfwEbeRWgbNEkqO" + OURS
SERVER_FIRST = b"r=" + NONCE + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=" + NONCE + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def salted(mechanism: ScramMechanism, password: str, iterations: int, salt: bytes = SALT) -> bytes:
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def false_of(mechanism: ScramMechanism) -> Callable[[str], ScramCredential]:
    """Return the false credentials of a cluster without users."""
    made = FalseCredentials(dict, key=b"key")
    return lambda user: made.of(user, mechanism)


def exchange(
    mechanism: ScramMechanism = SHA_256,
    *,
    user: str = "user",
    password: str = "pencil",
    iterations: int = 4_096,
) -> ScramExchange:
    keys = keys_of(mechanism, salted(mechanism, password, iterations))
    kept = {user: ScramCredential(SALT, keys.stored_key, keys.server_key, iterations)}
    return ScramExchange(mechanism, kept.get, false_of(mechanism), nonce=OURS)


def final_of(
    mechanism: ScramMechanism,
    password: str,
    bare: bytes,
    answer: bytes,
    gs2: bytes = b"n,,",
    iterations: int = 4_096,
    *,
    salt: bytes = SALT,
) -> bytes:
    """Return the correct last message of a client."""
    nonce = answer[2 : answer.index(b",")]
    without_proof = b"c=" + base64.b64encode(gs2) + b",r=" + nonce
    covered = b",".join((bare, answer, without_proof))
    secret = salted(mechanism, password, iterations, salt)
    client_key = hmac.digest(secret, b"Client Key", mechanism.hash_name)
    signature = hmac.digest(keys_of(mechanism, secret).stored_key, covered, mechanism.hash_name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return without_proof + b",p=" + base64.b64encode(proof)


def test_the_login_in_the_example_of_rfc_7677_is_accepted() -> None:
    server = exchange()

    assert server.respond(FIRST) == SERVER_FIRST
    assert not server.is_complete
    assert server.respond(FINAL) == SERVER_FINAL
    assert server.is_complete and server.user == "user"


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_user_with_an_escaped_name_and_other_iterations_logs_in(mechanism: ScramMechanism) -> None:
    server = exchange(mechanism, user="a=b,c", password="pass word", iterations=8_192)
    bare = b"n=a=3Db=2Cc,r=mine"

    answer = server.respond(b"n,a=a=3Db=2Cc," + bare)
    last = final_of(mechanism, "pass word", bare, answer, b"n,a=a=3Db=2Cc,", 8_192)

    assert answer.endswith(b",i=8192")
    assert server.respond(last).startswith(b"v=") and server.user == "a=b,c"


def test_a_user_that_does_not_exist_gets_the_same_salt_each_time_and_fails_at_the_end() -> None:
    answers = set()
    for _ in range(3):
        server = exchange(user="another")
        answers.add(server.respond(FIRST))
        with pytest.raises(SaslError, match="wrong user or password") as failed:
            server.respond(FINAL)
        assert failed.value.message == "" and not server.is_complete
    (answer,) = answers
    salt = base64.b64decode(answer.split(b",s=")[1].split(b",")[0])

    assert answer.startswith(b"r=" + NONCE) and answer.endswith(b",i=4096")
    assert salt == false_of(SHA_256)("user").salt


def test_salts_of_users_that_do_not_exist_differ_by_user_and_mechanism() -> None:
    answers = {
        ScramExchange(mechanism, lambda user: None, false_of(mechanism), nonce=OURS).respond(
            b"n,,n=" + user + b",r=x"
        )
        for mechanism in (SHA_256, SHA_512)
        for user in (b"ann", b"bob")
    }

    assert len(answers) == 4


def test_an_empty_proof_for_a_user_that_does_not_exist_proves_nothing() -> None:
    """The stored key of such a user is zeros, for which an attacker may try proofs."""
    server = ScramExchange(SHA_256, lambda user: None, false_of(SHA_256), nonce=OURS)
    server.respond(FIRST)

    with pytest.raises(SaslError):
        server.respond(FINAL)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (FINAL.replace(b"p=dH", b"p=dI"), "wrong user or password"),
        (FINAL.replace(b"c=biws", b"c=eSws"), "gs2 header"),  # "y,,"
        (FINAL.replace(NONCE, NONCE[:-1] + b"1"), "nonce"),
        (FINAL.replace(NONCE, NONCE + b"1"), "nonce"),
        (FINAL.replace(NONCE, NONCE[: -len(OURS)] + NONCE), "nonce twice, as librdkafka before 2.6.1"),
        (FINAL[: FINAL.index(b"p=")] + b"p=AAAA", "wrong length"),
        (FINAL[: FINAL.index(b",p=")], "cannot be read"),
        (b"", "cannot be read"),
    ],
    ids=["proof", "gs2 header", "nonce", "longer nonce", "nonce twice", "short proof", "no proof", "nothing"],
)
def test_a_changed_last_message_is_rejected(changed: bytes, reason: str) -> None:
    server = exchange()
    server.respond(FIRST)

    with pytest.raises(SaslError, match=reason):
        server.respond(changed)
    assert not server.is_complete


@pytest.mark.parametrize(
    "first",
    [
        b"y,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=x",
        b"n,,n=user,r=x,",
        b"n,,n=\xc3\xbc,r=x",
        b"n,,r=x,n=user",
        b"",
    ],
)
def test_a_malformed_first_message_is_rejected(first: bytes) -> None:
    with pytest.raises(SaslError, match="cannot be read"):
        exchange().respond(first)


def test_the_authorization_id_must_be_the_user() -> None:
    with pytest.raises(SaslError) as failed:
        exchange().respond(b"n,a=root,n=user,r=x")

    assert failed.value.message == OTHER_AUTHORIZATION_ID


def test_delegation_tokens_are_rejected() -> None:
    with pytest.raises(SaslError, match="delegation tokens"):
        exchange().respond(b"n,,n=user,r=x,tokenauth=true")
    assert exchange().respond(b"n,,n=user,r=x,other=true").startswith(b"r=x")


def test_no_message_is_accepted_after_the_last_one() -> None:
    server = exchange()
    server.respond(FIRST)
    server.respond(FINAL)

    with pytest.raises(SaslError, match="after the login had ended"):
        server.respond(FINAL)


def test_changed_bytes_never_complete_a_login() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        server = exchange()
        message = bytearray(FIRST)
        try:
            if chance.random() < 0.5:
                message[chance.randrange(len(message))] = chance.randrange(256)
            server.respond(bytes(message))
            last = bytearray(FINAL)
            # Not the last character of the proof, some bits of which have no meaning.
            last[chance.randrange(len(last) - 2)] ^= 1 << chance.randrange(8)
            server.respond(bytes(last))
        except SaslError:
            continue
        raise AssertionError((message, last))
