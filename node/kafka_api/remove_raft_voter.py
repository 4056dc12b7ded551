"""RemoveRaftVoter: a node loses its vote in the metadata quorum (KIP-853)."""

from typing import TYPE_CHECKING

from logstore.errors import KafkaError
from metadata_raft.commands import RemoveRaftVoter
from node.kafka_api.add_raft_voter import check_cluster
from node.kafka_api.request_context import RequestContext
from node.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from node.broker import Broker


async def handle(
    broker: "Broker", context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    command = RemoveRaftVoter(voter_id=request.voter_id, voter_directory_id=request.voter_directory_id)
    try:
        await broker.administrators.check(context.connection)
        check_cluster(broker, request.cluster_id)
        await broker.metadata.submit(command)
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.detail)
    return RemoveRaftVoterResponse(error_message=None)
