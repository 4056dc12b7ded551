"""Attacks on access reserved for nodes and administrators: commands, the quorum's port, the last connections.

A controller connects to a voter only at the endpoint that the voter registered, so AddRaftVoter cannot be
used to scan ports.
"""

import os
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S, codes_in, in_words
from attacks.nodes import Nodes
from attacks.secured_access import Role
from ottla.logstore.words.errors import ErrorCode
from tests.compat.wire_client import Closed, WireClient

COMMAND_ROUNDS: Final = 200
BROKER_RESOURCE: Final = 4
UNREGISTERED_ID: Final = 77
HOST: Final = "127.0.0.1"
MAX_CONNECTIONS: Final = 40
OPENED: Final = 300
QUORUM_ROUNDS: Final = 5
QUORUM_CONNECTIONS: Final = 200
HELD_S: Final = 0.2
_JUNK: Final = (
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x7f\xff\xff\xff" + b"x" * 1_000,
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x40half a frame",
    bytes(4_000),
    os.urandom(4_000),
)


# ---- commands of nodes and administrators ----------------------------------------------------------------


@contextmanager
def _unused_port() -> Iterator[socket.socket]:
    """Listen on a port to which no node should connect."""
    with socket.create_server((HOST, 0)) as listening:
        listening.setblocking(False)
        yield listening


def _was_dialled(listening: socket.socket) -> bool:
    time.sleep(HELD_S)
    with suppress(BlockingIOError):
        listening.accept()[0].close()
        return True
    return False


def _add_voter(client: WireClient, voter_id: int, port: int) -> Any:
    return client.call(
        "add_raft_voter",
        1,
        cluster_id=None,
        timeout_ms=5_000,
        voter_id=voter_id,
        voter_directory_id=b"directory of a x",
        listeners=[{"name": "CONTROLLER", "host": HOST, "port": port}],
    )


def _send_voters(nodes: Nodes) -> str:
    """Send AddRaftVoter with ids and endpoints of unregistered voters; AssertionError if a node connects."""
    with _unused_port() as listening, nodes.connect(timeout_s=TIMEOUT_S) as client:
        port = listening.getsockname()[1]
        codes = Counter(
            int(_add_voter(client, UNREGISTERED_ID + number, port).error_code)
            for number in range(COMMAND_ROUNDS)
        )
        assert not _was_dialled(listening), "a node connected to a port that no voter has registered"
    assert set(codes) == {ErrorCode.INVALID_REQUEST}, in_words(codes)
    return in_words(codes)


def _commands(client: WireClient, port: int) -> Iterator[Any]:
    marker = {
        "producer_id": 1,
        "producer_epoch": 1,
        "transaction_result": True,
        "topics": [{"name": "any", "partition_indexes": [0]}],
        "coordinator_epoch": 1,
    }
    yield client.call("write_txn_markers", 1, markers=[marker])
    yield _add_voter(client, UNREGISTERED_ID, port)
    for name in ("0", ""):
        configs = [{"name": "log.retention.ms", "config_operation": 0, "value": "1"}]
        resource = {"resource_type": BROKER_RESOURCE, "resource_name": name, "configs": configs}
        yield client.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)


def _send_commands(nodes: Nodes) -> str:
    """Send every such command as a user without rights; AssertionError if one is allowed."""
    codes: Counter[int] = Counter()
    with _unused_port() as listening, nodes.connect(timeout_s=TIMEOUT_S) as client:
        for _ in range(COMMAND_ROUNDS):
            for answer in _commands(client, listening.getsockname()[1]):
                codes += codes_in(answer)
        assert not _was_dialled(listening), "a node connected to a port that a user without rights named"
    assert set(codes) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}, in_words(codes)
    return in_words(codes)


# ---- the last connections --------------------------------------------------------------------------------


def _take_connections(nodes: Nodes, stack: ExitStack) -> int:
    """Open connections and send nothing; return how many are still open after a moment."""
    host, _, port = nodes.bootstrap.rpartition(":")
    opened = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(OPENED)]
    time.sleep(HELD_S)
    open_count = 0
    for one in opened:
        one.setblocking(False)
        try:
            open_count += bool(one.recv(1))
        except BlockingIOError:
            open_count += 1
        except OSError:
            continue
    return open_count


def _take_all_connections(nodes: Nodes) -> str:
    """Take all connections, from this machine too; an administrator must still be able to connect."""
    with ExitStack() as stack:
        open_count = _take_connections(nodes, stack)
        began = time.monotonic()
        with nodes.as_role(Role.ADMINISTRATOR).connect(timeout_s=TIMEOUT_S) as administrator:
            brokers = administrator.call("metadata", 12, topics=[]).brokers
        assert brokers, "an administrator got a response without brokers"
    login_s = time.monotonic() - began
    return f"{open_count} of {OPENED} held; an administrator was logged in after {login_s:.2f} s"


# ---- the quorum's port -----------------------------------------------------------------------------------


def _quorum_address(nodes: Nodes) -> tuple[str, int]:
    properties = nodes.processes[nodes.attacked].home.properties.read_text()
    found = re.search(r"CONTROLLER://([^:,\s]*):(\d+)", properties)
    assert found is not None, "the node has no controller listener"
    return found[1] or HOST, int(found[2])


def _send_to_quorum(nodes: Nodes) -> str:
    address = _quorum_address(nodes)
    sent = refused = 0
    for number in range(QUORUM_ROUNDS):
        with ExitStack() as stack:
            for index in range(QUORUM_CONNECTIONS):
                try:
                    one = stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S))
                    if (number + index) % 8:  # every eighth sends nothing
                        one.sendall(_JUNK[(number + index) % len(_JUNK)])
                    sent += 1
                except OSError:
                    refused += 1
            time.sleep(HELD_S)
    with suppress(Closed), nodes.connect() as client:
        assert client.call("metadata", 12, topics=[]).controller_id >= 0, "the quorum has no leader"
    return f"{sent} connections, {refused} refused"


_VOTERS: Final = Attack(
    name="voters-nowhere",
    sends=f"AddRaftVoter {COMMAND_ROUNDS} times, with ids and ports that no voter has registered",
    send=_send_voters,
    cpu_s=1.0,
)
ATTACKS: Final[Sequence[Attack]] = (
    _VOTERS,
    Attack(
        name="quorum-port",
        sends=f"{QUORUM_ROUNDS} times {QUORUM_CONNECTIONS} connections with junk, half frames and nothing"
        " at the port of the quorum",
        send=_send_to_quorum,
        cpu_s=3.0,
        node_counts=(3,),
    ),
)
SECURED: Final[Sequence[Attack]] = (
    Attack(
        name="commands-of-administrators",
        sends=f"WriteTxnMarkers, AddRaftVoter and settings of brokers, {COMMAND_ROUNDS} times, by a user"
        " without rights",
        send=_send_commands,
        cpu_s=3.0,
        is_secure=True,
        role=Role.USER,
    ),
    replace(_VOTERS, name="voters-nowhere-secured", is_secure=True),
    Attack(
        name="all-connections",
        sends=f"{OPENED} connections where {MAX_CONNECTIONS} are allowed, then one of an administrator",
        send=_take_all_connections,
        cpu_s=3.0,
        settings={"max.connections": str(MAX_CONNECTIONS)},
        is_secure=True,
        role=Role.UNAUTHENTICATED,
        node_counts=(1,),
    ),
)
