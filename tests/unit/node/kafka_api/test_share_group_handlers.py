"""The handlers of share groups: rights on topics, the feature that enables them, start offsets and lags."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    ReadStateSummary,
    SharePartitionKey,
    StateResult,
    StateSummary,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import decode, encode
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.acl_set import AclDecision, DefaultRule
from ottla.metadata_raft.cluster_features import GROUP_VERSION, SHARE_VERSION
from ottla.node.authorization.access import ANONYMOUS, Access
from ottla.node.coordinators.group_lag import GroupOffset, PartitionLag
from ottla.node.kafka_api import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
    share_group_heartbeat,
)
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.share.window_view import RangeView, WindowView
from ottla.node.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.node.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.node.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.node.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.node.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.node.coordinators.group_node import GroupNode, play
from tests.unit.node.fakes import Lag
from tests.unit.node.handler_results import settled
from tests.unit.node.kafka_api.test_group_handlers import CONNECTION

SEEN, HIDDEN = b"s" * 16, b"h" * 16
END = 100  # the log end offset of every partition


class Persister:
    """Share coordinators that answer at once."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, StateSummary] = {}

    async def initialize(self, requests: Sequence[InitializeState], /) -> list[StateResult]:
        for one in requests:
            self.states[one.key] = StateSummary(
                one.key, start_offset=one.start_offset, leader_epoch=4, delivery_complete_count=2
            )
        return [StateResult(one.key) for one in requests]

    async def delete(self, requests: Sequence[DeleteState], /) -> list[StateResult]:
        return [StateResult(one.key) for one in requests]

    async def read_summary(self, requests: Sequence[ReadStateSummary], /) -> list[StateSummary]:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [self.states.get(one.key, StateSummary(one.key, unknown)) for one in requests]


class HidingAuthorizer:
    """Allows everything except the topic `hidden`."""

    def decide(self, access: Access, operation: AclOperation, kind: ResourceType, name: str) -> AclDecision:
        is_hidden = kind is ResourceType.TOPIC and name == "hidden"
        return AclDecision(not is_hidden, DefaultRule.NO_AUTHORIZER)

    def is_allowed_somewhere(self, access: Access, operation: AclOperation, kind: ResourceType) -> bool:
        return True

    def log_decision(self, *_: object) -> None:
        """Ignore the denial."""

    def authorized_operations(self, *_: object) -> int:
        return 0


async def call(
    node: GroupNode, api: ModuleType, version: int, request: Any, *, sees_all: bool = False
) -> Any:
    """Return the response as a client of that version would read it."""
    request = decode(type(request), version, encode(request, version))
    access = Access(ANONYMOUS, "127.0.0.1", None if sees_all else HidingAuthorizer())
    context = RequestContext(0, version, 1, "app", replace(CONNECTION, access=access))
    answer = await settled(api.handle(node.services, context, request))
    return decode(type(answer), version, encode(answer, version))


def serving(scenario: Callable[[GroupNode], Coroutine[Any, Any, None]], *, share_version: int = 1) -> None:
    """Play a scenario on a node with the topics `seen` and `hidden` of two partitions."""
    node = GroupNode(persister=Persister())
    node.image = replace(node.image, features={GROUP_VERSION: 1, SHARE_VERSION: share_version})

    async def measure(places: Iterable[GroupOffset]) -> dict[GroupOffset, PartitionLag]:
        return {one: PartitionLag(END, None, None) for one in places if one.partition.partition == 0}

    async def prepared(node: GroupNode) -> None:
        node.group_lag = Lag(measure)
        await node.groups.coordinator_of("g")
        node.add_topic("seen", SEEN)
        node.add_topic("hidden", HIDDEN)
        node.groups.change_topics(node.topics_now())
        await scenario(node)

    play(prepared, node)


def heartbeat(*names: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=names
    )


def alter(starts: dict[str, int], group_id: str = "g") -> AlterShareGroupOffsetsRequest:
    return AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=one, start_offset=start)
                    for one in (0, 1)
                ],
            )
            for name, start in starts.items()
        ],
    )


def describe(*names: str) -> DescribeShareGroupOffsetsRequest:
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, 1]) for name in names]
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=topics or None)
    return DescribeShareGroupOffsetsRequest(groups=[group])


