"""SCRAM credentials are set and removed as in KIP-554, with the keys of RFC 5802 and RFC 7677."""

import base64
import hashlib
import hmac
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import scram_control
from ottla.metadata_raft.cluster_features import SECURITY_VERSION
from ottla.metadata_raft.commands import AlterUserScramCredentials, ScramDeletion, ScramUpsertion
from ottla.metadata_raft.image import ScramKey
from ottla.metadata_raft.records import FeatureLevelRecord
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from tests.unit.metadata_raft.metadata_world import MetadataWorld

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
UNACCEPTABLE = ErrorCode.UNACCEPTABLE_CREDENTIAL
TWICE = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld(brokers=0)
    made.append([FeatureLevelRecord(name=SECURITY_VERSION, feature_level=1)])
    return made


def upsertion(name: str = "alice", mechanism: int = SHA_256, **changes: Any) -> ScramUpsertion:
    size = {SHA_512: 64}.get(ScramMechanism(mechanism) if mechanism in (1, 2) else SHA_256, 32)
    fields = {"iterations": 4096, "salt": b"salt", "stored_key": bytes(size), "server_key": bytes(size)}
    return ScramUpsertion(name=name, mechanism=mechanism, **{**fields, **changes})


def deletion(name: str = "alice", mechanism: int = SHA_256) -> ScramDeletion:
    return ScramDeletion(name=name, mechanism=mechanism)


def alter(
    world: MetadataWorld, *changes: ScramDeletion | ScramUpsertion
) -> dict[str, tuple[int, str | None]]:
    reply = world.submit(
        AlterUserScramCredentials(
            deletions=[one for one in changes if isinstance(one, ScramDeletion)],
            upsertions=[one for one in changes if isinstance(one, ScramUpsertion)],
        )
    )
    assert len({one.name for one in reply.results}) == len(reply.results)
    return {one.name: (one.error_code, one.error_message) for one in reply.results}


def test_keys_verify_the_exchange_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    auth_message = (
        f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}".encode()
    )
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")

    keys = keys_of(SHA_256, salted)

    signature = hmac.digest(keys.stored_key, auth_message, "sha256")
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == keys.stored_key
    server_signature = base64.b64encode(hmac.digest(keys.server_key, auth_message, "sha256"))
    assert server_signature == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_credentials_are_set_replaced_and_removed_by_mechanism(world: MetadataWorld) -> None:
    alter(world, upsertion())
    alter(world, upsertion(mechanism=SHA_512))
    alter(world, upsertion(iterations=8192))
    iterations = {key: one.iterations for key, one in world.image.scram_credentials.items()}

    results = alter(world, deletion(), upsertion("bob"))

    assert iterations == {ScramKey("alice", SHA_256): 8192, ScramKey("alice", SHA_512): 4096}
    assert results == {"alice": (0, None), "bob": (0, None)}
    assert set(world.image.scram_credentials) == {ScramKey("alice", SHA_512), ScramKey("bob", SHA_256)}


REFUSED: list[tuple[list[ScramDeletion | ScramUpsertion], tuple[int, str]]] = [
    (
        [
            upsertion(""),
        ],
        (UNACCEPTABLE, "Username must not be empty"),
    ),
    ([deletion("")], (UNACCEPTABLE, "Username must not be empty")),
    ([upsertion(mechanism=0)], (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
    ([deletion(mechanism=3)], (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
    ([upsertion(iterations=4095)], (UNACCEPTABLE, "Too few iterations")),
    ([upsertion(iterations=16385)], (UNACCEPTABLE, "Too many iterations")),
    ([upsertion(salt=b"")], (UNACCEPTABLE, "The salt must not be empty")),
    (
        [upsertion(mechanism=SHA_512, stored_key=bytes(32))],
        (UNACCEPTABLE, "A salted password for SCRAM-SHA-512 must have 64 bytes"),
    ),
    (
        [deletion("nobody")],
        (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
    ),
    ([deletion("known"), deletion("known", SHA_512)], TWICE),
    ([deletion("known"), upsertion("known")], TWICE),
    ([upsertion(), upsertion(mechanism=SHA_512), upsertion()], TWICE),
]


@pytest.mark.parametrize(
    ("refused", "reason"), REFUSED, ids=[case[1][1] + str(len(case[0])) for case in REFUSED]
)
def test_an_invalid_change_fails_only_its_user(
    world: MetadataWorld, refused: list[ScramDeletion | ScramUpsertion], reason: tuple[int, str]
) -> None:
    alter(world, upsertion("known"))

    results = alter(world, *refused, upsertion("carol"))

    assert results == {refused[0].name: reason, "carol": (0, None)}
    assert {key.user for key in world.image.scram_credentials} == {"known", "carol"}


def test_the_first_error_of_a_user_is_returned(world: MetadataWorld) -> None:
    results = alter(world, upsertion(iterations=1), upsertion(), upsertion(salt=b""))

    assert results == {"alice": (UNACCEPTABLE, "Too few iterations")} and not world.image.scram_credentials


def test_the_number_of_credentials_is_limited(world: MetadataWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(world, upsertion())
    monkeypatch.setattr(scram_control, "MAX_SCRAM_CREDENTIALS", 1)

    alter(world, upsertion(iterations=5000))
    with pytest.raises(KafkaError) as refused:
        alter(world, upsertion("bob"))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_nothing_is_written_before_all_nodes_can_read_it() -> None:
    with pytest.raises(KafkaError, match=f"only when the feature {SECURITY_VERSION} is 1") as refused:
        alter(MetadataWorld(brokers=0), upsertion())
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
