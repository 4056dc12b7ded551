"""aiokafka, unmodified, as a client of a node."""

import asyncio
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

WAIT_S = 60
RECORDS = 200


async def create(admin: AIOKafkaAdminClient, partitions: int = 3) -> str:
    name = f"aiokafka-{uuid4().hex[:8]}"
    await admin.create_topics([NewTopic(name=name, num_partitions=partitions, replication_factor=1)])
    return name


@pytest.mark.slow
@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_records_with_keys_and_headers_come_back(
    bootstrap: str, compression: str | None, idempotent: bool
) -> None:
    async def run() -> list[tuple[bytes | None, bytes | None, object]]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        topic = await create(admin)
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=compression,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        await producer.start()
        sent = [
            await producer.send(
                topic, b"value-%d" % number, key=b"%d" % number, headers=[("n", b"%d" % number)]
            )
            for number in range(RECORDS)
        ]
        for one in sent:
            await one
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=f"group-{uuid4().hex[:8]}",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        found = []
        while len(found) < RECORDS:
            for messages in (await consumer.getmany(timeout_ms=500)).values():
                found += [(message.key, message.value, message.headers) for message in messages]
        await consumer.commit()
        await consumer.stop()
        await admin.delete_topics([topic])
        await admin.close()
        return found

    found = asyncio.run(asyncio.wait_for(run(), WAIT_S))

    expected = [(b"%d" % n, b"value-%d" % n, (("n", b"%d" % n),)) for n in range(RECORDS)]
    assert sorted(found) == sorted(expected)


@pytest.mark.slow
def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str) -> None:
    async def run() -> tuple[int, int, int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        topic = await create(admin, 1)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        for stamp in (1_000, 2_000, 3_000):
            await producer.send_and_wait(topic, b"x", partition=0, timestamp_ms=stamp)
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        partition = TopicPartition(topic, 0)
        by_time = (await consumer.offsets_for_times({partition: 1_500}))[partition]
        ends = await consumer.end_offsets([partition])
        begins = await consumer.beginning_offsets([partition])
        await consumer.stop()
        await admin.delete_topics([topic])
        await admin.close()
        return by_time.offset, ends[partition], begins[partition]

    assert asyncio.run(asyncio.wait_for(run(), WAIT_S)) == (1, 3, 0)


def test_the_admin_client_creates_alters_describes_and_lists(bootstrap: str) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        topic = await create(admin, 1)
        await admin.create_partitions({topic: NewPartitions(3)})
        described = await admin.describe_topics([topic])
        while len(described[0]["partitions"]) < 3:
            described = await admin.describe_topics([topic])
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "99999"})
        await admin.alter_configs([resource])
        configs: dict[str, str] = {}
        while configs.get("retention.ms") != "99999":
            found = (await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))[0]
            configs = {entry[0]: entry[1] for entry in found.resources[0][4]}
        assert "cleanup.policy" in configs
        assert topic in await admin.list_topics()
        await admin.list_consumer_groups()
        await admin.delete_topics([topic])
        await admin.close()

    asyncio.run(asyncio.wait_for(run(), WAIT_S))