def test_a_client_that_may_not_see_a_topic_cannot_subscribe_to_it_or_describe_its_members() -> None:
    async def scenario(node: GroupNode) -> None:
        with pytest.raises(KafkaError) as refused:
            await call(node, share_group_heartbeat, 1, heartbeat("seen", "hidden"))
        joined = await call(node, share_group_heartbeat, 1, heartbeat("seen", "hidden"), sees_all=True)
        node.clock.advance(1_000)
        again = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=joined.member_epoch)
        assigned = await call(node, share_group_heartbeat, 1, again, sees_all=True)
        request = ShareGroupDescribeRequest(group_ids=["g", ""], include_authorized_operations=True)
        hidden, unnamed = (await call(node, share_group_describe, 1, request)).groups
        shown, _ = (await call(node, share_group_describe, 1, request, sees_all=True)).groups

        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert {one.topic_id for one in assigned.assignment.topic_partitions} == {SEEN, HIDDEN}
        assert (hidden.error_code, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
        assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID
        assert (shown.group_state, shown.assignor_name, len(shown.members)) == ("Stable", "simple", 1)

    serving(scenario)


def test_a_share_group_that_a_request_repeats_is_described_once() -> None:
    async def scenario(node: GroupNode) -> None:
        await call(node, alter_share_group_offsets, 0, alter({"seen": 10}))
        ids = ["g", "none"] * 1_000
        every = [DescribeShareGroupOffsetsRequestGroup(group_id=one, topics=None) for one in ids]

        members = await call(node, share_group_describe, 1, ShareGroupDescribeRequest(group_ids=ids))
        offsets = await call(
            node, describe_share_group_offsets, 1, DescribeShareGroupOffsetsRequest(groups=every)
        )

        for answer in (members, offsets):
            assert [one.group_id for one in answer.groups] == ["g", "none"]

    serving(scenario)


def test_offsets_of_hidden_topics_are_neither_altered_nor_returned_nor_deleted() -> None:
    async def scenario(node: GroupNode) -> None:
        altered = await call(node, alter_share_group_offsets, 0, alter({"seen": 10, "hidden": 20, "gone": 1}))
        await call(node, alter_share_group_offsets, 0, alter({"hidden": 20}), sees_all=True)
        group = (await call(node, describe_share_group_offsets, 1, describe())).groups[0]
        of_three = describe("seen", "hidden", "gone")
        named = (await call(node, describe_share_group_offsets, 1, of_three)).groups[0]
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=one) for one in ("seen", "hidden")]
        request = DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
        deleted = await call(node, delete_share_group_offsets, 0, request)

        codes = {one.topic_name: {each.error_code for each in one.partitions} for one in altered.responses}
        denied, unknown = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == {"seen": {0}, "hidden": {denied}, "gone": {unknown}}
        assert [one.topic_name for one in group.topics] == ["seen"]
        assert {one.topic_name: one.partitions[0].error_code for one in named.topics} == {
            "seen": 0,
            "hidden": denied,
            "gone": 0,
        }
        assert {one.topic_name: one.error_code for one in deleted.responses} == {"seen": 0, "hidden": denied}

    serving(scenario)


def test_a_start_offset_is_returned_with_its_lag_if_the_end_is_known() -> None:
    async def scenario(node: GroupNode) -> None:
        await call(node, alter_share_group_offsets, 0, alter({"seen": 10}))
        (topic,) = (await call(node, describe_share_group_offsets, 1, describe("seen"))).groups[0].topics
        found = await call(node, describe_share_group_offsets, 1, describe("hidden"), sees_all=True)
        (hidden,) = found.groups[0].topics

        first, second = topic.partitions
        assert (first.start_offset, first.leader_epoch, first.lag) == (10, 4, END - 10 - 2)
        assert second.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert [(one.start_offset, one.error_code, one.lag) for one in hidden.partitions] == [(-1, 0, -1)] * 2

    serving(scenario)


def test_records_in_flight_are_returned_on_request_to_clients_that_may_see_the_topic() -> None:
    view = WindowView(10, 14, 3, 2, 0, 0, 0, 0, 5, 1_000, None, [RangeView(10, 12, 4, 1, "m", 500)], [])
    requested: list[SharePartitionKey] = []

    class Views:
        async def begin(self, keys: Iterable[SharePartitionKey]) -> dict[SharePartitionKey, WindowView]:
            requested.extend(keys)
            return {one: view for one in requested if one.partition == 0}

    async def scenario(node: GroupNode) -> None:
        await call(node, alter_share_group_offsets, 0, alter({"seen": 10, "hidden": 10}), sees_all=True)
        node.share_views = Views()
        (topic,) = (await call(node, describe_share_group_offsets, 1, describe())).groups[0].topics
        requested_at_first = list(requested)
        wanted = DescribeShareGroupOffsetsRequest(groups=describe().groups, include_in_flight=True)
        (described,) = (await call(node, describe_share_group_offsets, 1, wanted)).groups[0].topics

        assert requested_at_first == [] and [one.in_flight for one in topic.partitions] == [None, None]
        assert {one.topic_id for one in requested} == {SEEN}
        first, second = described.partitions
        assert second.in_flight is None
        assert (first.start_offset, first.in_flight.acquired, first.in_flight.stalled_ms) == (10, 3, 1_000)
        (most,) = first.in_flight.most_delivered
        assert (most.first_offset, most.last_offset, most.member_id) == (10, 12, "m")

    serving(scenario)


def test_a_group_without_a_name_is_refused() -> None:
    async def scenario(node: GroupNode) -> None:
        request = DeleteShareGroupOffsetsRequest(group_id="", topics=[])

        altered = await call(node, alter_share_group_offsets, 0, alter({}, group_id=""))
        deleted = await call(node, delete_share_group_offsets, 0, request)

        assert altered.error_code == deleted.error_code == ErrorCode.INVALID_GROUP_ID

    serving(scenario)


def test_nothing_is_served_before_the_feature_is_finalized() -> None:
    async def scenario(node: GroupNode) -> None:
        answers = [
            await call(node, share_group_heartbeat, 1, heartbeat("seen")),
            await call(node, alter_share_group_offsets, 0, alter({})),
            await call(
                node, delete_share_group_offsets, 0, DeleteShareGroupOffsetsRequest(group_id="g", topics=[])
            ),
            *(await call(node, describe_share_group_offsets, 1, describe())).groups,
            *(await call(node, share_group_describe, 1, ShareGroupDescribeRequest(group_ids=["g"]))).groups,
        ]

        assert {one.error_code for one in answers} == {ErrorCode.UNSUPPORTED_VERSION}

    serving(scenario, share_version=0)
