"""The last hour of three nodes: their samples add up, from any node, with the rights of the caller."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually

pytestmark = pytest.mark.slow

TOPIC, GROUP = "orders", "readers"
RECORD_BYTES = 1000


@pytest.fixture(scope="module")
def watched() -> Iterator[Cluster]:
    """Start three nodes that take a sample each second."""
    with Cluster(3, rest=True, overrides={"ottla.history.interval.ms": "1000"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(TIMEOUT_S)
        yield cluster


@pytest.fixture(scope="module")
def nodes(watched: Cluster) -> list[Api]:
    return [Api(url, watched.cluster_id) for url in watched.rest_urls]


def produce(cluster: Cluster, count: int, partitions: int = 3) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(TOPIC, b"x" * RECORD_BYTES, partition=number % partitions)
    assert producer.flush(TIMEOUT_S) == 0


def total(history: dict[str, Any], series: str) -> float:
    """Return the sum of a rate over all samples."""
    return sum(one or 0 for one in history["series"][series]) * history["interval_ms"] / 1000


def test_produced_records_are_in_the_history_of_the_topic_and_of_the_cluster(
    watched: Cluster, nodes: list[Api]
) -> None:
    topic, cluster = f"/v1/topics/{TOPIC}/history", "/v1/cluster/history"
    eventually(lambda: len(nodes[0].get(topic)["times_ms"]) >= 2, "the nodes take samples")
    before = total(nodes[0].get(topic), "messages_in_per_second")

    produce(watched, 60)

    def all_is_seen() -> dict[str, Any] | None:
        history: dict[str, Any] = nodes[0].get(topic)
        return history if total(history, "messages_in_per_second") > before + 55 else None

    found = eventually(all_is_seen, "60 records are in the samples")
    assert found["silent"] == [] and found["interval_ms"] == 1000
    assert total(found, "messages_in_per_second") == pytest.approx(before + 60, rel=0.1)
    assert total(found, "bytes_in_per_second") > 55 * RECORD_BYTES
    assert found["series"]["size_bytes"][-1] > 60 * RECORD_BYTES
    times = found["times_ms"]
    assert times == list(range(times[0], times[-1] + 1, 1000))
    assert abs(found["now_ms"] - time.time() * 1000) < 5_000 and 0 <= found["now_ms"] - times[-1] < 3_000
    assert {len(values) for values in found["series"].values()} == {len(times)}

    whole = [api.get(cluster) for api in nodes]
    for one in whole:
        assert one["silent"] == [] and total(one, "messages_in_per_second") >= 55
        assert any(one["series"]["produce_p99_ms"]) and any(one["series"]["fetch_p50_ms"])
    parts = [nodes[0].get(f"/v1/brokers/{node_id}/history") for node_id in watched.node_ids]
    assert all(total(one, "bytes_in_per_second") > 0 for one in parts)
    assert sum(total(one, "bytes_in_per_second") for one in parts) >= 55 * RECORD_BYTES
    assert sum(one["series"]["size_bytes"][-1] for one in parts) >= 3 * 60 * RECORD_BYTES


def test_the_lag_of_groups_is_in_their_history(watched: Cluster, nodes: list[Api]) -> None:
    consumer = Consumer({"bootstrap.servers": watched.bootstrap, "group.id": GROUP, "log_level": 0})
    produce(watched, 9)
    ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, one))[1] for one in range(3)]

    def lags(group: str) -> list[float]:
        samples = nodes[2].get(f"/v1/groups/{group}/history")["series"]["lag"]
        return [one for one in samples if one is not None]

    for behind in (5, 2):
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, ends[0] - behind)], asynchronous=False)
        eventually(lambda behind=behind: lags(GROUP)[-1:] == [behind], "the lag is sampled")  # type: ignore[misc]
    consumer.close()

    assert set(lags(GROUP)) == {5, 2}


def test_a_share_group_has_a_history_too(watched: Cluster, nodes: list[Api]) -> None:
    group = "workers"
    change = {"data": [{"name": "share.auto.offset.reset", "value": "earliest"}]}
    nodes[0].post(f"{nodes[0].v3}/groups/{group}/configs:alter", change, 204)
    produce(watched, 6)
    settings = {"bootstrap.servers": watched.bootstrap, "group.id": group, "log_level": 0}
    worker = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"})
    worker.subscribe([TOPIC])

    def lag() -> float | None:
        for record in worker.poll(0.5):
            worker.acknowledge(record, AcknowledgeType.RELEASE)
        history = nodes[0].ask("GET", f"/v1/groups/{group}/history").json
        return next((one for one in history.get("series", {}).get("lag", ()) if one), None)

    assert eventually(lag, "the lag is sampled") > 0
    worker.close()


def test_a_restarted_node_starts_a_new_history() -> None:
    with Cluster(2, rest=True, overrides={"ottla.history.interval.ms": "1000"}) as cluster:
        api = Api(cluster.rest_urls[0], cluster.cluster_id)

        def times_ms() -> list[int]:
            found: list[int] = api.get("/v1/brokers/1/history")["times_ms"]
            return found

        eventually(lambda: len(times_ms()) > 2, "the node takes samples")
        before_ms = times_ms()

        cluster.restart(1)

        after_ms = eventually(times_ms, "the node has restarted, and takes samples")
        assert after_ms[0] > before_ms[0], "the samples of the earlier run are gone"


def test_unknown_resources_are_404(nodes: list[Api]) -> None:
    for path in ("/v1/topics/absent/history", "/v1/groups/absent/history", "/v1/brokers/99/history"):
        assert nodes[0].ask("GET", path).status == 404, path


def test_the_memory_of_a_history_is_part_of_the_budget_with_a_metric(nodes: list[Api]) -> None:
    lines = nodes[0].ask("GET", "/metrics").content.decode().splitlines()
    metrics = {line.split()[0]: float(line.split()[1]) for line in lines if 'part="history"' in line}

    used, most = (
        metrics['ottla_memory_bytes{part="history"}'],
        metrics['ottla_memory_limit_bytes{part="history"}'],
    )
    assert 60_000 < used <= most <= 8 << 20
