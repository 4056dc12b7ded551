"""The time of a request counts for request_percentage, and its response has the throttle time."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema_compiler import encoder
from ottla.node.authorization.access import AccessDenied
from ottla.node.kafka_api import charged_results, request_charge
from ottla.node.kafka_api.dispatch import Dispatcher
from ottla.node.net.answers import Answer, BuiltInThread, Delayed, EncodedBody, Pending
from ottla.node.quota.client_quotas import REQUEST_PERCENTAGE, ClientQuotas
from ottla.node.quota.rate import Windows
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersionsRequest
from ottla.node.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.node.fakes import connection_of
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.kafka_api.test_byte_quotas import Throttled
from tests.unit.node.replica.replica_world import CONNECTION, OTHER_ID, ReplicaWorld

# The first request counts over ten seconds, of which 1 ms is 0.01 % of a thread.
TINY = 0.001


@pytest.fixture
def dispatcher() -> Dispatcher:
    world = ReplicaWorld()
    world.supported_features = {}  # type: ignore[attr-defined]
    made = dispatcher_of(world, large_requests=world.large_requests)
    made.quotas = ClientQuotas(Windows(), Windows(), lambda: 5_000)
    return made


def limit(dispatcher: Dispatcher, percent: float) -> None:
    dispatcher.quotas.set({(("client-id", "test"),): {REQUEST_PERCENTAGE: percent}})


def frame(key: int, version: int, request: object) -> memoryview:
    return memoryview(bytearray(b"".join(codec.encode_request(key, version, 7, "test", request))[4:]))


async def finished(answer: Answer | Pending) -> Answer:
    while isinstance(answer, Pending):
        answer = answer.encode(await answer.awaitable)
    return answer


def serve(dispatcher: Dispatcher, connection: Throttled, key: int, version: int, request: object) -> Any:
    async def ask() -> Answer:
        return await finished(dispatcher.serve(cast(Any, connection), frame(key, version, request)))

    sent = asyncio.run(ask())
    return codec.decode_response(key, version, b"".join(cast(Any, sent)), 4)[1]


def spend() -> None:
    until = time.thread_time() + 0.01
    while time.thread_time() < until:
        pass


def at_once(response: ListGroupsResponse) -> Any:
    spend()
    return response


def in_a_thread(response: ListGroupsResponse) -> Any:
    return BuiltInThread(partial(at_once, response))


def encoded(response: ListGroupsResponse) -> Any:
    spend()
    return EncodedBody(codec_body(response))


def codec_body(response: ListGroupsResponse) -> list[Any]:
    return encoder(ListGroupsResponse, 4)(response, bytearray())


async def awaited(response: ListGroupsResponse) -> Any:
    await asyncio.sleep(0)
    return at_once(response)


def delayed(response: ListGroupsResponse) -> Any:
    future = asyncio.get_running_loop().create_future()
    future.set_result(response)
    return Delayed(future, at_once)


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("way", [at_once, in_a_thread, encoded, awaited, delayed])
def test_the_time_of_every_kind_of_result_counts_and_its_response_has_the_throttle_time(
    dispatcher: Dispatcher, way: Callable[[ListGroupsResponse], Any], is_large: bool
) -> None:
    limit(dispatcher, TINY)
    connection = Throttled()
    route = dispatcher.load_route(ApiKey.LIST_GROUPS, 4)
    response = ListGroupsResponse(error_code=15)
    dispatcher.routes[ApiKey.LIST_GROUPS, 4] = route._replace(
        handle=lambda *_: way(response), small_bytes=0 if is_large else route.small_bytes
    )

    received = serve(dispatcher, connection, ApiKey.LIST_GROUPS, 4, ListGroupsRequest())

    assert received.error_code == 15
    # At most one window, as in Apache Kafka.
    assert connection.throttled == [received.throttle_time_ms] == [1_000]
    assert dispatcher.quotas.requests.readings(1)[0].value * 10 >= 1.0, "10 ms are 1 % of a second"


@pytest.mark.parametrize("version", range(6))
def test_a_cached_response_to_api_versions_has_the_throttle_time(
    dispatcher: Dispatcher, version: int
) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    free = serve(dispatcher, Throttled(), ApiKey.API_VERSIONS, version, request)
    limit(dispatcher, 1e-6)
    connection = Throttled()

    response = serve(dispatcher, connection, ApiKey.API_VERSIONS, version, request)
    again = serve(dispatcher, Throttled(), ApiKey.API_VERSIONS, version, request)

    assert response.api_keys == again.api_keys == free.api_keys
    assert response.throttle_time_ms == (1_000 if version else 0)
    assert connection.throttled == [1_000]


def test_a_client_within_its_quota_waits_for_nothing(dispatcher: Dispatcher) -> None:
    limit(dispatcher, 100_000.0)
    connection = Throttled()

    response = serve(dispatcher, connection, ApiKey.API_VERSIONS, 2, ApiVersionsRequest())

    assert response.throttle_time_ms == 0 and connection.throttled == []
    assert dispatcher.quotas.requests.readings(1)[0].value > 0


async def fails_later() -> None:
    await asyncio.sleep(0)
    spend()
    raise ValueError("a bug")


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_request_that_fails_counts_too(dispatcher: Dispatcher, is_awaited: bool, is_large: bool) -> None:
    def fails(*_: Any) -> Any:
        if is_awaited:
            return fails_later()
        spend()
        raise ValueError("a bug")

    limit(dispatcher, TINY)
    connection = Throttled()
    route = dispatcher.load_route(ApiKey.LIST_GROUPS, 4)
    dispatcher.routes[ApiKey.LIST_GROUPS, 4] = route._replace(
        handle=fails, small_bytes=0 if is_large else route.small_bytes
    )

    with pytest.raises(ValueError, match="a bug"):
        serve(dispatcher, connection, ApiKey.LIST_GROUPS, 4, ListGroupsRequest())

    assert connection.throttled == [1_000]


def test_a_rejection_has_the_throttle_time_too(dispatcher: Dispatcher) -> None:
    def denies(*_: Any) -> Any:
        spend()
        raise AccessDenied(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    limit(dispatcher, TINY)
    connection = Throttled()
    route = dispatcher.load_route(ApiKey.LIST_GROUPS, 4)
    dispatcher.routes[ApiKey.LIST_GROUPS, 4] = route._replace(handle=denies)

    response = serve(dispatcher, connection, ApiKey.LIST_GROUPS, 4, ListGroupsRequest())

    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert connection.throttled == [response.throttle_time_ms] == [1_000]


@pytest.mark.parametrize("is_known", [True, False], ids=["text too long", "client id too long"])
def test_a_request_with_a_field_that_is_too_long_counts_too(dispatcher: Dispatcher, is_known: bool) -> None:
    """A client with a client id that is too long has the quota of clients without one."""
    dispatcher.quotas.set({(("user", None),): {REQUEST_PERCENTAGE: 1e-6}})
    connection = Throttled()
    client_id = "test" if is_known else "x" * 2_000
    request = ListGroupsRequest(states_filter=["s" * 30_000 if is_known else "Stable"])
    sent = b"".join(codec.encode_request(ApiKey.LIST_GROUPS, 4, 7, client_id, request))[4:]

    async def ask() -> Answer:
        return await finished(dispatcher.serve(cast(Any, connection), memoryview(bytearray(sent))))

    asyncio.run(ask())

    assert connection.throttled == [1_000]


def test_nodes_of_the_cluster_are_exempt(dispatcher: Dispatcher) -> None:
    limit(dispatcher, 1e-6)
    node = connection_of(replace(CONNECTION, peer_id=OTHER_ID))

    response = serve(dispatcher, cast(Any, node), ApiKey.API_VERSIONS, 2, ApiVersionsRequest())

    assert response.throttle_time_ms == 0 and dispatcher.quotas.requests.readings(1) == []


def test_requests_that_only_nodes_send_in_apache_kafka_are_exempt() -> None:
    quotas = ClientQuotas(Windows(), Windows(), lambda: 5_000)
    quotas.set({(("client-id", "test"),): {REQUEST_PERCENTAGE: 1e-6}})
    charge = request_charge.RequestCharge(quotas, cast(Any, Throttled()), ApiKey.WRITE_TXN_MARKERS, "test")

    charge.run(spend)

    assert charge.decide() == 0 and quotas.exempt_percentage() > 0


def test_requests_without_a_response_are_exempt() -> None:
    quotas = ClientQuotas(Windows(), Windows(), lambda: 5_000)
    quotas.set({(("client-id", "test"),): {REQUEST_PERCENTAGE: 1e-6}})
    charge = request_charge.RequestCharge(quotas, cast(Any, Throttled()), ApiKey.PRODUCE, "test")
    charge.run(spend)

    assert charged_results.charged(None, charge, cast(Any, None)) is None

    assert quotas.exempt_percentage() > 0 and quotas.requests.readings(1) == []
