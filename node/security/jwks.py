"""Reads the keys of an OAuth provider from its JWKS document (RFC 7517).

Unusable keys are skipped, so that the others still verify tokens: secret and private keys, RSA keys below
2,048 bits, and keys of curves and algorithms that are not allowed. The module is loaded only if OAUTHBEARER
is enabled, since it needs PyJWT and `cryptography`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import jwt as pyjwt
import orjson
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

MAX_KEYS: Final = 64
MAX_DOCUMENT_BYTES: Final = 256 << 10
MAX_KID_CHARS: Final = 1_000
MIN_RSA_BITS: Final = 2_048
MAX_RSA_BITS: Final = 8_192  # a signature takes 1 ms to verify

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


class Algorithm(NamedTuple):
    """The type and curve that a key needs for an algorithm."""

    key_type: str
    curve: str | None = None


# Neither `none` nor HMAC, whose verifiers can also sign.
ALGORITHMS: Final[Mapping[str, Algorithm]] = {
    **{f"{kind}{bits}": Algorithm("RSA") for kind in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": Algorithm("EC", "P-256"),
    "ES384": Algorithm("EC", "P-384"),
    "ES512": Algorithm("EC", "P-521"),
    "EdDSA": Algorithm("OKP", "Ed25519"),
}


class JwksError(Exception):
    """A document that is not a JWKS, or has no usable key."""


class VerificationKey(NamedTuple):
    """A key that verifies tokens; an id or algorithm that the document does not give is None."""

    kid: str | None
    algorithm: str | None
    kind: Algorithm
    public_key: PublicKey

    def fits(self, kid: str | None, algorithm: str) -> bool:
        """Return True if a token with this key id and algorithm may be signed by this key."""
        wanted = ALGORITHMS[algorithm]
        return (
            (kid is None or self.kid in (None, kid))
            and self.algorithm in (None, algorithm)
            and self.kind.key_type == wanted.key_type
            and wanted.curve in (None, self.kind.curve)
        )


class KeySet(NamedTuple):
    """The usable keys of a provider, and the number of unusable ones in its document."""

    keys: tuple[VerificationKey, ...] = ()
    left_out: int = 0

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """Return a key that fits a token, preferably one that has an id, or None."""
        fitting = [key for key in self.keys if key.fits(kid, algorithm)]
        return min(fitting, key=lambda key: key.kid is None, default=None)


def read_jwks(document: bytes) -> KeySet:
    """Return the keys of a JWKS document; JwksError if it is not one, or has no usable key."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise JwksError(f"the document has more than {MAX_DOCUMENT_BYTES} bytes")
    try:
        parsed = orjson.loads(document)
    except ValueError as error:
        raise JwksError(f"the document is not JSON: {error}") from None
    listed = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(listed, list):
        raise JwksError("the document has no list of keys")
    if len(listed) > MAX_KEYS:
        raise JwksError(f"the document has {len(listed)} keys, more than {MAX_KEYS}")
    keys = tuple(key for one in listed if (key := _key_of(one)) is not None)
    if not keys:
        raise JwksError(f"none of the {len(listed)} keys of the document can verify tokens")
    return KeySet(keys, len(listed) - len(keys))


def _key_of(entry: object) -> VerificationKey | None:
    """Return the key of an entry, or None if it cannot verify tokens."""
    if not isinstance(entry, dict) or "d" in entry or "k" in entry:  # private, secret
        return None
    kid, algorithm, curve = entry.get("kid"), entry.get("alg"), entry.get("crv")
    operations = entry.get("key_ops", ["verify"])
    if (
        not (kid is None or (isinstance(kid, str) and len(kid) <= MAX_KID_CHARS))
        or not (algorithm is None or (isinstance(algorithm, str) and algorithm in ALGORITHMS))
        or entry.get("use", "sig") != "sig"
        or not (isinstance(operations, list) and "verify" in operations)
    ):
        return None
    kind = Algorithm(str(entry.get("kty")), curve if isinstance(curve, str) else None)
    name = algorithm or next(
        (name for name, wanted in ALGORITHMS.items() if wanted in (kind, kind._replace(curve=None))), None
    )
    if name is None or (kind.key_type != "RSA" and kind != ALGORITHMS[name]):
        return None
    try:
        key = pyjwt.PyJWK(entry, name).key
    except (pyjwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if isinstance(key, RSAPublicKey):
        if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
            return None
    elif not isinstance(key, EllipticCurvePublicKey | Ed25519PublicKey):
        return None
    return VerificationKey(kid, algorithm, kind, key)
