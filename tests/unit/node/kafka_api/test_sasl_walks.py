"""Random walks through logins: whatever is sent in whatever order, only logged-in clients are served."""

import asyncio
import logging
import random
import struct
from collections.abc import Callable

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.sasl_gate import State
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.list_groups import ListGroupsRequest
from ottla.node.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.node.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.node.kafka_api.test_sasl_gate import Client, final_of_kept, request_frame, versions

HANDSHAKE, AUTHENTICATE, LIST_GROUPS = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.LIST_GROUPS
WALKS, STEPS = 100, 14
NONCE = b"abc"
RIGHT_USERS = {"User:anna", "User:bert"}


class Walk:
    """One connection, and the proofs that its client has sent so far."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self.chance = chance
        self.client = Client(
            loop,
            passwords={"anna": "secret", "bert": "other"},
            max_reauth_ms=chance.choice([0, 5_000]),
        )
        self.proofs = 0  # correct passwords that were sent
        self.tried = 0  # tokens that were sent
        self.answer = b""  # the last response to a token
        self.is_raw = False
        self.log: list[str] = []

    @property
    def is_closed(self) -> bool:
        return self.client.transport.is_closed

    def step(self) -> None:
        moves: list[Callable[[], None]] = [
            self.ask_versions,
            self.shake_hands,
            self.shake_hands,
            self.send_plain,
            self.begin_scram,
            self.end_scram,
            self.send_junk,
            self.ask_for_groups,
            self.wait,
            *[self.go_on] * 6,
        ]
        move = self.chance.choice(moves)
        self.log.append(move.__name__)
        move()

    def send(self, data: bytes) -> None:
        if not self.is_closed:
            self.client.send(data)

    def ask_versions(self) -> None:
        self.send(versions())
        self.client.transport.sent = b""

    def shake_hands(self) -> None:
        name = self.chance.choice(["PLAIN", "SCRAM-SHA-512", "GSSAPI", ""])
        version = self.chance.randrange(2)
        self.is_raw = version == 0
        self.send(request_frame(HANDSHAKE, version, SaslHandshakeRequest(mechanism=name)))
        self.client.transport.sent = b""

    def send_token(self, token: bytes) -> None:
        before = self.client.transport.sent
        if self.is_raw and self.chance.random() < 0.8:
            self.send(struct.pack(">i", len(token)) + token)
            self.answer = self.client.transport.sent[len(before) + 4 :]
            return
        self.send(request_frame(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token)))
        sent = self.client.transport.sent[len(before) :]
        if len(sent) > 8:
            self.answer = bytes(codec.decode_response(AUTHENTICATE, 2, sent, 4)[1].auth_bytes)

    def send_plain(self) -> None:
        user, password = self.chance.choice(
            [("anna", "secret"), ("anna", "wrong"), ("bert", "other"), ("x", "y")]
        )
        self.proofs += (user, password) in (("anna", "secret"), ("bert", "other"))
        self.send_token(f"\0{user}\0{password}".encode())

    def begin_scram(self) -> None:
        self.send_token(b"n,,n=" + self.chance.choice([b"anna", b"nobody"]) + b",r=" + NONCE)

    def end_scram(self) -> None:
        if not self.answer.startswith(b"r="):
            return
        is_right = self.chance.random() < 0.7
        self.proofs += is_right
        self.send_token(final_of_kept(b"secret" if is_right else b"wrong", b"n=anna,r=" + NONCE, self.answer))

    def go_on(self) -> None:
        """Take the next step of a client that logs in."""
        login = self.client.connection.login
        state = None if login is None else login.state  # type: ignore[attr-defined]
        if state is State.TOKENS:
            has_begun = login.has_tried and self.answer.startswith(b"r=")  # type: ignore[union-attr]
            is_plain = login.mechanism == "PLAIN"  # type: ignore[union-attr]
            (self.send_plain if is_plain else self.end_scram if has_begun else self.begin_scram)()
        elif state in (State.VERSIONS, State.HANDSHAKE, State.MECHANISM):
            self.shake_hands()
        else:
            self.ask_for_groups()

    def send_junk(self) -> None:
        size = self.chance.choice([0, 1, 7, 8, 40])
        self.send(struct.pack(">i", size) + self.chance.randbytes(size))
        self.client.transport.sent = b""

    def ask_for_groups(self) -> None:
        """Send a request that needs a login: without one it gets an error, or the connection is closed."""
        self.client.transport.sent = b""
        knows = self.client.principal in RIGHT_USERS
        self.send(request_frame(LIST_GROUPS, 4, ListGroupsRequest()))
        sent = self.client.transport.sent
        if len(sent) > 8:
            answer = codec.decode_response(LIST_GROUPS, 4, sent, 4)[1]
            assert knows or answer.error_code == ErrorCode.ILLEGAL_SASL_STATE, self.log

    def wait(self) -> None:
        self.client.wait(self.chance.choice([0.01, 0.2, 1.5, 6.0, 11.0]))

    def check(self) -> None:
        principal, counts = self.client.principal, self.client.gate.counts
        assert principal in {"User:ANONYMOUS", *RIGHT_USERS}, self.log
        assert principal == "User:ANONYMOUS" or self.proofs, "no password was sent"
        assert counts.successful + counts.failed <= 1, "a connection has one first login"
        assert counts.successful == (principal != "User:ANONYMOUS")

    def end(self) -> None:
        self.client.connection.connection_lost(None)
        self.client.turn()
        login, counts = self.client.connection.login, self.client.gate.counts
        assert login is None or login.timer is None, self.log  # type: ignore[attr-defined]
        if login is not None and login.state is State.TOKENS:  # type: ignore[attr-defined]
            assert not login.has_tried, "a client that sent a token has logged in or failed"  # type: ignore[attr-defined]
        failed = counts.failed + counts.failed_again
        assert failed or not len(self.client.failures), "only failed logins count against an address"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_requests_in_any_order_are_served_only_after_a_login(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    loop, chance = asyncio.new_event_loop(), random.Random(seed)
    reached: set[str] = set()
    try:
        with caplog.at_level(logging.ERROR):
            for _ in range(WALKS):
                walk = Walk(loop, chance)
                for _ in range(STEPS):
                    if walk.is_closed:
                        break
                    walk.step()
                    walk.check()
                reached.add(walk.client.principal)
                walk.end()
                walk.check()
    finally:
        loop.close()

    # There are no groups behind this dispatcher, so requests that are served fail there.
    assert [one for one in caplog.records if one.args[0] != "ListGroups"] == [], caplog.text  # type: ignore[index]
    assert reached >= {"User:ANONYMOUS", "User:anna", "User:bert"}, "some walks log in"
