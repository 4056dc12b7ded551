"""SubmitCommand: decides the command of another node, if this node leads the metadata quorum.

A node speaks for itself: commands about a broker (its registration, heartbeats, ISRs) are accepted on that
broker's own connection only. A client's command is authorized here again, with the rights of that client,
because the image of the node that forwards it may be older than an ACL.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.command_codec import decode_command, encode_reply
from ottla.metadata_raft.commands import BrokerConnectionLost, Command, RequestId, UnregisterBroker
from ottla.node.kafka_api.acl_requests import PRINCIPAL
from ottla.node.kafka_api.api_description import PEERS_ONLY, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import QuorumServices
from ottla.node.wire.messages.submit_command import SubmitCommandRequest, SubmitCommandResponse
from ottla.node.wire.request_limits import COMMAND, NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 1),
    asks=PEERS_ONLY,
    limits=RequestLimits(SEVERAL, {"command": COMMAND, "client.principal": PRINCIPAL, "client.host": NAME}),
    is_served_early=True,
)


def _check_sender(command: Command, peer_id: int) -> None:
    if isinstance(command, UnregisterBroker):
        return  # requested by an administrator, for any broker
    # Every other command about one broker has it in this field.
    speaks_for = getattr(command, "broker_id", peer_id)
    if speaks_for != peer_id or isinstance(command, BrokerConnectionLost):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {peer_id} may not send the command {type(command).__name__} about node {speaks_for}.",
        )


async def handle(
    services: QuorumServices, context: RequestContext, request: SubmitCommandRequest
) -> SubmitCommandResponse:
    metadata = services.metadata
    try:
        command = decode_command(request.command)
        _check_sender(command, context.connection.peer_id)
        request_id = None
        if request.sequence >= 0:
            request_id = RequestId(request.broker_epoch, request.sequence, request.oldest_open_sequence)
        client = request.client
        identity = None if client is None else ClientIdentity(client.principal, client.host)
        decided = await metadata.decide(command, request_id, identity)
    except KafkaError as error:
        return SubmitCommandResponse(
            error_code=error.code,
            error_message=error.detail,
            leader_id=metadata.controller_id,
            epoch=metadata.controller_epoch,
        )
    return SubmitCommandResponse(
        leader_id=metadata.controller_id,
        epoch=metadata.controller_epoch,
        offset=decided.offset,
        reply=encode_reply(decided.reply),
    )
