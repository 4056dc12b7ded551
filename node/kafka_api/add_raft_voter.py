"""AddRaftVoter: gives a node that follows the metadata quorum a vote in it (KIP-853)."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import AddRaftVoter, VoterListener
from ottla.metadata_raft.voter_control import duplicate_voter
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_timeout import command_timeout_ms
from ottla.node.services import Services
from ottla.node.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 1),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(SEVERAL, {"cluster_id": NAME, "listeners.name": NAME, "listeners.host": NAME}),
)


async def handle(
    services: Services, context: RequestContext, request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    command = AddRaftVoter(
        voter_id=request.voter_id,
        voter_directory_id=request.voter_directory_id,
        listeners=[VoterListener(name=one.name, host=one.host, port=one.port) for one in request.listeners],
    )
    try:
        check_cluster(services, request.cluster_id)
        _check_new_voter(services, command)
        await services.metadata.submit(command, command_timeout_ms(request.timeout_ms), context.client)
    except KafkaError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.detail)
    return AddRaftVoterResponse(error_message=None)


def _check_new_voter(services: Services, command: AddRaftVoter) -> None:
    """Raise INVALID_REQUEST for a voter that the leader must not connect to.

    A node that is a voter here may have been removed meanwhile, so its addresses are checked as well.
    """
    if not command.listeners:
        return  # the controller reports the error
    try:
        _check_registered(services, command)
    except KafkaError:
        if any(voter.voter_id == command.voter_id for voter in services.metadata.image.voters):
            raise duplicate_voter(command.voter_id) from None
        raise


def _check_registered(services: Services, command: AddRaftVoter) -> None:
    """Raise INVALID_REQUEST unless the new voter is a registered node, at one of its own hosts and ports.

    The leader connects to it and names the cluster to whatever program answers, so it must not be directed to
    other hosts, nor to other ports of a known host.
    """
    image = services.metadata.image
    registered = image.brokers.get(command.voter_id)
    if registered is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Node {command.voter_id} is not registered as a broker of this cluster: start it first. A node"
            " that is only a controller becomes a voter by itself, with"
            " controller.quorum.auto.join.enable=true and an empty metadata.log.dir.",
        )
    configured = [one for one in services.config.controller_quorum_voters if one.node_id == command.voter_id]
    ports = {point.port for point in registered.controllers.values()} | {one.port for one in configured}
    if not ports:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Node {command.voter_id} has not registered a listener for controllers: start it with one.",
        )
    # The host may be named in the node's other listeners only.
    hosts = {point.host for point in (*registered.listeners.values(), *registered.controllers.values())}
    hosts |= {one.host for one in configured}
    for one in command.listeners:
        if one.host not in hosts or one.port not in ports:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Node {command.voter_id} does not listen for controllers at {one.host[:250]}:{one.port}; it"
                f" has registered {', '.join(sorted(hosts))} with port {', '.join(map(str, sorted(ports)))}.",
            )


def check_cluster(services: Services, cluster_id: str | None) -> None:
    """Raise INCONSISTENT_CLUSTER_ID if the client means another cluster."""
    own = uuid_to_text(services.metadata.image.cluster_id)
    if cluster_id not in (None, own):
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"The request names another cluster id than that of this cluster, {own}.",
        )
