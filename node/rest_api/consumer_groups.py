"""Consumer groups: their members, the partitions that each reads, and their lag.

As with Confluent's: groups of both protocols, and groups that only commit offsets, but not those of Connect.
Lag is measured up to the last stable offset, since a consumer of committed records reads no further.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import group_lag, topic_admin
from ottla.node.client.consumer import READ_COMMITTED
from ottla.node.client.group_admin import (
    CLASSIC,
    CONSUMER,
    GroupMemberView,
    GroupView,
    committed_offsets,
    describe_groups,
    list_groups,
)
from ottla.node.client.group_member import PROTOCOL_TYPE
from ottla.node.rest_api.group_resources import GroupKind, GroupScope, coordinator_id_of, list_response
from ottla.node.rest_api.resource import (
    RELATED,
    Data,
    collection,
    related,
    resource,
    resource_schema,
    url,
)
from ottla.node.rest_api.rest_error import not_found
from ottla.node.rest_api.route import (
    BOOLEAN,
    INTEGER,
    NAME,
    STRING,
    Answer,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Consumer Group (v3)"
_NULLABLE: Final = {"type": ["string", "null"]}
_IDS: Final = {"cluster_id": STRING, "consumer_group_id": STRING}

_GROUP: Final = resource_schema(
    "ConsumerGroupData",
    "KafkaConsumerGroup",
    {
        **_IDS,
        "is_simple": BOOLEAN,
        "partition_assignor": STRING,
        "state": STRING,
        "type": STRING,
        "is_mixed_consumer_group": BOOLEAN,
        "coordinator": RELATED,
        "consumers": RELATED,
        "lag_summary": RELATED,
    },
    optional=["coordinator"],
)
_CONSUMER: Final = resource_schema(
    "ConsumerData",
    "KafkaConsumer",
    {
        **_IDS,
        "consumer_id": STRING,
        "instance_id": _NULLABLE,
        "client_id": STRING,
        "assignments": RELATED,
    },
)
_ASSIGNMENT: Final = resource_schema(
    "ConsumerAssignmentData",
    "KafkaConsumerAssignment",
    {
        **_IDS,
        "consumer_id": STRING,
        "topic_name": STRING,
        "partition_id": INTEGER,
        "partition": RELATED,
        "lag": RELATED,
    },
)
_LAG: Final = resource_schema(
    "ConsumerLagData",
    "KafkaConsumerLag",
    {
        **_IDS,
        "topic_name": STRING,
        "partition_id": INTEGER,
        "consumer_id": STRING,
        "instance_id": _NULLABLE,
        "client_id": STRING,
        "current_offset": INTEGER,
        "log_end_offset": INTEGER,
        "lag": INTEGER,
    },
)
_LAG_SUMMARY: Final = resource_schema(
    "ConsumerGroupLagSummaryData",
    "KafkaConsumerGroupLagSummary",
    {
        **_IDS,
        "max_lag_consumer_id": STRING,
        "max_lag_instance_id": _NULLABLE,
        "max_lag_client_id": STRING,
        "max_lag_topic_name": STRING,
        "max_lag_partition_id": INTEGER,
        "max_lag": INTEGER,
        "total_lag": INTEGER,
        "max_lag_consumer": RELATED,
        "max_lag_partition": RELATED,
    },
)


def _is_of_consumers(group_type: str, protocol_type: str) -> bool:
    """Return True for a group of consumers; one that only commits offsets has no protocol type."""
    return group_type.lower() == CONSUMER or protocol_type in (PROTOCOL_TYPE, "")


_KIND: Final = GroupKind(
    segment="consumer-groups",
    name="consumer_group",
    id_name="consumer_group_id",
    title="Consumer Group",
    other="it is a group of another type.",
    includes=lambda group: _is_of_consumers(group.group_type, group.protocol_type),
)


# ---- groups --------------------------------------------------------------------------------------


async def list_consumer_groups(context: RestContext, request: RestRequest) -> Answer:
    answers = await list_groups(context.client, states=[], types=[])
    for error in answers.problems.values():
        raise error  # Confluent's list has no field for a part that is missing
    listed = answers.groups
    coordinators = {one.group_id: one.coordinator_id for one in listed}
    groups = await describe_groups(
        context.client, (one for one in listed if _is_of_consumers(one.group_type, one.protocol_type))
    )
    data = [
        _group_data(_KIND.scope(context, request, one.group_id), one, coordinators[one.group_id])
        for one in groups
    ]
    here = url(request.base_url, "clusters", context.cluster_id, "consumer-groups")
    return Answer(body=collection("KafkaConsumerGroupList", here, data))


async def get_consumer_group(context: RestContext, request: RestRequest) -> Answer:
    group = await _KIND.group(context, request)
    coordinator_id = await coordinator_id_of(context, group.group_id)
    return Answer(body=_group_data(_KIND.scope(context, request), group, coordinator_id))


def _group_data(scope: GroupScope, group: GroupView, coordinator_id: int) -> Data:
    return resource(
        "KafkaConsumerGroup",
        scope.url(),
        scope.name(),
        **scope.ids,
        is_simple=not group.protocol_type,
        partition_assignor=group.assignor,
        state=_upper_case(group.state),
        type=group.group_type.upper(),
        is_mixed_consumer_group=group.group_type == CONSUMER and any(map(_speaks_classic, group.members)),
        consumers=related(scope.url("consumers")),
        lag_summary=related(scope.url("lag-summary")),
        **scope.coordinator(coordinator_id),
    )


def _speaks_classic(member: GroupMemberView) -> bool:
    return member.consumer is not None and member.consumer.protocol == CLASSIC


def _upper_case(state: str) -> str:
    """Return a name such as PreparingRebalance as PREPARING_REBALANCE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper()


