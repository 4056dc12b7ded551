"""The APIs of the share coordinator, and the keys of share-partitions in FindCoordinator."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from typing import Any, Final

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.node.authorization.access import Access
from ottla.node.kafka_api import find_coordinator
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.compat.wire_client import build, message_class
from tests.unit.groupcoord.share_state.share_state_world import KEY, key_of, topic_id
from tests.unit.node.coordinators.share_state_node import ShareStateNode, play
from tests.unit.node.handler_results import settled
from tests.unit.node.metadata.metadata_node import CONNECTION

STATE_APIS: Final = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
)
NEWEST: Final = {api: (1 if api in (STATE_APIS[2], STATE_APIS[4]) else 0) for api in STATE_APIS}


def topic(number: int = 1, *partitions: Mapping[str, Any]) -> dict[str, Any]:
    return {"topic_id": topic_id(number), "partitions": list(partitions)}


async def ask(node: ShareStateNode, api: ApiKey, topics: list[dict[str, Any]], group_id: str = "g") -> Any:
    """Return the response as it is sent over the wire."""
    request = build(message_class(api.name.lower(), "Request"), {"group_id": group_id, "topics": topics})
    context = RequestContext(api, NEWEST[api], 1, "node", CONNECTION)
    module = import_module(f"ottla.node.kafka_api.{api.name.lower()}")
    answer = await settled(module.handle(node.services, context, request))
    frame = b"".join(codec.encode_response(api, NEWEST[api], 1, answer))
    return codec.decode_response(api, NEWEST[api], memoryview(frame)[4:])[1]


Scenario = Callable[[ShareStateNode], Coroutine[Any, Any, None]]


def codes_of(answer: Any) -> list[tuple[bytes, int, int]]:
    return [
        (result.topic_id, one.partition, one.error_code)
        for result in answer.results
        for one in result.partitions
    ]


def test_a_state_is_initialized_written_read_and_deleted() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.coordinators.coordinator_of(KEY.coordinator_key)
        begun = await ask(
            node,
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            [
                topic(1, *({"partition": index, "state_epoch": 2, "start_offset": 5} for index in (0, 1, 2))),
                topic(9, {"partition": 0, "state_epoch": 0, "start_offset": 0}),
            ],
        )
        batch = {"first_offset": 5, "last_offset": 8, "delivery_state": 2, "delivery_count": 3}
        numbers = {"state_epoch": 2, "leader_epoch": 0, "start_offset": -1, "delivery_complete_count": 4}
        written = await ask(
            node,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            [topic(1, {"partition": 0, **numbers, "state_batches": [batch]})],
        )
        read = await ask(node, ApiKey.READ_SHARE_GROUP_STATE, [topic(1, {"partition": 0, "leader_epoch": 1})])
        summary = await ask(
            node, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, [topic(1, {"partition": 0, "leader_epoch": -1})]
        )
        gone = await ask(
            node, ApiKey.DELETE_SHARE_GROUP_STATE, [topic(1, {"partition": 0}, {"partition": 0})]
        )

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes_of(begun) == [
            (topic_id(1), 0, 0),
            (topic_id(1), 1, 0),
            (topic_id(1), 2, unknown),
            (topic_id(9), 0, unknown),
        ]
        assert codes_of(written) == codes_of(read) == codes_of(gone) == [(topic_id(1), 0, 0)]
        [found] = read.results[0].partitions
        assert (found.state_epoch, found.start_offset, found.error_message) == (2, 5, None)
        [each] = found.state_batches
        assert {name: getattr(each, name) for name in batch} == batch
        [found] = summary.results[0].partitions
        assert (found.state_epoch, found.leader_epoch, found.start_offset) == (2, 1, 5)
        assert found.delivery_complete_count == 4
        assert begun.results[0].partitions[2].error_message == (
            "This server does not host this topic-partition."
        )

    play(scenario)


@pytest.mark.parametrize("api", STATE_APIS, ids=lambda api: api.api_name)
def test_an_empty_request_gets_an_empty_response(api: ApiKey) -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.coordinators.coordinator_of(KEY.coordinator_key)

        assert not (await ask(node, api, [])).results
        assert not (await ask(node, api, [topic()])).results
        assert not (await ask(node, api, [topic(1, partition_of(api))], group_id="")).results

    play(scenario)


def partition_of(api: ApiKey) -> dict[str, Any]:
    fields: dict[ApiKey, dict[str, Any]] = {
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: {"state_epoch": 0, "start_offset": 0},
        ApiKey.READ_SHARE_GROUP_STATE: {"leader_epoch": 0},
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: {"leader_epoch": 0},
        ApiKey.WRITE_SHARE_GROUP_STATE: {
            "state_epoch": 0,
            "leader_epoch": 0,
            "start_offset": 0,
            "state_batches": [],
        },
    }
    return {"partition": 0, **fields.get(api, {})}


def test_many_partitions_take_turns_and_are_all_answered() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.coordinators.coordinator_of(KEY.coordinator_key)
        partitions = [{"partition": index, "state_epoch": 0, "start_offset": 0} for index in range(500)]

        begun = await ask(node, ApiKey.INITIALIZE_SHARE_GROUP_STATE, [topic(1, *partitions)])

        codes = [code for _, _, code in codes_of(begun)]
        assert codes == [0, 0, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 498]

    play(scenario)


def test_a_node_that_coordinates_nothing_answers_not_coordinator() -> None:
    async def scenario(node: ShareStateNode) -> None:
        read = await ask(node, ApiKey.READ_SHARE_GROUP_STATE, [topic(1, {"partition": 0, "leader_epoch": 0})])

        [found] = read.results[0].partitions
        assert found.error_code == ErrorCode.NOT_COORDINATOR
        assert found.error_message.startswith("Unable to read share group state: ")

    play(scenario)


# ---- FindCoordinator ---------------------------------------------------------------------------------------


class NoRights(Access):
    """A client without rights on the cluster."""

    def __init__(self) -> None: ...

    def allows_of_cluster(self, *_: object, **__: object) -> bool:
        return False


def find(keys: list[str], version: int = 6, access: Access | None = None) -> list[tuple[int, int, str, int]]:
    found: list[tuple[int, int, str, int]] = []

    async def scenario(node: ShareStateNode) -> None:
        context = RequestContext(ApiKey.FIND_COORDINATOR, version, 1, "node", CONNECTION, _access=access)
        request = FindCoordinatorRequest(key_type=find_coordinator.SHARE_KEY, coordinator_keys=keys)
        answer: Any = find_coordinator.handle(node.services, context, request)
        for one in (await answer).coordinators:
            found.append((one.error_code, one.node_id, one.host, one.port))

    play(scenario)
    return found


def test_the_coordinator_of_a_share_partition_is_found_and_its_topic_created() -> None:
    assert find([KEY.coordinator_key, key_of(partition=1).coordinator_key]) == [(0, 1, "here", 9092)] * 2


def test_invalid_keys_are_rejected() -> None:
    assert find(["g", "", f"g:{'A' * 22}:x"]) == [(ErrorCode.INVALID_REQUEST, -1, "", -1)] * 3


def test_keys_of_share_partitions_are_rejected_before_version_6() -> None:
    assert find([KEY.coordinator_key], 5) == [(ErrorCode.INVALID_REQUEST, -1, "", -1)]


def test_a_client_without_cluster_action_finds_no_share_coordinator() -> None:
    refused = find([KEY.coordinator_key], access=NoRights())

    assert refused == [(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1, "", -1)]


def test_concurrent_requests_create_the_topic_once() -> None:
    async def scenario(node: ShareStateNode) -> None:
        context = RequestContext(ApiKey.FIND_COORDINATOR, 6, 1, "node", CONNECTION)
        request = FindCoordinatorRequest(
            key_type=find_coordinator.SHARE_KEY, coordinator_keys=[KEY.coordinator_key]
        )
        await asyncio.gather(
            *(find_coordinator.handle(node.services, context, request) for _ in range(10))  # type: ignore[misc]
        )

        assert node.created == 1

    play(scenario)
