"""RemoveRaftVoter: removes a node's vote in the metadata quorum (KIP-853)."""

from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import RemoveRaftVoter
from ottla.node.kafka_api.add_raft_voter import check_cluster
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(SEVERAL, {"cluster_id": NAME}),
)


async def handle(
    services: Services, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    command = RemoveRaftVoter(voter_id=request.voter_id, voter_directory_id=request.voter_directory_id)
    try:
        check_cluster(services, request.cluster_id)
        await services.metadata.submit(command, client=context.client)
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.detail)
    return RemoveRaftVoterResponse(error_message=None)
