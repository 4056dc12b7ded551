"""An OAuth provider for tests: its keys, its JWKS document, and tokens that must be accepted or rejected."""

import base64
import json
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "ottla"
_CURVES: Final = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
_SECRET: Final = b"a secret that is long enough for an HMAC"


@cache
def private_key(name: str) -> Any:
    """Return a key of the provider: `rsa`, `other`, `weak`, `oct`, or that of an algorithm with a curve."""
    if name in _CURVES:
        return ec.generate_private_key(_CURVES[name])
    if name == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if name == "oct":
        return _SECRET
    return rsa.generate_private_key(65_537, 1_024 if name == "weak" else 2_048)


def public_jwk(name: str, **more: Any) -> dict[str, Any]:
    """Return a key of the provider as a JWK (RFC 7517), with `more` fields."""
    key = private_key(name)
    if name == "oct":
        return {"kty": "oct", "k": _base64(_SECRET), "kid": name, **more}
    makers = {"EdDSA": jwt.algorithms.OKPAlgorithm, **dict.fromkeys(_CURVES, jwt.algorithms.ECAlgorithm)}
    maker = makers.get(name, jwt.algorithms.RSAAlgorithm)
    made: dict[str, Any] = maker.to_jwk(key.public_key(), as_dict=True)
    return {**{field: value for field, value in made.items() if field != "key_ops"}, "kid": name, **more}


def document(*keys: dict[str, Any]) -> bytes:
    """Return a JWKS document with these keys."""
    return json.dumps({"keys": keys}).encode()


def claims(now_s: int, **changes: Any) -> dict[str, Any]:
    """Return the claims of a valid token, with changes; None removes a claim."""
    usual = {
        "sub": "alice",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now_s - 10,
        "exp": now_s + 600,
        "scope": "read",
    }
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def token(
    content: Mapping[str, Any] | str, *, key: str = "rsa", algorithm: str = "RS256", **header: Any
) -> str:
    """Return a signed token with this payload; None removes a field of the header."""
    names = {"kid": key, **header}
    head = {name: value for name, value in names.items() if value is not None}
    payload = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jwt.warnings.InsecureKeyLengthWarning)  # of the weak one
        signed: str = jwt.PyJWS().encode(payload, private_key(key), algorithm=algorithm, headers=head)
    return signed


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Case(NamedTuple):
    """A token, whether it is accepted, and whether audience and issuer are expected."""

    name: str
    token: str
    is_accepted: bool
    is_expecting: bool = True


def published() -> bytes:
    """Return the JWKS document of the provider."""
    return document(*(public_jwk(name) for name in ("rsa", "ES256", "ES384", "ES512", "EdDSA", "weak")))


def cases(now_s: int) -> list[Case]:
    """Return tokens, each with the decision of Kafka's BrokerJwtValidator at this time."""
    good = claims(now_s)
    made = [
        *(
            Case(name, token(good, algorithm=name), True)
            for name in ("RS256", "RS384", "RS512", "PS256", "PS512")
        ),
        *(Case(name, token(good, key=name, algorithm=name), True) for name in (*_CURVES, "EdDSA")),
        Case("a weak key", token(good, key="weak"), False),
        Case("another key under a known id", token(good, key="other", kid="rsa"), False),
        Case("an unknown id", token(good, kid="new"), False),
        Case("no id", token(good, kid=None), True),
        Case("an algorithm of another key", token(good, key="ES256", algorithm="ES256", kid="rsa"), False),
        Case("an unknown critical header", token(good, crit=["x"], x=1), False),
    ]
    for name, changes, is_accepted in (
        ("no subject", {"sub": None}, False),
        ("an empty subject", {"sub": ""}, False),
        ("a blank subject", {"sub": "  "}, False),
        ("a subject with blanks around it", {"sub": " alice "}, True),
        ("a subject that is a number", {"sub": 5}, False),
        ("no expiry", {"exp": None}, False),
        ("an expiry that is a text", {"exp": str(now_s + 600)}, False),
        ("an expiry with a fraction", {"exp": now_s + 600.5}, True),
        ("expired within the skew", {"exp": now_s - 5}, True),
        ("expired beyond the skew", {"exp": now_s - 60, "iat": now_s - 900}, False),
        ("expired before it was issued", {"exp": now_s + 600, "iat": now_s + 900}, False),
        ("no time of issue", {"iat": None}, False),
        ("issued in the future", {"iat": now_s + 300}, True),
        ("not valid yet within the skew", {"nbf": now_s + 5}, True),
        ("not valid yet beyond the skew", {"nbf": now_s + 120}, False),
        ("valid only after its expiry", {"nbf": now_s + 900}, False),
        ("another issuer", {"iss": "https://other.example"}, False),
        ("no issuer", {"iss": None}, False),
        ("another audience", {"aud": "other"}, False),
        ("no audience", {"aud": None}, False),
        ("several audiences", {"aud": ["other", AUDIENCE]}, True),
        ("no audience in the list", {"aud": []}, False),
        ("an audience that is a number", {"aud": 5}, False),
        ("no scope", {"scope": None}, True),
        ("an empty scope", {"scope": ""}, False),
        ("several scopes", {"scope": ["read", "write"]}, True),
        ("a scope twice", {"scope": ["read", "read"]}, False),
        ("an empty scope of several", {"scope": ["read", ""]}, False),
        ("a scope that is a number", {"scope": 5}, True),
        ("a name beyond ASCII", {"sub": "zoë"}, True),
    ):
        made.append(Case(name, token(claims(now_s, **changes)), is_accepted))
    text = json.dumps(good)
    made += [
        Case("a claim twice", token(text[:-1] + ', "sub": "root"}'), False),
        Case("no JSON object", token(json.dumps([good])), False),
        Case("no JSON", token("alice"), False),
        Case("an audience where none is expected", token(good), False, False),
        Case("no audience where none is expected", token(claims(now_s, aud=None)), True, False),
        Case("any issuer where none is expected", token(claims(now_s, aud=None, iss="x")), True, False),
    ]
    whole = made[0].token
    head, body, signature = whole.split(".")
    none = _base64(json.dumps({"alg": "none"}).encode())
    made += [
        Case("without a signature", f"{head}.{body}.", False),
        Case("the algorithm none", f"{none}.{body}.", False),
        Case("the algorithm none with a signature", f"{none}.{body}.{signature}", False),
        Case(
            "a changed payload",
            f"{head}.{_base64(text.replace('alice', 'root').encode())}.{signature}",
            False,
        ),
        Case("a signature that is cut off", whole[:-8], False),
        Case("two parts", f"{head}.{body}", False),
        Case("four parts", f"{whole}.{signature}", False),
        Case("nothing", "x", False),
    ]
    return made
