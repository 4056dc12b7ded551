"""Detects that the process of another node has ended.

The port of a dead process refuses connections, so its partitions get other leaders at once. A process that is
only cut off keeps its partitions until its session ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage
from ottla.node.metadata.command_sender import HEARTBEAT_PURPOSE
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.net.peer_network import EndedConnection, PeerNetwork
from ottla.node.start.node_tasks import NodeTasks
from ottla.node.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

# A dying process closes its sockets one by one, so its port may still accept the first connection.
GONE_PROBES: Final = 4
GONE_PROBE_PAUSE_S: Final = 0.05
PROBE: Final = ApiVersionsRequest(client_software_name="ottla-pulse", client_software_version="1")
PROBE_PURPOSE: Final = "pulse"
PROBE_TIMEOUT_S: Final = 5.0
CLOSING_S: Final = 0.01  # the time in which a dying process closes its other connections


class PeerWatch:
    """The watch on the connections between this node and the others.

    `has_peer` returns True if a node has a connection to this one. Only a voter (`is_voter`) reports ended
    processes to the controller, which may be the voter itself.
    """

    def __init__(
        self,
        *,
        node_id: int,
        metadata: MetadataRuntime,
        peers: PeerNetwork,
        has_peer: Callable[[int], bool],
        tasks: NodeTasks,
        is_voter: bool,
        controller_changed: Callable[[], None],
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._peers = peers
        self._has_peer = has_peer
        self._tasks = tasks
        self._is_voter = is_voter
        self._controller_changed = controller_changed
        self._looked_for: set[tuple[int, int]] = set()  # processes being probed, by node and broker epoch
        self._probes: dict[int, asyncio.Task[None]] = {}  # the last probe of each node

    async def probe(self, node_id: int) -> None:
        """Send a request to a node, and suspect the node if the connection ends instead of a response."""
        if node_id == self._node_id or not self._tasks.are_open:
            return
        probe = self._probes.get(node_id)
        if probe is None or probe.done():
            probe = self._probes[node_id] = self._tasks.start(self._probe(node_id))
        # A caller may give up before the handshake of a new connection is over; the probe continues.
        await asyncio.shield(probe)

    async def _probe(self, node_id: int) -> None:
        try:
            await self._peers.ask(node_id, PROBE_PURPOSE, PROBE, ApiVersionsResponse, PROBE_TIMEOUT_S)
        except KafkaError as error:
            if error.code is ErrorCode.NETWORK_EXCEPTION:
                self._suspect(node_id)

    def peer_lost(self, node_id: int) -> None:
        """Handle the end of a peer's last connection to this node."""
        if self._tasks.are_open:
            self._metadata.peer_lost(node_id)
            self._suspect(node_id)

    def connection_lost(self, ended: EndedConnection) -> None:
        """Handle the end of a connection of this node to a peer.

        If it was the connection for heartbeats, the controller may conclude that this node has ended.
        """
        if not self._tasks.are_open:
            return
        self._suspect(ended.node_id)
        if ended.purpose == HEARTBEAT_PURPOSE:
            self._metadata.encoded_answers.clear()  # they may name a controller that has ended
            self._controller_changed()

    def update_brokers(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Note that a broker that has registered again is a new process."""
        for broker_id in changes.brokers - {self._node_id}:
            if broker_id in image.brokers:
                self._peers.note_registration(broker_id, image.brokers[broker_id].broker_epoch)

    def leader_changed(self) -> None:
        """If this node has become the controller, probe the brokers without a connection to it."""
        if self._metadata.is_controller:
            for broker_id in sorted(self._metadata.image.brokers):
                if broker_id != self._node_id and not self._has_peer(broker_id):
                    self._look_for(broker_id)

    async def is_quorum_gone(self, voter_ids: Sequence[int]) -> bool:
        """Return True if so many of these voters' processes have ended that no majority is left."""
        left = len(voter_ids)
        for voter_id in voter_ids:
            if voter_id != self._node_id and await self._peers.is_refused(voter_id):
                left -= 1
            if left <= len(voter_ids) // 2:
                return True
        return False

    def _suspect(self, node_id: int) -> None:
        """Suspect a node whose connections have ended, unless it is fenced or unknown."""
        if self._look_for(node_id):
            self._metadata.suspects.suspect(node_id)

    def _look_for(self, node_id: int) -> bool:
        """Start to probe the process of a broker; return False if the broker is fenced or unknown."""
        broker = self._metadata.image.brokers.get(node_id)
        if broker is None or broker.fenced:
            return False
        if (node_id, broker.broker_epoch) not in self._looked_for:
            self._looked_for.add((node_id, broker.broker_epoch))
            self._tasks.start(self._check_if_gone(node_id, broker.broker_epoch))
        return True

    async def _check_if_gone(self, node_id: int, broker_epoch: int) -> None:
        suspects = self._metadata.suspects
        try:
            for _ in range(GONE_PROBES):
                if self._has_peer(node_id):
                    await asyncio.sleep(CLOSING_S)
                    if self._has_peer(node_id):
                        break
                if await self._peers.is_refused(node_id):
                    suspects.mark_gone(node_id)
                    if self._is_voter:
                        self._metadata.peer_gone(node_id, broker_epoch)
                    return
                await asyncio.sleep(GONE_PROBE_PAUSE_S)
            suspects.trust(node_id)
        finally:
            self._looked_for.discard((node_id, broker_epoch))
