"""Commands on their way to the controller on another node, and the ids by which it knows them again.

Requests of one connection are served one after the other, so what must not wait behind a large change has a
connection of its own: heartbeats, and changes of ISRs.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl_set import Asker
from ottla.metadata_raft.command_codec import decode_reply, encode_command
from ottla.metadata_raft.commands import AlterPartition, BrokerHeartbeat, Command, RegisterBroker, RequestId
from ottla.metadata_raft.request_control import MAX_OPEN_REQUESTS
from ottla.node.metadata.controller_runtime import Decided
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.submit_command import Client, SubmitCommandRequest, SubmitCommandResponse

HEARTBEAT_PURPOSE: Final = "heartbeat"
MIN_ANSWER_S: Final = 0.001  # for the answer to a request that goes out at the last moment
_PURPOSES: Final = {
    BrokerHeartbeat: HEARTBEAT_PURPOSE,
    RegisterBroker: HEARTBEAT_PURPOSE,
    AlterPartition: "isr",
}

# An open connection to a node, for a purpose.
Connect = Callable[[int, str], Awaitable[PeerClient]]


class Leader(NamedTuple):
    """Who leads the quorum in an epoch; -1 if nobody is known to."""

    epoch: int
    node_id: int


class CommandSender:
    """This node's side of SubmitCommand."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.hint = Leader(-1, -1)  # what the last node that refused a command knew

    async def send(
        self,
        node_id: int,
        command: Command,
        request: RequestId | None,
        timeout_s: float,
        client: Asker | None = None,
    ) -> Decided:
        """Return what that node decided, within `timeout_s` for the connection and the answer together.

        A node of before clients were named decides as if this node asked for itself.
        KafkaError as that node refuses; NETWORK_EXCEPTION or REQUEST_TIMED_OUT if nobody knows.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        try:
            # A lost node is dialled after a back-off, which may take longer than the time that is left.
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
    """Numbers the commands of one broker process and knows which of them are still waited for."""

    def __init__(self) -> None:
        self._sequences = itertools.count()
        self._open: dict[int, None] = {}  # in the order of the numbers

    @contextmanager
    def open(self) -> Iterator[int]:
        """A number for a command, for as long as somebody waits for its reply."""
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
        """The id of an open command, with the oldest that is open now."""
        return RequestId(broker_epoch, sequence, next(iter(self._open)))
