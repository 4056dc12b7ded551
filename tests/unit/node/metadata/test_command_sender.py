"""Commands to the controller on another node: urgent ones do not wait for others."""

import asyncio
from typing import Any, cast

import pytest

from ottla.metadata_raft.command_codec import encode_reply
from ottla.metadata_raft.commands import (
    AlterPartition,
    AlterPartitionReply,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    Command,
    CreateTopics,
    RegisterBroker,
    RegisterBrokerReply,
    Reply,
)
from ottla.node.metadata.command_sender import CommandSender
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.submit_command import SubmitCommandResponse

CONTROLLER, TIMEOUT_S = 1, 30.0
HEARTBEAT = BrokerHeartbeat(broker_id=2, broker_epoch=7)


class BusyConnection:
    """A connection on which a client's large command is in progress, so no later request is answered."""

    async def request(self, *_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()


class IdleConnection:
    """A connection without any other request."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    async def request(self, *_: Any, **__: Any) -> SubmitCommandResponse:
        return SubmitCommandResponse(reply=encode_reply(self.reply))


@pytest.mark.parametrize(
    ("urgent", "reply"),
    [
        (HEARTBEAT, BrokerHeartbeatReply()),
        (RegisterBroker(broker_id=2, incarnation_id=bytes(16)), RegisterBrokerReply(broker_epoch=7)),
        (AlterPartition(broker_id=2), AlterPartitionReply()),
    ],
    ids=["heartbeat", "registration", "change of an ISR"],
)
def test_an_urgent_command_does_not_wait_behind_the_request_of_a_client(
    urgent: Command, reply: Reply
) -> None:
    dialled: list[str] = []

    async def connect(node_id: int, purpose: str) -> PeerClient:
        dialled.append(purpose)
        is_of_clients = purpose == dialled[0]
        return cast(PeerClient, BusyConnection() if is_of_clients else IdleConnection(reply))

    async def scenario() -> Any:
        sender = CommandSender(connect)
        large = asyncio.create_task(sender.send(CONTROLLER, CreateTopics(), None, TIMEOUT_S))
        await asyncio.sleep(0)
        answered = await asyncio.wait_for(sender.send(CONTROLLER, urgent, None, TIMEOUT_S), TIMEOUT_S)
        assert not large.done()
        large.cancel()
        return answered

    assert asyncio.run(scenario()).reply == reply
    assert len(set(dialled)) == 2
