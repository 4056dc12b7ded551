"""Groups as resources: the parts that Confluent's consumer groups and share groups have in common."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.group_admin import GroupMemberView, GroupView, describe_group
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.resource import Data, collection_schema, related, resource_name, url
from ottla.node.rest_api.rest_error import not_found
from ottla.node.rest_api.route import Response, RestContext, RestRequest


class GroupScope(NamedTuple):
    """The base of a group's links and resource names."""

    kind: "GroupKind"
    base_url: str
    cluster_id: str
    group_id: str

    def url(self, *segments: str | int) -> str:
        return self._of_cluster(self.kind.segment, self.group_id, *segments)

    def name(self, **names: str | int) -> str:
        return resource_name(kafka=self.cluster_id, **{self.kind.name: self.group_id}, **names)

    def partition(self, one: TopicPartition) -> Data:
        return related(self._of_cluster("topics", one.topic, "partitions", one.partition))

    def coordinator(self, broker_id: int) -> Data:
        """Return the field that links to the coordinator, or no field if the coordinator is unknown."""
        return {"coordinator": related(self._of_cluster("brokers", broker_id))} if broker_id >= 0 else {}

    @property
    def ids(self) -> Data:
        return {"cluster_id": self.cluster_id, self.kind.id_name: self.group_id}

    def _of_cluster(self, *segments: str | int) -> str:
        return url(self.base_url, "clusters", self.cluster_id, *segments)


class GroupKind(NamedTuple):
    """A kind of group, with the words of its paths, names and errors."""

    segment: str  # of their links
    name: str  # in their resource names
    id_name: str  # of the parameter in their path, and of the field in their members
    title: str  # in errors
    other: str  # ends the error for a group of another kind
    includes: Callable[[GroupView], bool]

    def scope(self, context: RestContext, request: RestRequest, group_id: str | None = None) -> GroupScope:
        """Return the scope of a group, by default of the one that the path names."""
        return GroupScope(self, request.base_url, context.cluster_id, group_id or request.path[self.id_name])

    async def group(self, context: RestContext, request: RestRequest) -> GroupView:
        """Return the group that the path names; RestError 404 if there is none of this kind."""
        group_id = request.path[self.id_name]
        try:
            group = await describe_group(context.client, group_id)
        except KafkaError as error:
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID):
                raise
            raise not_found(f"{self.title} {group_id[:100]} could not be found.") from None
        if not self.includes(group):
            raise not_found(f"{self.title} {group_id[:100]} could not be found: {self.other}")
        return group

    async def member(self, context: RestContext, request: RestRequest) -> GroupMemberView:
        """Return the member that the path names; RestError 404 if the group has no member with that id."""
        group = await self.group(context, request)
        wanted = request.path["consumer_id"]
        found = next((member for member in group.members if member.member_id == wanted), None)
        if found is None:
            raise not_found(f"Consumer {wanted[:100]} could not be found in this group.")
        return found


async def coordinator_id_of(context: RestContext, group_id: str) -> int:
    """Return the id of the broker that coordinates a group."""
    coordinator = await context.client.retry(lambda: context.client.coordinator(group_id))
    return await context.client.node_id_of(coordinator)


def list_response(title: str, kind: str, schema: Schema) -> Response:
    """Return the response of a route that lists all resources of a kind."""
    return Response(description="All of them.", schema=collection_schema(title, kind, schema))
