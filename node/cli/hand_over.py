"""`ottla hand-over`: moves leadership away from a node that is about to be stopped; it serves until then.

It is the first step of SIGTERM as a command: a process that stops nodes (Kubernetes in a preStop hook) waits
for it, and ends the node only when no client needs it any longer.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

from ottla.node.cli.answers import answer
from ottla.node.cli.failure import CommandError
from ottla.node.client import cluster_admin
from ottla.node.client.cluster_client import Client

POLL_S: Final = 0.1


async def hand_over(client: Client, node_id: int, pid: int, linger_s: float, as_json: bool) -> int:
    """Make the node with process id `pid` of this host hand over its leadership; return the exit code.

    CommandError if the process is not a node, or the quorum has no leader; also if the handover takes longer
    than the client's timeout: then the node may be stopped all the same.
    """
    _check_is_node(pid)
    async with client:
        if await _is_alone(client, node_id):
            line = f"node {node_id} is the only one running: no other node can take over its partitions"
            answer({"node": node_id, "handed_over": False}, line, as_json=as_json)
            return 0
        # It would keep leading, and could not lead anything else until it is restarted.
        if client.cut_off_since_ms is not None:
            raise CommandError(
                f"Node {node_id} cannot hand over its partitions: the metadata quorum has no leader, "
                "so no new leaders can be elected. Start more voters first; `ottla quorum status` shows them."
            )
        os.kill(pid, signal.SIGUSR1)
        while not await _has_handed_over(client, node_id):
            if client.deadline.is_over:
                raise CommandError(
                    f"Node {node_id} has not handed over all partitions within {client.timeout_s:g} s; "
                    "`ottla broker list` shows how many it still leads."
                )
            await asyncio.sleep(POLL_S)
    await asyncio.sleep(linger_s)
    answer(
        {"node": node_id, "handed_over": True},
        f"node {node_id} no longer leads partitions; stop it now, since it takes no part in the "
        "cluster until it is restarted",
        as_json=as_json,
    )
    return 0


def _check_is_node(pid: int) -> None:
    """Raise CommandError unless the process is a node: the signal would end one that does not handle it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        raise CommandError(f"There is no process with id {pid}.") from None
    if b"start" not in words or not any(b"ottla" in word for word in words):
        raise CommandError(f"Process {pid} is not an `ottla start` process.")


async def _is_alone(client: Client, node_id: int) -> bool:
    cluster = await cluster_admin.describe_cluster(client)
    return all(one.broker_id == node_id or one.is_fenced for one in cluster.brokers)


async def _has_handed_over(client: Client, node_id: int) -> bool:
    """Return True if others lead all its partitions: only then the controller fences a broker that leaves."""
    cluster = await cluster_admin.describe_cluster(client)
    return all(one.broker_id != node_id or one.is_fenced for one in cluster.brokers)
