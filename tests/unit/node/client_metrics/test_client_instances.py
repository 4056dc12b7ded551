"""Clients may request and push by the rules of Kafka's ClientMetricsManager, and are kept within limits."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, uuid_to_text
from ottla.metadata_raft.image import ConfigsImage, MetadataImage
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.client_metrics.client_instances import (
    MAX_INSTANCES,
    MIN_EXPIRY_MS,
    ClientInstance,
    ClientInstances,
)
from ottla.node.client_metrics.otlp_reader import MetricPoint, PointKind
from ottla.node.client_metrics.pushed_series import SeriesPoint, series_points
from ottla.node.work.turns import at_once
from tests.unit.node.metadata.metadata_node import CONNECTION

START_MS = 1_800_000_000_000
INTERVAL_MS = 1_000
OTHER = replace(CONNECTION, number=2, client_host="10.0.0.2")


class World:
    """The clients of one node, with a clock that the test sets."""

    def __init__(self, *, max_series: int = 100, max_bytes: int = 1 << 30) -> None:
        self.now_ms = START_MS
        self.closed: set[int] = set()
        self.generated = 0
        self.instances = ClientInstances(
            max_bytes=max_bytes,
            max_series=lambda: max_series,
            is_open=lambda number: number not in self.closed,
            unique=self._unique,
        )
        self.subscribe(metrics="*")

    def _unique(self, size: int) -> bytes:
        self.generated += 1
        return self.generated.to_bytes(size)

    def subscribe(self, metrics: str = "*", interval_ms: int = INTERVAL_MS) -> None:
        resource = (int(ConfigResourceType.CLIENT_METRICS), "s")
        texts = {"metrics": metrics, "interval.ms": str(interval_ms)}
        image = MetadataImage(configs=ConfigsImage(by_resource={resource: texts}))
        self.instances.subscriptions.update(image, [resource])

    def get(self, instance_id: bytes = ZERO_UUID, connection: Any = CONNECTION) -> ClientInstance:
        return self.instances.get_subscriptions(instance_id, connection, "c", self.now_ms)

    def push(self, instance: ClientInstance, connection: Any = CONNECTION, **changes: Any) -> ErrorCode:
        fields = {
            "subscription_id": instance.wanted.subscription_id,
            "is_terminating": False,
            "compression": 4,
            "size_bytes": 10,
            "max_bytes": 100,
            **changes,
        }
        code = ErrorCode.NONE
        try:
            self.instances.check_push(instance.instance_id, connection, "c", self.now_ms, **fields)
        except KafkaError as error:
            code = error.code
        self.instances.note_result(instance.instance_id, code)
        return code

    def get_code(self, instance: ClientInstance, **options: Any) -> ErrorCode:
        try:
            self.get(instance.instance_id, **options)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def keep(self, instance: ClientInstance, *names: str) -> None:
        at_once(self.instances.keep(instance.instance_id, points(*names), 0))

    def shown(self) -> dict[str, list[str]]:
        found = [one for one in self.instances.read(self.now_ms) if one is not None]
        return {one.client_instance_id: [key.metric for key, _ in one.series] for one in found}


def points(*names: str) -> list[SeriesPoint]:
    return series_points([MetricPoint(name, PointKind.COUNTER, (), 1.0, True) for name in names])


@pytest.fixture
def world() -> World:
    return World()


def test_a_client_without_an_id_gets_one_and_keeps_it(world: World) -> None:
    first, second = world.get(), world.get()

    assert first.instance_id not in (ZERO_UUID, second.instance_id)
    assert first.instance_id[6] >> 4 == 4 and first.instance_id[8] >> 6 == 2, "a UUID of version 4"
    assert len(world.instances) == 2


def test_a_request_or_push_that_comes_too_soon_is_throttled(world: World) -> None:
    instance = world.get()

    assert world.get_code(instance) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    # After a request of its subscription a client may push at any time: it delays the first push randomly.
    assert world.push(instance) is ErrorCode.NONE
    assert world.push(instance) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.now_ms += INTERVAL_MS - 1
    assert world.push(instance) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.get_code(instance) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.now_ms += 1
    assert world.push(instance) is ErrorCode.NONE


def test_a_push_of_a_client_that_made_its_request_at_another_node_is_accepted(world: World) -> None:
    instance = world.get()
    elsewhere = World()

    assert elsewhere.push(instance) is ErrorCode.NONE
    assert len(elsewhere.instances) == 1


def test_the_last_push_of_a_client_is_never_too_soon_and_none_follows_it(world: World) -> None:
    instance = world.get()
    world.now_ms += 1
    world.push(instance)

    assert world.push(instance, is_terminating=True) is ErrorCode.NONE
    world.now_ms += INTERVAL_MS
    assert world.push(instance) is ErrorCode.INVALID_REQUEST


def test_after_an_unknown_subscription_a_client_may_request_at_once(world: World) -> None:
    instance = world.get()

    assert world.push(instance, subscription_id=-1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert world.get_code(instance) is ErrorCode.NONE
    assert world.get_code(instance) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_after_an_unknown_compression_a_client_may_request_at_once(world: World) -> None:
    instance = world.get()

    assert world.push(instance, compression=5) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert world.get_code(instance) is ErrorCode.NONE


def test_a_large_push_is_rejected_before_it_is_decoded(world: World) -> None:
    instance = world.get()

    assert world.push(instance, size_bytes=101) is ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("instance_id", [ZERO_UUID, (1).to_bytes(16)])
def test_a_push_needs_an_id(world: World, instance_id: bytes) -> None:
    instance = replace(world.get(), instance_id=instance_id)

    assert world.push(instance) is ErrorCode.INVALID_REQUEST
    assert len(world.instances) == 1


def test_a_changed_subscription_takes_effect_at_once(world: World) -> None:
    instance = world.get()
    world.keep(instance, "m")

    world.subscribe("other.")
    again = world.get(instance.instance_id)

    assert again.wanted.metrics == ("other.",)
    assert world.push(instance) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert list(world.shown().values()) == [["m"]], "what it pushed before is still shown"


def test_a_client_that_reconnects_may_request_at_once(world: World) -> None:
    instance = world.get()
    world.keep(instance, "m")
    assert world.get_code(instance) is ErrorCode.THROTTLING_QUOTA_EXCEEDED

    world.closed.add(CONNECTION.number)

    assert world.get_code(instance, connection=OTHER) is ErrorCode.NONE
    assert list(world.shown().values()) == [["m"]]
    assert world.instances.series_count == 1


@pytest.mark.parametrize("interval_ms", [100, 3_600_000])
def test_a_silent_client_is_removed_after_three_intervals_and_at_least_a_minute(
    world: World, interval_ms: int
) -> None:
    world.subscribe(interval_ms=interval_ms)
    instance = world.get()
    world.keep(instance, "m")
    world.now_ms += max(MIN_EXPIRY_MS, 3 * interval_ms) - 1
    before = world.shown()
    world.now_ms += 1

    assert len(before) == 1 and world.shown() == {}
    assert (len(world.instances), world.instances.series_count, world.instances.used_bytes) == (0, 0, 0)


def test_beyond_the_limit_the_client_that_was_silent_for_longest_is_removed(world: World) -> None:
    first, second = world.get(), world.get()
    world.keep(first, "m")
    world.keep(second, "m")
    world.now_ms += INTERVAL_MS
    world.get(first.instance_id)
    for _ in range(MAX_INSTANCES - 1):
        world.get()

    assert len(world.instances) == MAX_INSTANCES
    assert list(world.shown()) == [uuid_to_text(first.instance_id)]


def test_an_address_that_invents_clients_displaces_its_own(world: World) -> None:
    honest = world.get(connection=OTHER)
    world.keep(honest, "m")
    for _ in range(MAX_INSTANCES + 10):
        world.get()

    assert len(world.instances) == MAX_INSTANCES
    assert list(world.shown().values()) == [["m"]]


def test_clients_and_series_stay_within_their_memory() -> None:
    world = World(max_series=100_000, max_bytes=50_000)
    for number in range(200):
        world.keep(world.get(), *(f"metric-{number}-{each}" for each in range(20)))
        assert world.instances.used_bytes <= 50_000
    assert world.instances.counts.left_out["no room"] > 0
    assert len(world.instances) > 10, "series leave room for clients"


@pytest.mark.parametrize(("max_series", "max_bytes"), [(10, 1 << 30), (100_000, 8_000)])
def test_one_address_has_at_most_half_of_the_room_for_series(max_series: int, max_bytes: int) -> None:
    world = World(max_series=max_series, max_bytes=max_bytes)
    near, far = world.get(), world.get(connection=OTHER)

    world.keep(near, *(f"near{number:02d}" for number in range(20)))
    world.keep(far, *(f"away{number:02d}" for number in range(20)))

    first, second = map(len, world.shown().values())
    assert first == second < 20
    assert world.instances.counts.left_out["no room"] == 40 - first - second


def test_a_client_that_moves_to_another_address_takes_its_series_along(world: World) -> None:
    instance = world.get()
    world.keep(instance, "a", "b")
    world.closed.add(CONNECTION.number)
    world.get(instance.instance_id, connection=OTHER)
    world.keep(instance, "a", "b", "c")

    assert world.instances.series_count == 3


def test_points_of_a_client_that_was_removed_meanwhile_are_dropped(world: World) -> None:
    instance = world.get()
    keeping = world.instances.keep(instance.instance_id, points(*map(str, range(50))), 0)
    next(keeping)
    next(keeping)
    assert world.instances.series_count > 0
    world.now_ms += MIN_EXPIRY_MS
    world.shown()

    at_once(keeping)

    assert (world.instances.series_count, world.instances.used_bytes) == (0, 0)


def test_pushes_are_counted_by_their_result(world: World) -> None:
    instance = world.get()
    for changes in ({"subscription_id": -1}, {}, {"compression": 9}, {"is_terminating": True}):
        world.push(instance, **changes)

    counts = {name: count for name, count in world.instances.counts.pushes.items() if count}
    assert counts == {"unknown subscription": 1, "accepted": 1, "throttled": 2}
