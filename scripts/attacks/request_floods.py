"""Small requests, sent in a row without waiting for responses, over several connections at once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S
from attacks.nodes import Nodes

CONNECTIONS: Final = 8
PIPELINED: Final = 64  # as many as a node serves from one connection before it turns to others
ROUNDS: Final = 40
COSTLY_ROUNDS: Final = 4

_VERSIONS: Final = {"client_software_name": "attack", "client_software_version": "1"}
_BROKER: Final = {"resources": [{"resource_type": 4, "resource_name": "0", "configuration_keys": None}]}


def _flood(api: str, version: int, fields: dict[str, Any], rounds: int, nodes: Nodes) -> str:
    def send(_: int) -> int:
        with nodes.connect(timeout_s=TIMEOUT_S) as client:
            frames = client.frame(api, version, **fields) * PIPELINED
            for _ in range(rounds):
                client.send_bytes(frames)
                for _ in range(PIPELINED):
                    client.receive_frame()
        return rounds * PIPELINED

    with ThreadPoolExecutor(CONNECTIONS) as clients:
        return f"{sum(clients.map(send, range(CONNECTIONS)))} answers"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="api-versions-flood",
        sends=f"{CONNECTIONS} connections that send {PIPELINED} ApiVersions at a time, {ROUNDS} times",
        send=partial(_flood, "api_versions", 4, _VERSIONS, ROUNDS),
        cpu_s=4.0,
    ),
    Attack(
        name="describe-cluster-flood",
        sends=f"{CONNECTIONS} connections that send {PIPELINED} DescribeCluster at a time, {ROUNDS} times",
        send=partial(_flood, "describe_cluster", 2, {}, ROUNDS),
        cpu_s=4.0,
    ),
    Attack(
        name="describe-configs-flood",
        sends=f"{CONNECTIONS} connections that send {PIPELINED} DescribeConfigs of a broker at a time",
        send=partial(_flood, "describe_configs", 4, _BROKER, COSTLY_ROUNDS),
        cpu_s=10.0,
    ),
)
