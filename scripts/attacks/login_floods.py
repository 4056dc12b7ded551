"""Masses of failing logins: passwords, proofs, access tokens, and messages that are slow to parse."""

import base64
import hashlib
import http.client
import json
import os
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from attacks.attack import Attack
from attacks.nodes import Nodes
from attacks.secured_access import USER, USER_PASSWORD, Role, tls_context
from tests.compat.wire_client import Closed, WireClient

SECONDS: Final = 3.0
ADDRESSES: Final = 200
THREADS: Final = 8
PLAIN_USER: Final = "anna"
MOST_ITERATIONS: Final = 16_384
SCRAM_SHA_512: Final = 2  # in AlterUserScramCredentials
LARGEST_TOKEN: Final = 60_000  # in a frame of 64 KiB
TIMEOUT_S: Final = 30.0
WRONG: Final = "wrong-password"
TAKEN: Final = "accepted"
# Nothing listens on port 9, so no token is valid.
TOKEN_SETTINGS: Final = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://localhost:9/keys",
    "sasl.oauthbearer.expected.audience": "ottla",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
}
SESSIONS: Final = 300
BASIC_LOGINS: Final = 1_000


def _make_user(nodes: Nodes) -> None:
    """Create a user with the most iterations that are allowed, whose password takes longest to check."""
    salt = os.urandom(32)
    salted = hashlib.pbkdf2_hmac("sha512", b"right", salt, MOST_ITERATIONS)
    user = {
        "name": PLAIN_USER,
        "mechanism": SCRAM_SHA_512,
        "iterations": MOST_ITERATIONS,
        "salt": salt,
        "salted_password": salted,
    }
    with nodes.connect() as client:
        answer = client.call("alter_user_scram_credentials", 0, deletions=[], upsertions=[user])
        assert not answer.results[0].error_code, answer


def _try(client: WireClient, mechanism: str, tokens: Sequence[bytes]) -> str:
    """Log in with these tokens; return the result in words."""
    try:
        answer: Any = client.call("sasl_handshake", 1, mechanism=mechanism)
        for token in tokens:
            if not answer.error_code:
                answer = client.call("sasl_authenticate", 2, auth_bytes=token)
    except (Closed, TimeoutError, ssl.SSLError, BrokenPipeError):
        return "closed"
    if answer.error_code:
        return f"error {answer.error_code}"
    return "rejected by the mechanism" if answer.auth_bytes else TAKEN


def _address(number: int) -> str:
    """Return one of many addresses, because after some failures an address is rejected without a check."""
    return f"127.0.2.{1 + number % ADDRESSES}"


def _flood(mechanism: str, tokens: Callable[[int], Sequence[bytes]], nodes: Nodes) -> str:
    """Log in for some seconds, over a new connection after each failure."""
    until = time.monotonic() + SECONDS

    def work(place: int) -> Counter[str]:
        results: Counter[str] = Counter()
        number = place
        while time.monotonic() < until:
            number += THREADS
            try:
                left_s = max(0.05, until - time.monotonic())
                with nodes.connect(timeout_s=left_s, source=_address(number)) as client:
                    results[_try(client, mechanism, tokens(number))] += 1
            except OSError:
                results["refused"] += 1
        return results

    with ThreadPoolExecutor(THREADS) as threads:
        total = sum(threads.map(work, range(THREADS)), Counter[str]())
    assert not total[TAKEN], f"{total[TAKEN]} wrong logins were accepted"
    return ", ".join(f"{count} x {word}" for word, count in sorted(total.items()))


def _passwords(number: int) -> Sequence[bytes]:
    return [f"\0{PLAIN_USER}\0{WRONG}{number}".encode()]


def _proofs(number: int) -> Sequence[bytes]:
    """Return a login with a proof for a wrong nonce, which fails where a wrong password would."""
    return [f"n,,n={USER if number % 2 else f'nobody{number}'},r=abc".encode(), b"c=biws,r=abc,p=AAAA"]


def _first_alone(number: int) -> Sequence[bytes]:
    """Return a first message alone, which asks for a user's salt; the names have many lengths."""
    name = USER if number % 2 else f"nobody{number}" * (1 + number % 1_000)
    return [f"n,,n={name},r=abc".encode()]


