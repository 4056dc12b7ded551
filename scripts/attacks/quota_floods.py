"""Clients that have quotas: very many, and some that ignore the throttle time of their responses."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S
from attacks.nodes import Nodes
from tests.compat.wire_client import Closed

CLIENT_IDS: Final = 50_000
PIPELINED: Final = 50
ID_CHARS: Final = 200
THROTTLED_CLIENT: Final = "impatient"
CONNECTIONS: Final = 8
SECONDS: Final = 3.0
# Settings of its own, so that no other attack shares these nodes: the quotas stay on them.
SETTINGS: Final = {"quota.window.num": "12"}


def _set_quota(key: str, value: float, client_id: str | None, nodes: Nodes) -> None:
    entry = {
        "entity": [{"entity_type": "client-id", "entity_name": client_id}],
        "ops": [{"key": key, "value": value}],
    }
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        answer = client.call("alter_client_quotas", 1, entries=[entry])
        assert not answer.entries[0].error_code, answer.entries[0].error_message


def _many_ids(nodes: Nodes) -> str:
    answered = 0
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        for first in range(0, CLIENT_IDS, PIPELINED):
            frames = bytearray()
            for number in range(first, first + PIPELINED):
                client.client_id = f"{number:x<{ID_CHARS}}"
                frames += client.frame("api_versions", 2)
            client.send_bytes(bytes(frames))
            for _ in range(PIPELINED):
                client.receive_frame()
                answered += 1
    return f"{answered} answers"


def _ignore_throttle(nodes: Nodes) -> str:
    def send(_: int) -> int:
        sent = 0
        with nodes.connect(client_id=THROTTLED_CLIENT, timeout_s=SECONDS) as client:
            frames = client.frame("api_versions", 2) * 1_000
            until = time.monotonic() + SECONDS
            try:
                while time.monotonic() < until:
                    client.socket.settimeout(max(0.01, until - time.monotonic()))
                    client.send_bytes(frames)
                    sent += 1_000
            except (TimeoutError, Closed):
                pass
        return sent

    with ThreadPoolExecutor(CONNECTIONS) as clients:
        return f"{sum(clients.map(send, range(CONNECTIONS)))} requests accepted"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="many-client-ids",
        sends=f"requests of {CLIENT_IDS} client ids of {ID_CHARS} characters, each with a quota of its own",
        prepare=partial(_set_quota, "request_percentage", 100_000.0, None),
        send=_many_ids,
        cpu_s=15.0,
        settings=SETTINGS,
    ),
    Attack(
        name="impatient-clients",
        sends=f"{CONNECTIONS} connections beyond their quota that send as much as the node accepts",
        prepare=partial(_set_quota, "request_percentage", 0.0001, THROTTLED_CLIENT),
        send=_ignore_throttle,
        cpu_s=1.0,
        settings=SETTINGS,
    ),
)