# ---- members -------------------------------------------------------------------------------------


async def list_consumers(context: RestContext, request: RestRequest) -> Answer:
    group = await _KIND.group(context, request)
    scope = _KIND.scope(context, request)
    data = [_consumer_data(scope, member) for member in group.members]
    return Answer(body=collection("KafkaConsumerList", scope.url("consumers"), data))


async def get_consumer(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_consumer_data(_KIND.scope(context, request), await _KIND.member(context, request)))


def _consumer_data(scope: GroupScope, member: GroupMemberView) -> Data:
    here = scope.url("consumers", member.member_id)
    return resource(
        "KafkaConsumer",
        here,
        scope.name(consumer=member.member_id),
        **scope.ids,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=related(f"{here}/assignments"),
    )


async def list_assignments(context: RestContext, request: RestRequest) -> Answer:
    member = await _KIND.member(context, request)
    scope = _KIND.scope(context, request)
    data = [_assignment_data(scope, member, one) for one in member.partitions or ()]
    here = scope.url("consumers", member.member_id, "assignments")
    return Answer(body=collection("KafkaConsumerAssignmentList", here, data))


async def get_assignment(context: RestContext, request: RestRequest) -> Answer:
    member = await _KIND.member(context, request)
    wanted = TopicPartition(request.path["topic_name"], request.path["partition_id"])
    if wanted not in (member.partitions or ()):
        raise not_found(f"{wanted} is not assigned to this consumer.")
    return Answer(body=_assignment_data(_KIND.scope(context, request), member, wanted))


def _assignment_data(scope: GroupScope, member: GroupMemberView, one: TopicPartition) -> Data:
    place = one.topic, "partitions", one.partition
    return resource(
        "KafkaConsumerAssignment",
        scope.url("consumers", member.member_id, "assignments", *place),
        scope.name(consumer=member.member_id, assignment=one.topic, partition=one.partition),
        **scope.ids,
        consumer_id=member.member_id,
        topic_name=one.topic,
        partition_id=one.partition,
        partition=scope.partition(one),
        lag=related(scope.url("lags", *place)),
    )


# ---- lag -----------------------------------------------------------------------------------------


class _Lag(NamedTuple):
    """The lag of a group in a partition, with the member that reads the partition, or None."""

    partition: TopicPartition
    current_offset: int
    log_end_offset: int
    member: GroupMemberView | None

    @property
    def lag(self) -> int:
        return max(0, self.log_end_offset - self.current_offset)

    @property
    def reader(self) -> Mapping[str, Any]:
        member = self.member
        if member is None:
            return {"consumer_id": "", "instance_id": None, "client_id": ""}
        return {
            "consumer_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
        }


async def _lags(context: RestContext, request: RestRequest) -> list[_Lag]:
    """Return the lags of committed partitions whose leader answers, largest first; RestError 404 if none."""
    group = await _KIND.group(context, request)
    committed = await committed_offsets(context.client, group.group_id)
    if not committed:
        raise not_found("Consumer group offsets could not be found.")
    ends = await group_lag.log_offsets(
        context.client, committed, topic_admin.LATEST, isolation_level=READ_COMMITTED
    )
    readers = {one: member for member in group.members for one in member.partitions or ()}
    found = [
        _Lag(one, offset, ends[one], readers.get(one)) for one, offset in committed.items() if one in ends
    ]
    if not found:
        raise not_found("Consumer lags not found.")
    return sorted(found, key=lambda one: (-one.lag, one.partition))


async def list_lags(context: RestContext, request: RestRequest) -> Answer:
    lags = await _lags(context, request)
    scope = _KIND.scope(context, request)
    data = [_lag_data(scope, one) for one in lags]
    return Answer(body=collection("KafkaConsumerLagList", scope.url("lags"), data))


