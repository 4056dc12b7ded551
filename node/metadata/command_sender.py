"""Sends commands to the controller on another node, with ids by which it recognizes a repeated command.

A node serves the requests of one connection one after another. Heartbeats and ISR changes must not wait
behind a large change, so each of these has a connection of its own.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.command_codec import decode_reply, encode_command
from ottla.metadata_raft.commands import AlterPartition, BrokerHeartbeat, Command, RegisterBroker, RequestId
from ottla.metadata_raft.request_control import MAX_OPEN_REQUESTS
from ottla.node.metadata.controller_runtime import Decided
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.submit_command import Client, SubmitCommandRequest, SubmitCommandResponse

HEARTBEAT_PURPOSE: Final = "heartbeat"
MIN_ANSWER_S: Final = 0.001  # the time for an answer if connecting took all of the timeout
_PURPOSES: Final = {
    BrokerHeartbeat: HEARTBEAT_PURPOSE,
    RegisterBroker: HEARTBEAT_PURPOSE,
    AlterPartition: "isr",
}

# Returns an open connection to a node, for a purpose.
Connect = Callable[[int, str], Awaitable[PeerClient]]


class Leader(NamedTuple):
    """The leader of the quorum in an epoch; its id is -1 if it is unknown."""

    epoch: int
    node_id: int


class CommandSender:
    """This node's side of SubmitCommand."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.hint = Leader(-1, -1)  # the latest leader that a response named

    async def send(
        self,
        node_id: int,
        command: Command,
        request: RequestId | None,
        timeout_s: float,
        client: ClientIdentity | None = None,
    ) -> Decided:
        """Send a command to a node and return its decision.

        `timeout_s` covers both the connection and the answer. A node of a version that knows no `client`
        decides as if the command were this node's own. KafkaError if the node rejects the command;
        NETWORK_EXCEPTION or REQUEST_TIMED_OUT if the command may or may not be carried out.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        try:
            # Connecting to a lost node again waits for a backoff, which may be longer than the time left.
            async with asyncio.timeout_at(deadline):
                connection = await self._connect(node_id, _PURPOSES.get(type(command), "command"))
        except TimeoutError:
            detail = f"No connection to node {node_id} within {timeout_s:.3g} s."
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from None
        timeout_s = max(MIN_ANSWER_S, deadline - loop.time())
        no_id = RequestId(-1, -1, -1)
        asked = SubmitCommandRequest(
            **(request or no_id)._asdict(),
            timeout_ms=int(timeout_s * 1000),
            command=encode_command(command),
            client=None if client is None else Client(principal=client.principal, host=client.host),
        )
        response = await connection.request(asked, SubmitCommandResponse, timeout_s=timeout_s)
        if response.epoch >= self.hint.epoch:
            self.hint = Leader(response.epoch, response.leader_id)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), response.error_message or "")
        return Decided(decode_reply(response.reply), response.offset)


class RequestIds:
    """The numbers of one broker process's commands, and those of them that still wait for a reply."""

    def __init__(self) -> None:
        self._sequences = itertools.count()
        self._open: dict[int, None] = {}  # in the order of the numbers

    @contextmanager
    def open(self) -> Iterator[int]:
        """Yield the number of a new command, which is open until the context ends.

        THROTTLING_QUOTA_EXCEEDED if too many commands are open.
        """
        if len(self._open) >= MAX_OPEN_REQUESTS:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many commands of this node are in progress."
            )
        sequence = next(self._sequences)
        self._open[sequence] = None
        try:
            yield sequence
        finally:
            del self._open[sequence]

    def request(self, broker_epoch: int, sequence: int) -> RequestId:
        """Return the id of an open command.

        It includes the oldest open number, so that the controller can remove the replies of earlier commands.
        """
        return RequestId(broker_epoch, sequence, next(iter(self._open)))