def _giant_scram(number: int) -> Sequence[bytes]:
    giant = b"x" * LARGEST_TOKEN
    messages = (
        b"n,,n=" + giant + b",r=abc",
        b"n,,n=a,r=" + giant,
        b"n,,n=" + b"=2C" * (LARGEST_TOKEN // 3) + b"=,r=a",
        b"n,a=" + giant + b",n=a,r=abc",
        b"n,,n=a,r=abc" + b",x=y" * (LARGEST_TOKEN // 4) + b"\0",
        b"n,,n=a,r=abc,x=" + giant + b"\0",
        b"n,,m=" + giant + b",n=a,r=abc\0",
        b"\xff" * LARGEST_TOKEN,
    )
    # A second message with a giant nonce follows, though most of the first messages are rejected.
    return [messages[number % len(messages)], b"c=biws,r=" + giant + b",p=" + b"AAAA" * 10]


def _large_plain(number: int) -> Sequence[bytes]:
    return [b"\0" + b"u" * 30_000 + b"\0" + b"p" * 30_000 if number % 2 else b"\0" * LARGEST_TOKEN]


def _large_frames(nodes: Nodes) -> str:
    """Announce frames of more than 64 KiB before a login, and send as much as the node accepts."""
    sizes = (65_537, 1 << 20, 100 << 20, 0x7FFFFFFF, 0xFFFFFFFF)
    until = time.monotonic() + SECONDS
    counted: Counter[str] = Counter()
    number = 0
    while time.monotonic() < until:
        number += 1
        with nodes.connect(timeout_s=TIMEOUT_S, source=_address(number)) as client:
            client.call("sasl_handshake", 1, mechanism="SCRAM-SHA-512")
            try:
                client.send_bytes(struct.pack(">I", sizes[number % len(sizes)]) + bytes(65_000))
                client.receive_frame()
                counted["answered"] += 1
            except (Closed, OSError):
                counted["closed"] += 1
    assert not counted["answered"], counted
    return f"{counted['closed']} closed"


# ---- access tokens -------------------------------------------------------------------------------------


def _part(content: str) -> str:
    return base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()


def _bearer(token: str) -> bytes:
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


def _unknown_keys(number: int) -> Sequence[bytes]:
    header = json.dumps({"alg": "RS256", "kid": f"key-{number}"})
    payload = json.dumps({"sub": "root", "exp": 1 << 40, "iat": 0})
    return [_bearer(f"{_part(header)}.{_part(payload)}.{'A' * 342}")]


def _token_bombs(number: int) -> Sequence[bytes]:
    headers = (
        "[" * 20_000,
        '{"alg":' * 3_000,
        '{"alg": "RS256", "kid": ' + "9" * 20_000 + "}",
        '{"alg": "RS256", "kid": 1e99999, "x": -Infinity}',
        "{" + ",".join(f'"k{one}":{one}' for one in range(1_800)) + "}",
        '{"alg":"RS256","kid":"' + "\\u0000" * 3_000 + '"}',
        '{"alg":"RS256","kid":"' + "k" * 20_000 + '"}',
    )
    whole = (
        f"{_part(headers[number % len(headers)])}.{_part('{}')}.AAAA",
        "." * LARGEST_TOKEN,
        "A" * LARGEST_TOKEN,
        f"{'A' * 32_000}.AA.AA",
    )
    return [_bearer(whole[number // len(headers) % len(whole)])]


# ---- the REST API --------------------------------------------------------------------------------------


def _request_status(
    nodes: Nodes, method: str, path: str, *, source: str, headers: Mapping[str, str], body: str = ""
) -> int:
    assert nodes.access is not None
    address = urlsplit(nodes.rest)
    connection = http.client.HTTPSConnection(
        str(address.hostname),
        address.port,
        timeout=TIMEOUT_S,
        source_address=(source, 0),
        context=tls_context(nodes.access.authority),
    )
    try:
        connection.request(method, path, body or None, dict(headers))
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def _rest_flood(count: int, request: Callable[[int], int]) -> Counter[str]:
    counted: Counter[str] = Counter()
    lock = threading.Lock()

    def one(number: int) -> None:
        status = "closed"
        with suppress(OSError, http.client.HTTPException):
            status = str(request(number))
        with lock:
            counted[status] += 1

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(one, range(count)))
    return counted


def _summary(counted: Counter[str]) -> str:
    return ", ".join(f"{count} x {word}" for word, count in sorted(counted.items()))


def _basic_logins(nodes: Nodes) -> str:
    """Send wrong passwords of many users, from many addresses."""

    def request(number: int) -> int:
        login = base64.b64encode(f"{PLAIN_USER if number % 2 else number}:{WRONG}{number}".encode()).decode()
        headers = {"Authorization": f"Basic {login}"}
        return _request_status(nodes, "GET", "/v3/clusters", source=_address(number), headers=headers)

    counted = _rest_flood(BASIC_LOGINS, request)
    assert not counted["200"], _summary(counted)
    return _summary(counted)


def _sessions(nodes: Nodes) -> str:
    """Log in to the console repeatedly, with the right password."""
    body = json.dumps({"user": USER, "password": USER_PASSWORD})
    headers = {"Content-Type": "application/json", "Origin": nodes.rest}

    def request(number: int) -> int:
        return _request_status(
            nodes, "POST", "/console/login", source="127.0.0.1", headers=headers, body=body
        )

    counted = _rest_flood(SESSIONS, request)
    assert counted["200"], _summary(counted)
    return _summary(counted)


_LOGIN: Final[dict[str, Any]] = {"is_secure": True, "role": Role.UNAUTHENTICATED, "node_counts": (1,)}

ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="wrong-passwords",
        sends=f"PLAIN with wrong passwords of a user with {MOST_ITERATIONS:,} iterations, over {THREADS} "
        f"connections for {SECONDS:g} s",
        send=partial(_flood, "PLAIN", _passwords),
        prepare=_make_user,
        cpu_s=2.0 * SECONDS,  # two threads beside the loop
        **_LOGIN,
    ),
    Attack(
        name="wrong-proofs",
        sends=f"SCRAM with wrong proofs of users that exist and that do not, for {SECONDS:g} s",
        send=partial(_flood, "SCRAM-SHA-512", _proofs),
        cpu_s=SECONDS,
        **_LOGIN,
    ),
    Attack(
        name="salts-and-left",
        sends=f"first messages of SCRAM, for users that exist and that do not, for {SECONDS:g} s",
        send=partial(_flood, "SCRAM-SHA-512", _first_alone),
        cpu_s=SECONDS,
        **_LOGIN,
    ),
    Attack(
        name="giant-scram",
        sends=f"SCRAM messages with names, nonces and extensions of {LARGEST_TOKEN:,} bytes",
        send=partial(_flood, "SCRAM-SHA-256", _giant_scram),
        cpu_s=SECONDS,
        **_LOGIN,
    ),
    Attack(
        name="giant-plain",
        sends=f"PLAIN messages of {LARGEST_TOKEN:,} bytes",
        send=partial(_flood, "PLAIN", _large_plain),
        cpu_s=2.0 * SECONDS,
        **_LOGIN,
    ),
    Attack(
        name="large-frames-before-a-login",
        sends="frames of 64 KiB to 4 GiB before a login",
        send=_large_frames,
        cpu_s=SECONDS,
        **_LOGIN,
    ),
    Attack(
        name="basic-logins",
        sends=f"{BASIC_LOGINS:,} wrong passwords at the REST API, for many users from {ADDRESSES} addresses",
        send=_basic_logins,
        prepare=_make_user,
        cpu_s=20.0,  # 12 ms for each: a TLS handshake and up to 16,384 iterations
        **_LOGIN,
    ),
    Attack(
        name="console-sessions",
        sends=f"{SESSIONS} logins to the console with a right password",
        send=_sessions,
        cpu_s=4.0,
        **_LOGIN,
    ),
    Attack(
        name="tokens-of-unknown-keys",
        sends=f"access tokens with made-up key ids, for {SECONDS:g} s",
        send=partial(_flood, "OAUTHBEARER", _unknown_keys),
        cpu_s=2.0 * SECONDS,
        settings=TOKEN_SETTINGS,
        **_LOGIN,
    ),
    Attack(
        name="token-bombs",
        sends="access tokens of deeply nested JSON, huge numbers, many names, or only dots",
        send=partial(_flood, "OAUTHBEARER", _token_bombs),
        cpu_s=2.0 * SECONDS,
        settings=TOKEN_SETTINGS,
        **_LOGIN,
    ),
)