async def get_lag(context: RestContext, request: RestRequest) -> Answer:
    wanted = TopicPartition(request.path["topic_name"], request.path["partition_id"])
    found = next((one for one in await _lags(context, request) if one.partition == wanted), None)
    if found is None:
        raise not_found(
            f"This group has no committed offset of {wanted}, or the leader of the partition does not answer."
        )
    return Answer(body=_lag_data(_KIND.scope(context, request), found))


def _lag_data(scope: GroupScope, one: _Lag) -> Data:
    topic, number = one.partition
    return resource(
        "KafkaConsumerLag",
        scope.url("lags", topic, "partitions", number),
        scope.name(lag=topic, partition=number),
        **scope.ids,
        topic_name=topic,
        partition_id=number,
        **one.reader,
        current_offset=one.current_offset,
        log_end_offset=one.log_end_offset,
        lag=one.lag,
    )


async def get_lag_summary(context: RestContext, request: RestRequest) -> Answer:
    lags = await _lags(context, request)
    scope, worst = _KIND.scope(context, request), lags[0]
    topic, number = worst.partition
    body = resource(
        "KafkaConsumerGroupLagSummary",
        scope.url("lag-summary"),
        f"{scope.name()}/lag-summary",
        **scope.ids,
        **{f"max_lag_{name}": value for name, value in worst.reader.items()},
        max_lag_topic_name=topic,
        max_lag_partition_id=number,
        max_lag=worst.lag,
        total_lag=sum(one.lag for one in lags),
        max_lag_consumer=related(scope.url("consumers", worst.reader["consumer_id"])),
        max_lag_partition=scope.partition(worst.partition),
    )
    return Answer(body=body)


# ---- the table -----------------------------------------------------------------------------------

_PATH: Final = "/v3/clusters/{cluster_id}/consumer-groups"
_ONE: Final = _PATH + "/{consumer_group_id}"
_MEMBER: Final = _ONE + "/consumers/{consumer_id}"
_PLACE: Final = "/{topic_name}/partitions/{partition_id}"
_NAMES: Final = {"consumer_group_id": NAME, "consumer_id": NAME, "topic_name": NAME}


ROUTES: Final = (
    Route(
        method="GET",
        path=_PATH,
        handler=list_consumer_groups,
        operation_id="listKafkaConsumerGroups",
        summary="List consumer groups.",
        tag=TAG,
        responses={200: list_response("ConsumerGroupDataList", "KafkaConsumerGroupList", _GROUP)},
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=get_consumer_group,
        operation_id="getKafkaConsumerGroup",
        summary="A consumer group.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: Response(description="The group.", schema=_GROUP)},
    ),
    Route(
        method="GET",
        path=f"{_ONE}/consumers",
        handler=list_consumers,
        operation_id="listKafkaConsumers",
        summary="List the members of a group.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: list_response("ConsumerDataList", "KafkaConsumerList", _CONSUMER)},
    ),
    Route(
        method="GET",
        path=_MEMBER,
        handler=get_consumer,
        operation_id="getKafkaConsumer",
        summary="A member of a group.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: Response(description="The member.", schema=_CONSUMER)},
    ),
    Route(
        method="GET",
        path=f"{_MEMBER}/assignments",
        handler=list_assignments,
        operation_id="listKafkaConsumerAssignment",
        summary="List the partitions that a member reads.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={
            200: list_response("ConsumerAssignmentDataList", "KafkaConsumerAssignmentList", _ASSIGNMENT)
        },
    ),
    Route(
        method="GET",
        path=f"{_MEMBER}/assignments{_PLACE}",
        handler=get_assignment,
        operation_id="getKafkaConsumerAssignment",
        summary="A partition that a member reads.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: Response(description="The assignment.", schema=_ASSIGNMENT)},
    ),
    Route(
        method="GET",
        path=f"{_ONE}/lag-summary",
        handler=get_lag_summary,
        operation_id="getKafkaConsumerGroupLagSummary",
        summary="The lag of a group: the sum, and the partition with the largest.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: Response(description="The largest lag and the sum.", schema=_LAG_SUMMARY)},
    ),
    Route(
        method="GET",
        path=f"{_ONE}/lags",
        handler=list_lags,
        operation_id="listKafkaConsumerLags",
        summary="The lag of a group, by partition.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: list_response("ConsumerLagDataList", "KafkaConsumerLagList", _LAG)},
    ),
    Route(
        method="GET",
        path=f"{_ONE}/lags{_PLACE}",
        handler=get_lag,
        operation_id="getKafkaConsumerLag",
        summary="The lag of a group in a partition.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: Response(description="The lag.", schema=_LAG)},
    ),
)
