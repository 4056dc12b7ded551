"""The keys of a provider's document that verify tokens safely are used, and the others skipped."""

import json
from typing import Any

import pytest

from ottla.node.security.jwks import MAX_DOCUMENT_BYTES, MAX_KEYS, MAX_KID_CHARS, JwksError, read_jwks
from tests.tokens import document, private_key, public_jwk, published

GOOD = public_jwk("rsa")


def test_keys_of_all_types_are_accepted() -> None:
    found = read_jwks(published())

    assert [key.kid for key in found.keys] == ["rsa", "ES256", "ES384", "ES512", "EdDSA"]
    assert found.left_out == 1, "RSA of 1,024 bits"


@pytest.mark.parametrize(
    "entry",
    [
        {},
        5,
        public_jwk("oct"),
        public_jwk("weak"),
        {**GOOD, "d": "AQAB"},
        {**GOOD, "use": "enc"},
        {**GOOD, "key_ops": ["sign"]},
        {**GOOD, "key_ops": "verify"},
        {**GOOD, "alg": "HS256"},
        {**GOOD, "alg": "none"},
        {**GOOD, "alg": "RSA-OAEP"},
        {**GOOD, "alg": ["RS256"]},
        {**GOOD, "kid": 5},
        {**GOOD, "kid": "k" * (MAX_KID_CHARS + 1)},
        {**GOOD, "n": "!"},
        {**GOOD, "n": None},
        {**GOOD, "kty": "EC"},
        {**GOOD, "kty": "what"},
        {**public_jwk("ES256"), "crv": "secp256k1"},
        {**public_jwk("ES256"), "crv": "P-384"},
        {**public_jwk("ES256"), "alg": "ES384"},
        {**public_jwk("ES256"), "x": "AAAA"},
        {**public_jwk("EdDSA"), "crv": "X25519"},
    ],
    ids=lambda _: "key",  # keys differ in each process
)
def test_an_unusable_key_is_skipped(entry: Any) -> None:
    found = read_jwks(document(entry, {**GOOD, "kid": "good"}))

    assert ([key.kid for key in found.keys], found.left_out) == (["good"], 1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"keys": 5}',
        b'{"keys": []}',
        document({}),
        document(*[GOOD] * (MAX_KEYS + 1)),
        b" " * (MAX_DOCUMENT_BYTES + 1),
        b"[" * 100_000,
    ],
    ids=lambda _: "document",
)
def test_a_document_without_keys_is_rejected(content: bytes) -> None:
    with pytest.raises(JwksError):
        read_jwks(content)


def test_a_key_is_found_by_its_id_and_algorithm() -> None:
    no_id = {name: value for name, value in public_jwk("other").items() if name != "kid"}
    found = read_jwks(document(no_id, {**GOOD, "alg": "RS256"}, public_jwk("ES256")))

    def kid_of(kid: str | None, algorithm: str) -> object:
        key = found.find(kid, algorithm)
        return "nothing" if key is None else key.kid

    assert kid_of("rsa", "RS256") == "rsa"
    assert kid_of("rsa", "RS512") is None, "the one without an id, as the other is for RS256"
    assert kid_of("unknown", "RS256") is None
    assert kid_of("ES256", "ES256") == "ES256" and kid_of(None, "ES256") == "ES256"
    assert kid_of("ES256", "ES384") == kid_of("new", "ES256") == "nothing"


def test_only_public_keys_are_read() -> None:
    key = read_jwks(json.dumps({"keys": [GOOD]}).encode()).keys[0].public_key

    assert key.public_numbers() == private_key("rsa").public_key().public_numbers()  # type: ignore[union-attr]
