"""ConsumerGroupHeartbeat (KIP-848): a member of a consumer group joins, stays or leaves.

Since 1 members generate their own ids and may subscribe by a regular expression.
"""

from typing import Final

from ottla.groupcoord.assignment import TopicPartitions as OwnedPartitions
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.describe_right import after_topic_checks
from ottla.node.kafka_api.join_group import client_host
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.node.wire.request_limits import GROUP, NAME, REGEX, SEVERAL, TOPIC, RequestLimits

API: Final = ApiDescription(
    versions=(0, 1),
    asks=Asks(
        by_handler=((AclOperation.READ, ResourceType.GROUP), (AclOperation.DESCRIBE, ResourceType.TOPIC))
    ),
    limits=RequestLimits(
        SEVERAL,
        {
            "group_id": GROUP,
            "member_id": NAME,  # a client of this protocol chooses it
            "instance_id": NAME,
            "rack_id": NAME,
            "subscribed_topic_names": TOPIC,
            "subscribed_topic_regex": REGEX,
            "server_assignor": NAME,
        },
    ),
)

# Clients that wait for the response to a heartbeat for their request timeout; librdkafka waits for its
# heartbeat interval.
TOLERANT_CLIENTS = {"apache-kafka-java"}


def handle(
    services: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Result[ConsumerGroupHeartbeatResponse]:
    if not services.serves_consumer_groups:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    context.access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    return after_topic_checks(
        context, request.subscribed_topic_names, lambda: _beat(services, context, request)
    )


def _beat(
    services: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Result[ConsumerGroupHeartbeatResponse]:
    hold_ms = services.groups.hold_ms(context.connection.software_name)
    owned = None
    if request.topic_partitions is not None:
        owned = [OwnedPartitions(each.topic_id, each.partitions) for each in request.topic_partitions]

    def make(token: int) -> ConsumerGroupHeartbeat:
        return ConsumerGroupHeartbeat(
            token=token,
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_topic_names=request.subscribed_topic_names,
            subscribed_topic_regex=request.subscribed_topic_regex,
            server_assignor=request.server_assignor,
            owned=owned,
            client_id=context.client_id or "",
            client_host=client_host(context),
            member_id_required=context.api_version >= 1,
            hold_ms=hold_ms,
            tolerates_late_answers=context.connection.software_name in TOLERANT_CLIENTS,
            may_describe=context.access.topic_filter(),
        )

    if hold_ms:
        return services.groups.ask_to_wait(request.group_id, request.member_id, make, _build)
    return services.groups.ask(request.group_id, make, _build, keeps_nothing=True)


def _build(answer: ConsumerGroupHeartbeatResult | KafkaError) -> ConsumerGroupHeartbeatResponse:
    if isinstance(answer, KafkaError):
        return ConsumerGroupHeartbeatResponse(error_code=answer.code, error_message=answer.detail)
    assignment = None
    if answer.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in answer.assignment
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=assignment,
    )
