"""A scenario of a rolling upgrade: nodes of a release without transactions and client quotas are replaced."""

import asyncio
import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

import pytest

from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC
from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.record import iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft import feature_control
from ottla.metadata_raft.cluster_features import (
    SECURITY_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)
from ottla.metadata_raft.commands import UpgradeType
from ottla.node.kafka_api.served_apis import served_by
from ottla.node.settings.config import BrokerConfig
from ottla.node.start.world import World
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataRequest,
    OpData,
)
from ottla.node.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.simulation.invariants import replicas_of
from tests.simulation.sim_client import SimClient
from tests.simulation.simulation import Simulation
from tests.simulation.txn_clients import V1, V2, Protocol, TxnClient, read
from tests.simulation.world import VirtualNode

OLDER_FEATURES: Final = {
    name: levels
    for name, levels in SUPPORTED_FEATURES.items()
    if name not in (TRANSACTION_VERSION, SECURITY_VERSION)
}
NOT_SERVED_BEFORE: Final = {
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.ALTER_CLIENT_QUOTAS,
}
T = TypeVar("T")

STATE_PARTITIONS: Final = 2
SETTINGS: Final = {"transaction.state.log.num.partitions": str(STATE_PARTITIONS)}
NEWEST: Final = SUPPORTED_FEATURES[TRANSACTION_VERSION][1]


@contextmanager
def created_by_the_older_release() -> Iterator[None]:
    """Create clusters without these features, as the older release does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_control, "SUPPORTED_FEATURES", OLDER_FEATURES)
        yield


def older_release(config: BrokerConfig, world: World) -> World:
    """Turn a world into that of a node of the older release."""
    served = {api: versions for api, versions in served_by(config).items() if api not in NOT_SERVED_BEFORE}
    return replace(world, supported_features=OLDER_FEATURES, served_apis=served)


async def nodes_are_replaced_one_by_one(simulation: Simulation) -> None:
    """A feature can be upgraded when all nodes support it; then no older node can return."""
    world, first = simulation.world, simulation.partitions[0]

    def run(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return world.spawn(simulation.admin, work)

    early = run(_transaction_with_retries(simulation, "early", first))
    for node in world.nodes:
        assert await run(_raise_level(simulation, 1)) is ErrorCode.INVALID_UPDATE_VERSION
        await asyncio.wait([node.stop()])
        node.release = lambda config, world: world
        node.start()
        await simulation.wait_until_recovered()
    await early

    await run(_transaction(simulation, "of old", first, V1))
    assert _versions(simulation) == {0}
    assert await run(_raise_level(simulation, NEWEST)) is ErrorCode.NONE
    await simulation.wait_until_recovered()
    await run(_transaction(simulation, "of now", first, V2))
    assert _versions(simulation) == {0, 1}
    assert await run(committed(simulation, first)) == [b"early", b"of old", b"of now"]

    await _restart_with_older_release(world.nodes[1])
    world.nodes[1].release = lambda config, world: world
    world.nodes[1].start()
    await simulation.wait_until_recovered()

    assert await run(_set_quota(simulation)) is ErrorCode.UNSUPPORTED_VERSION
    assert await run(_raise_level(simulation, 1, SECURITY_VERSION)) is ErrorCode.NONE
    assert await run(_set_quota(simulation)) is ErrorCode.NONE
    await simulation.wait_until_recovered()
    quotas = [node.broker.quorum_services.image.client_quotas for node in world.nodes if node.broker]
    assert quotas == [{(("user", "alice"),): {"producer_byte_rate": 1.0}}] * len(world.nodes)


async def _restart_with_older_release(node: VirtualNode) -> None:
    await asyncio.wait([node.stop()])
    node.release = older_release
    node.start()
    while not node.exits:
        await asyncio.sleep(0.1)
    assert f"does not support finalized version {NEWEST} of {TRANSACTION_VERSION}" in node.exits[0]


async def _set_quota(simulation: Simulation) -> ErrorCode:
    """Set a quota of a user through any node, and return the answer."""
    entry = EntryDataRequest(
        entity=[EntityData(entity_type="user", entity_name="alice")],
        ops=[OpData(key="producer_byte_rate", value=1.0)],
    )
    client = simulation.admin_client
    while True:
        try:
            answer = await client.ask(
                client.any_endpoint(), AlterClientQuotasRequest(entries=[entry]), AlterClientQuotasResponse
            )
        except KafkaError:
            await asyncio.sleep(0.1)
            continue
        code = ErrorCode(answer.entries[0].error_code)
        if code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
            return code
        await asyncio.sleep(0.1)


async def _raise_level(simulation: Simulation, level: int, feature: str = TRANSACTION_VERSION) -> ErrorCode:
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=UpgradeType.UPGRADE)
    request = UpdateFeaturesRequest(timeout_ms=5_000, feature_updates=[update])
    while True:
        try:
            answer = await simulation.admin_client.ask(
                simulation.admin_client.any_endpoint(), request, UpdateFeaturesResponse
            )
        except KafkaError:
            await asyncio.sleep(0.1)
            continue
        if answer.error_code in (ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION):
            return ErrorCode(answer.error_code)
        await asyncio.sleep(0.1)


def producer_of(simulation: Simulation, name: str, protocol: Protocol) -> TxnClient:
    chance = random.Random(f"{name} {simulation.world.seed}")
    bootstrap = [(node.host.name, 9092) for node in simulation.world.nodes]
    return TxnClient(
        SimClient(bootstrap, chance),
        chance,
        name,
        protocol=protocol,
        timeout_ms=60_000,
        now_ms=simulation.world.nodes[0].clock.now_ms,
        trace=simulation.world.trace,
    )


async def _transaction(
    simulation: Simulation, name: str, partition: TopicPartition, protocol: Protocol
) -> None:
    producer = producer_of(simulation, name, protocol)
    await producer.init()
    if protocol.adds_partitions:
        await producer.add_partitions([partition])
    await producer.produce(partition, [name.encode()])
    await producer.end(committed=True)


async def _transaction_with_retries(simulation: Simulation, name: str, partition: TopicPartition) -> None:
    """Run a transaction, again from the start whenever a node does not serve a request."""
    while True:
        try:
            await _transaction(simulation, name, partition, V1)
            return
        except KafkaError:
            await asyncio.sleep(0.5)


def _versions(simulation: Simulation) -> set[int]:
    """Return the versions of the values in the leaders' logs of transaction states."""
    found: set[int] = set()
    for index in range(STATE_PARTITIONS):
        for _, replica in replicas_of(simulation.world, TopicPartition(TRANSACTIONS_TOPIC, index)):
            if not replica.is_leader:
                continue
            log = replica.log
            if log.log_end_offset == 0:
                continue
            piece = log.read(0, 1 << 30, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice
            content = piece.read()
            for position, header in iterate_headers(content):
                for record in iterate_records(content[position : position + header.size_bytes]):
                    assert record.value is not None
                    found.add(int.from_bytes(record.value[:2], "big"))
    return found


async def committed(simulation: Simulation, partition: TopicPartition) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = 0
    while True:
        try:
            portion = await read(simulation.admin_client, partition, offset, committed=True)
        except KafkaError:
            simulation.admin_client.forget_leader(partition)
            await asyncio.sleep(0.1)
            continue
        values += [record.value for record in portion.records]
        if portion.next_offset >= portion.high_watermark:
            return values
        offset = portion.next_offset
