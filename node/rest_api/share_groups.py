"""Share groups in Confluent's REST API: groups, their consumers, and the partitions assigned to each.

A partition may be assigned to several consumers of a share group, which share its records.
"""

from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import group_admin
from ottla.node.client.group_admin import GroupMemberView, GroupView
from ottla.node.client.share_group_admin import SHARE, share_starts
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
from ottla.node.rest_api.route import (
    INT32,
    NAME,
    STRING,
    Answer,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Share Group (v3)"
_TOPIC_PARTITION: Final = resource_schema(
    "ShareGroupTopicPartitionData",
    "KafkaShareGroupTopicPartition",
    {"topic_name": STRING, "partition_id": INT32, "partition": RELATED},
)
_GROUP: Final = resource_schema(
    "ShareGroupData",
    "KafkaShareGroup",
    {
        "cluster_id": STRING,
        "share_group_id": STRING,
        "state": STRING,
        "coordinator": RELATED,
        "consumers": RELATED,
        "consumer_count": INT32,
        "partition_count": INT32,
        "assigned_topic_partitions": {"type": "array", "items": _TOPIC_PARTITION},
    },
    optional=["coordinator", "assigned_topic_partitions"],
)
_IDS: Final = {"cluster_id": STRING, "group_id": STRING, "consumer_id": STRING}
_CONSUMER: Final = resource_schema(
    "ShareGroupConsumerData",
    "KafkaShareGroupConsumer",
    {**_IDS, "client_id": STRING, "assignments": RELATED},
)
_ASSIGNMENT: Final = resource_schema(
    "ShareGroupConsumerAssignmentData",
    "KafkaShareGroupConsumerAssignment",
    {**_IDS, "topic_name": STRING, "partition_id": INT32, "partition": RELATED},
)


_KIND: Final = GroupKind(
    segment="share-groups",
    name="share_group",
    id_name="group_id",
    title="Share Group",
    other="it is a group of another type.",
    includes=lambda group: group.group_type == SHARE,
)


# ---- groups --------------------------------------------------------------------------------------


async def list_share_groups(context: RestContext, request: RestRequest) -> Answer:
    answers = await group_admin.list_groups(context.client, states=[], types=[SHARE])
    for error in answers.problems.values():
        raise error  # Confluent's list has no field for a part that is missing
    coordinators = {one.group_id: one.coordinator_id for one in answers.groups}
    groups = await group_admin.describe_groups(context.client, answers.groups)
    data = [
        _group_data(_KIND.scope(context, request, one.group_id), one, coordinators.get(one.group_id, -1))
        for one in groups
        if one.group_type == SHARE
    ]
    here = url(request.base_url, "clusters", context.cluster_id, "share-groups")
    return Answer(body=collection("KafkaShareGroupList", here, data))


async def get_share_group(context: RestContext, request: RestRequest) -> Answer:
    group = await _KIND.group(context, request)
    coordinator_id = await coordinator_id_of(context, group.group_id)
    scope = _KIND.scope(context, request)
    known = sorted({*_assigned(group), *await share_starts(context.client, group.group_id)})
    body = _group_data(scope, group, coordinator_id)
    body["assigned_topic_partitions"] = [_partition_data(scope, one) for one in known]
    return Answer(body=body)


async def delete_share_group(context: RestContext, request: RestRequest) -> Answer:
    group = await _KIND.group(context, request)
    await group_admin.delete_group(context.client, group.group_id)
    return Answer(status=204)


def _assigned(group: GroupView) -> set[TopicPartition]:
    """Return the distinct partitions that are assigned to any consumer."""
    return {one for member in group.members for one in member.partitions or ()}


def _group_data(scope: GroupScope, group: GroupView, coordinator_id: int) -> Data:
    return resource(
        "KafkaShareGroup",
        scope.url(),
        scope.name(),
        cluster_id=scope.cluster_id,
        share_group_id=scope.group_id,
        state=group.state.upper(),
        consumers=related(scope.url("consumers")),
        consumer_count=len(group.members),
        partition_count=len(_assigned(group)),
        **scope.coordinator(coordinator_id),
    )


def _partition_data(scope: GroupScope, one: TopicPartition) -> Data:
    place = scope.partition(one)
    return resource(
        "KafkaShareGroupTopicPartition",
        place["related"],
        scope.name(topic=one.topic, partition=one.partition),
        topic_name=one.topic,
        partition_id=one.partition,
        partition=place,
    )


# ---- consumers -----------------------------------------------------------------------------------


async def list_share_consumers(context: RestContext, request: RestRequest) -> Answer:
    group = await _KIND.group(context, request)
    scope = _KIND.scope(context, request)
    data = [_consumer_data(scope, member) for member in group.members]
    return Answer(body=collection("KafkaShareGroupConsumerList", scope.url("consumers"), data))


async def get_share_consumer(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_consumer_data(_KIND.scope(context, request), await _KIND.member(context, request)))


async def list_share_assignments(context: RestContext, request: RestRequest) -> Answer:
    member = await _KIND.member(context, request)
    scope = _KIND.scope(context, request)
    data = [_assignment_data(scope, member, one) for one in sorted(member.partitions or ())]
    here = scope.url("consumers", member.member_id, "assignments")
    return Answer(body=collection("KafkaShareGroupConsumerAssignmentList", here, data))


def _consumer_data(scope: GroupScope, member: GroupMemberView) -> Data:
    here = scope.url("consumers", member.member_id)
    return resource(
        "KafkaShareGroupConsumer",
        here,
        scope.name(consumer=member.member_id),
        **scope.ids,
        consumer_id=member.member_id,
        client_id=member.client_id,
        assignments=related(f"{here}/assignments"),
    )


def _assignment_data(scope: GroupScope, member: GroupMemberView, one: TopicPartition) -> Data:
    return resource(
        "KafkaShareGroupConsumerAssignment",
        scope.url("consumers", member.member_id, "assignments"),
        scope.name(consumer=member.member_id, assignment=one.topic, partition=one.partition),
        **scope.ids,
        consumer_id=member.member_id,
        topic_name=one.topic,
        partition_id=one.partition,
        partition=scope.partition(one),
    )


# ---- the table -----------------------------------------------------------------------------------

_PATH: Final = "/v3/clusters/{cluster_id}/share-groups"
_ONE: Final = _PATH + "/{group_id}"
_MEMBER: Final = _ONE + "/consumers/{consumer_id}"
_NAMES: Final = {"group_id": NAME, "consumer_id": NAME}


ROUTES: Final = (
    Route(
        method="GET",
        path=_PATH,
        handler=list_share_groups,
        operation_id="listKafkaShareGroups",
        summary="List share groups.",
        tag=TAG,
        responses={200: list_response("ShareGroupDataList", "KafkaShareGroupList", _GROUP)},
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=get_share_group,
        operation_id="getKafkaShareGroup",
        summary="A share group, with all partitions that it reads or has read.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: Response(description="The group.", schema=_GROUP)},
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete_share_group,
        operation_id="deleteKafkaShareGroup",
        summary="Delete a share group that has no consumers, with its start offsets.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={204: Response(description="The group was deleted.")},
    ),
    Route(
        method="GET",
        path=f"{_ONE}/consumers",
        handler=list_share_consumers,
        operation_id="listKafkaShareGroupConsumers",
        summary="List the consumers of a share group.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={
            200: list_response("ShareGroupConsumerDataList", "KafkaShareGroupConsumerList", _CONSUMER)
        },
    ),
    Route(
        method="GET",
        path=_MEMBER,
        handler=get_share_consumer,
        operation_id="getKafkaShareGroupConsumer",
        summary="A consumer of a share group.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={200: Response(description="The consumer.", schema=_CONSUMER)},
    ),
    Route(
        method="GET",
        path=f"{_MEMBER}/assignments",
        handler=list_share_assignments,
        operation_id="listKafkaShareGroupConsumerAssignments",
        summary="List the partitions that a consumer of a share group is assigned.",
        tag=TAG,
        path_parameters=_NAMES,
        responses={
            200: list_response(
                "ShareGroupConsumerAssignmentDataList",
                "KafkaShareGroupConsumerAssignmentList",
                _ASSIGNMENT,
            )
        },
    ),
)
