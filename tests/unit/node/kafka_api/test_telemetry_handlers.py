"""Subscriptions to client metrics, pushes of clients, and the responses of a node (KIP-714)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.logstore.compression import Compression, compress
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.client_metrics.client_instances import ClientInstances
from ottla.node.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.node.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.node.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.node.wire.messages.push_telemetry import PushTelemetryRequest
from ottla.node.work.fair_pool import FairPool
from tests.otlp import gauge, metrics_data, point, total
from tests.unit.node.metadata.metadata_node import MetadataNode

METRICS = int(ConfigResourceType.CLIENT_METRICS)
SET, DELETE = 0, 1
MAX_BYTES = 4_000
PUSHED = metrics_data(gauge("queue", point(1.5)), total("sent", point(3, attributes={"topic": "t"})))


class TelemetryNode(MetadataNode):
    """A node that applies subscriptions."""

    def __init__(self) -> None:
        super().__init__({"telemetry.max.bytes": str(MAX_BYTES)})
        self.batch_pool = FairPool("batches", threads=1, max_cpu_s=10.0)
        self.client_metrics = ClientInstances(
            max_bytes=1 << 20, max_series=lambda: 100, is_open=lambda _: True, unique=self.unique
        )
        self.metadata.add_listener(
            lambda image, changes: self.client_metrics.subscriptions.update(image, changes.configs)
        )

    async def alter(self, name: str, **settings: str | None) -> int:
        configs = [
            AlterableConfig(
                name=key.replace("_", "."), config_operation=DELETE if text is None else SET, value=text
            )
            for key, text in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=METRICS, resource_name=name, configs=configs)
        answer = await self.ask(1, IncrementalAlterConfigsRequest(resources=[resource]))
        code: int = answer.responses[0].error_code
        return code

    async def names(self, version: int) -> list[str]:
        types = [METRICS] if version else []
        answer = await self.ask(version, ListConfigResourcesRequest(resource_types=types))
        return [one.resource_name for one in answer.config_resources]

    async def push(self, subscription: Any, metrics: bytes, **changes: Any) -> int:
        fields = {
            "client_instance_id": subscription.client_instance_id,
            "subscription_id": subscription.subscription_id,
            **changes,
        }
        answer = await self.ask(0, PushTelemetryRequest(metrics=metrics, **fields))
        code: int = answer.error_code
        return code

    def shown(self) -> dict[str, Any]:
        found = [one for one in self.client_metrics.read(self.clock.now_ms()) if one is not None]
        return {key.metric: value for one in found for key, value in one.series}


def run(scenario: Callable[[TelemetryNode], Awaitable[None]]) -> None:
    async def scene() -> None:
        node = TelemetryNode()
        await node.start()
        await scenario(node)
        node.batch_pool.close()

    asyncio.run(scene())


def test_a_subscription_is_made_listed_described_and_removed() -> None:
    async def scenario(node: TelemetryNode) -> None:
        assert await node.alter("all", metrics="*", interval_ms="1000") == ErrorCode.NONE
        assert await node.alter("bad", interval_ms="1") == ErrorCode.INVALID_REQUEST
        assert (await node.names(0), await node.names(1)) == (["all"], ["all"])

        resource = DescribeConfigsResource(resource_type=METRICS, resource_name="all")
        described = await node.ask(4, DescribeConfigsRequest(resources=[resource], include_synonyms=True))
        found = {
            one.name: (one.value, one.config_source, one.config_type, len(one.synonyms))
            for one in described.results[0].configs
        }
        assert found == {"metrics": ("*", 7, 7, 1), "interval.ms": ("1000", 7, 3, 1), "match": ("", 5, 7, 0)}

        assert await node.alter("all", metrics=None, interval_ms=None) == ErrorCode.NONE
        assert await node.names(0) == []

    run(scenario)


def test_a_client_gets_the_metrics_of_its_subscription() -> None:
    async def scenario(node: TelemetryNode) -> None:
        await node.alter("s", metrics="a.,b.", interval_ms="1000", match="client_id=cl.*")

        answer = await node.ask(0, GetTelemetrySubscriptionsRequest())
        again = await node.ask(
            0, GetTelemetrySubscriptionsRequest(client_instance_id=answer.client_instance_id)
        )

        assert answer.error_code == ErrorCode.NONE and answer.client_instance_id != ZERO_UUID
        assert list(answer.requested_metrics) == ["a.", "b."] and answer.push_interval_ms == 1000
        assert list(answer.accepted_compression_types) == [4, 3, 1, 2]
        assert answer.telemetry_max_bytes == MAX_BYTES and answer.delta_temporality
        assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert again.client_instance_id == ZERO_UUID

    run(scenario)


@pytest.mark.parametrize("compression", Compression)
def test_pushed_metrics_are_shown(compression: Compression) -> None:
    async def scenario(node: TelemetryNode) -> None:
        subscription = await node.ask(0, GetTelemetrySubscriptionsRequest())

        code = await node.push(subscription, compress(compression, PUSHED), compression_type=int(compression))

        assert code == ErrorCode.NONE
        assert node.shown() == {"queue": 1.5, "sent": 3.0}

    run(scenario)


@pytest.mark.parametrize(
    ("metrics", "changes", "code"),
    [
        (b"", {}, ErrorCode.NONE),
        (b"x" * (MAX_BYTES + 1), {}, ErrorCode.TELEMETRY_TOO_LARGE),
        (
            compress(Compression.ZSTD, bytes(MAX_BYTES + 1)),
            {"compression_type": 4},
            ErrorCode.TELEMETRY_TOO_LARGE,
        ),
        (b"no zstd", {"compression_type": 4}, ErrorCode.INVALID_RECORD),
        (b"no protobuf", {}, ErrorCode.INVALID_RECORD),
        (PUSHED, {"compression_type": 7}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (PUSHED, {"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        (PUSHED, {"client_instance_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_push_that_is_refused_leaves_nothing(
    metrics: bytes, changes: dict[str, Any], code: ErrorCode
) -> None:
    async def scenario(node: TelemetryNode) -> None:
        subscription = await node.ask(0, GetTelemetrySubscriptionsRequest())

        assert await node.push(subscription, metrics, **changes) == code
        assert node.shown() == {}
        assert sum(node.client_metrics.counts.pushes.values()) == 1

    run(scenario)


def test_deltas_of_several_pushes_are_added_up() -> None:
    async def scenario(node: TelemetryNode) -> None:
        await node.alter("s", metrics="*", interval_ms="100")
        subscription = await node.ask(0, GetTelemetrySubscriptionsRequest())
        for _ in range(3):
            assert await node.push(subscription, PUSHED) == ErrorCode.NONE
            node.clock.advance(100)

        assert node.shown() == {"queue": 1.5, "sent": 9.0}

    run(scenario)
