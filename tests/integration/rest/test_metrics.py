"""The metrics of three nodes for Prometheus: they match what happened, and sums add up."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.samples import Sample

from ottla.node.embedded import Cluster
from ottla.node.metrics.family import COARSE_BOUNDS_S
from tests.compat.wire_client import WireClient
from tests.integration.rest.conftest import Api, eventually, name_of
from tests.share_polls import poll

pytestmark = pytest.mark.slow

RECORDS = 60
# Names and labels that Kafka or others have chosen, and about which promtool complains.
KNOWN_LINTS = re.compile(
    r"(kafka_consumergroup_\w+|kminion_\w+) .*_sum\" suffix"
    r"|kafka_\w+ .*_count\" suffix"
    r"|kafka_(log|server)_\w+ label names should be written in 'snake_case'"
    r"|kafka_server_brokermetadatametrics_last_applied_record_lag_ms .*abbreviated units"
)


def scrape(api: Api) -> dict[str, float]:
    """Return the metrics as NAME{label=value,...} -> value."""
    reply = api.ask("GET", "/metrics")
    assert reply.status == 200, reply.content[:500]
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        f"{one.name}{{{','.join(f'{k}={v}' for k, v in sorted(one.labels.items()))}}}": one.value
        for family in read_text(reply.content.decode())
        for one in family.samples
    }


def added(apis: list[Api], name: str) -> float:
    """Return the sum over all nodes, as a dashboard does."""
    return sum(scrape(api).get(name, 0.0) for api in apis)


@pytest.fixture(scope="module")
def busy(rest_cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Create a topic with records, and a group that has read some of them."""
    topic, group = name_of("orders"), name_of("readers")
    settings = {"bootstrap.servers": rest_cluster.bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 3, 3)])[topic].result()
    producer = Producer(settings)
    for number in range(RECORDS):
        producer.produce(topic, b"x" * 50, partition=number % 3)
    assert producer.flush(30) == 0
    # Otherwise the consumer would commit its position after five seconds.
    reading = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**settings, **reading})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(3)])
    read = 0
    while read < RECORDS:
        read += len(consumer.consume(RECORDS, 1.0))
    consumer.commit(offsets=[TopicPartition(topic, 0, 20), TopicPartition(topic, 1, 15)], asynchronous=False)
    yield {"topic": topic, "group": group}
    consumer.close()


def test_written_and_read_records_are_counted_once(apis: list[Api], busy: dict[str, Any]) -> None:
    def of(meter: str) -> float:
        return added(apis, f"kafka_server_brokertopicmetrics_{meter}_total{{topic={busy['topic']}}}")

    assert eventually(lambda: of("messagesin") == RECORDS)
    assert of("bytesin") > RECORDS * 50
    assert of("bytesout") >= of("bytesin"), "all records are read"
    assert of("totalproducerequests") >= 3 and of("totalfetchrequests") >= 3
    assert of("failedproducerequests") == of("failedfetchrequests") == 0
    assert added(apis, "kafka_server_brokertopicmetrics_replicationbytesout_total{}") >= 2 * of("bytesin")


def test_requests_are_counted_by_api_and_version(apis: list[Api], busy: dict[str, Any]) -> None:
    read = [scrape(api) for api in apis]

    def total(prefix: str) -> float:
        return sum(value for one in read for name, value in one.items() if name.startswith(prefix))

    assert total("kafka_network_requestmetrics_requests_total{request=Produce,") >= 3
    assert total("kafka_network_requestmetrics_requests_total{request=FetchFollower,") >= 3
    assert total("kafka_network_requestmetrics_totaltimems_count{request=Produce}") >= 3
    # Quantiles cover the last minutes, in which this request may not have been sent: use one that is
    # sent all the time.
    assert total("kafka_network_requestmetrics_totaltimems{quantile=0.99,request=FetchFollower}") > 0


def test_each_partition_is_reported_by_its_leader_only(apis: list[Api], busy: dict[str, Any]) -> None:
    for index in range(3):
        name = f"{{partition={index},topic={busy['topic']}}}"

        assert added(apis, f"kafka_topic_partition_current_offset{name}") == RECORDS / 3
        assert added(apis, f"kafka_topic_partition_in_sync_replica{name}") == 3
        assert added(apis, f"kafka_cluster_partition_underreplicated{name}") == 0
        # As with Apache Kafka, each replica has metrics of its own log.
        assert eventually(lambda name=name: added(apis, f"kafka_log_log_logendoffset{name}") == RECORDS)  # type: ignore[misc]
    assert added(apis, f"kafka_topic_partitions{{topic={busy['topic']}}}") == 3
    assert added(apis, "kafka_brokers{}") == 3


def test_a_group_is_reported_by_its_coordinator_only(apis: list[Api], busy: dict[str, Any]) -> None:
    group, topic = busy["group"], busy["topic"]
    of_topic = f"{{consumergroup={group},topic={topic}}}"

    assert added(apis, f"kafka_consumergroup_current_offset_sum{of_topic}") == 35
    # The coordinator asks the leaders for the ends of their logs after the commit.
    assert eventually(lambda: added(apis, f"kafka_consumergroup_lag_sum{of_topic}") == 5)
    for partition, lag in ((0, 0), (1, 5)):
        place = f"{{consumergroup={group},partition={partition},topic={topic}}}"
        assert added(apis, f"kafka_consumergroup_lag{place}") == lag
        assert (added(apis, f"kafka_consumergroup_lag_seconds{place}") > 0) == (lag > 0)
    assert added(apis, f"kminion_kafka_consumer_group_topic_lag{{group_id={group},topic_name={topic}}}") == 5
    assert [f"kafka_consumergroup_members{{consumergroup={group}}}" in scrape(api) for api in apis].count(
        True
    ) == 1


def test_one_node_is_the_controller_and_all_know_it(apis: list[Api], rest_cluster: Cluster) -> None:
    assert added(apis, "kafka_controller_kafkacontroller_activecontrollercount{}") == 1
    assert added(apis, "kafka_controller_kafkacontroller_activebrokercount{}") == 3
    for node_id, api in enumerate(apis):
        read = scrape(api)
        state = "leader" if node_id == rest_cluster.controller_id else "follower"

        assert read["kafka_server_raftmetrics_current_leader{}"] == rest_cluster.controller_id
        assert read[f"kafka_server_raftmetrics_current_state{{current_state={state}}}"] == 1
        assert read["ottla_metadata_sync_duration_seconds_count{}"] > 0


def test_the_node_has_metrics_of_its_process(api: Api) -> None:
    read = scrape(api)

    assert read["ottla_node_serving{}"] == read["ottla_event_loop_responsive{}"] == 1
    assert read["process_resident_memory_bytes{}"] > 1_000_000 and read["process_open_fds{}"] > 3
    assert read["ottla_receive_buffer_bytes{}"] > 0
    assert (
        read["kafka_server_socket_server_metrics_connection_count{listener=PLAINTEXT,networkProcessor=0}"] > 0
    )
    assert eventually(lambda: scrape(api)["ottla_event_loop_lag_seconds_count{}"] > 0)
    assert 0 <= read["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{}"] <= 1
    assert read["kafka_log_logmanager_offlinelogdirectorycount{}"] == 0


def test_openmetrics_is_served_on_request(api: Api, busy: dict[str, Any]) -> None:
    reply = api.ask("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert reply.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert reply.content.endswith(b"# EOF\n") and reply.content.count(b"# EOF") == 1
    families = {family.name for family in read_openmetrics(reply.content.decode())}
    assert "kafka_server_brokertopicmetrics_messagesin" in families


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_complains_about_names_of_others_only(api: Api, busy: dict[str, Any]) -> None:
    text = api.ask("GET", "/metrics").content

    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60, check=False
    )

    messages = (done.stdout + done.stderr).decode().splitlines()
    assert [line for line in messages if not KNOWN_LINTS.search(line)] == []


def test_an_idle_node_has_fewer_than_a_thousand_samples_and_the_rest_on_request() -> None:
    def read(path: str) -> tuple[set[str], list[Sample]]:
        families = list(read_text(idle.ask("GET", path).content.decode()))
        return {one.name for one in families}, [sample for one in families for sample in one.samples]

    def buckets_of(samples: list[Sample]) -> set[str]:
        return {one.labels["le"] for one in samples if one.name == "ottla_request_duration_seconds_bucket"}

    # Kafka's defaults; embedded clusters have fewer partitions.
    internal = {
        "offsets.topic.num.partitions": "50",
        "transaction.state.log.num.partitions": "50",
        "share.coordinator.state.topic.num.partitions": "50",
    }
    with Cluster(1, rest=True, overrides=internal) as cluster:
        idle = Api(cluster.rest_urls[0], cluster.cluster_id)
        settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("t", 3, 1)])["t"].result()
        producer = Producer({**settings, "transactional.id": "writer"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"x")
        producer.commit_transaction()
        consumer = Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        assert eventually(lambda: (one := consumer.poll(1.0)) and not one.error())
        consumer.commit(asynchronous=False)
        consumer.close()
        worker = ShareConsumer({**settings, "group.id": "workers"})
        worker.subscribe(["t"])
        count = "kafka_server_replicamanager_partitioncount"

        def has_all_internal_topics() -> bool:
            poll(worker)
            return [one.value for one in read("/metrics?all=true")[1] if one.name == count] == [153]

        assert eventually(has_all_internal_topics)
        worker.close()

        names, samples = read("/metrics")
        all_names, all_samples = read("/metrics?all=true")

        assert len(samples) < 1_000
        assert names == all_names, "every family is there, with fewer samples"
        by_partition = {one.labels["topic"] for one in samples if one.labels.keys() >= {"topic", "partition"}}
        assert by_partition == {"t"}
        assert len(all_samples) > len(samples) + 150 * 15
        assert buckets_of(samples) < buckets_of(all_samples)
        assert len(buckets_of(samples)) == len(COARSE_BOUNDS_S) + 1
        assert [one.value for one in samples if one.name == count] == [153], "internal topics are in totals"
        config = {"name": "ottla.metrics.all", "value": "true"}
        idle.post(f"{idle.v3}/broker-configs:alter", {"data": [config]}, 204)
        assert eventually(lambda: len(read("/metrics")[1]) > len(samples) + 150 * 15)


def test_rates_begin_with_the_second_reading(apis: list[Api], busy: dict[str, Any]) -> None:
    assert apis[0].get("/v1/rates")["node_id"] == 0

    rates = eventually(lambda: (one := apis[0].get("/v1/rates"))["window_seconds"] and one)

    assert rates["messages_in_per_second"] >= 0 and rates["bytes_out_per_second"] >= 0
    fetches = next(one for one in rates["requests"] if one["api"] == "FetchFollower")
    assert fetches["requests_per_second"] >= 0 and fetches.keys() >= {"p50_ms", "p99_ms"}


def test_any_node_returns_the_rates_of_all(apis: list[Api], busy: dict[str, Any]) -> None:
    def compared() -> dict[str, Any] | None:
        found: dict[str, Any] = apis[1].get("/v1/cluster/rates")
        return found if all(one["window_seconds"] for one in found["nodes"]) else None

    rates = eventually(compared, "each is compared with itself")

    assert [one["node_id"] for one in rates["nodes"]] == [0, 1, 2] and rates["silent"] == []
    for name in ("messages_in_per_second", "replication_bytes_out_per_second"):
        assert rates["cluster"][name] == pytest.approx(sum(one[name] for one in rates["nodes"]))
    fetches = next(one for one in rates["cluster"]["requests"] if one["api"] == "FetchFollower")
    assert fetches["requests_per_second"] > 0 and fetches.keys() >= {"p50_ms", "p99_ms"}


def test_a_dead_node_shows_as_under_replicated() -> None:
    settings = {"replica.lag.time.max.ms": "1000", "min.insync.replicas": "2"}
    with Cluster(nodes=3, rest=True, overrides=settings) as cluster:
        apis = [Api(url, cluster.cluster_id) for url in cluster.rest_urls]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", 4, 3)])["t"].result()
        manager = "kafka_server_replicamanager"
        assert eventually(lambda: added(apis, f"{manager}_partitioncount{{}}") == 12)
        assert added(apis, f"{manager}_underreplicatedpartitions{{}}") == 0

        cluster.kill(2)

        left = apis[:2]
        assert eventually(lambda: added(left, f"{manager}_underreplicatedpartitions{{}}") == 4)
        assert eventually(lambda: added(left, "kafka_controller_kafkacontroller_fencedbrokercount{}") == 1)
        assert added(left, f"{manager}_atminisrpartitioncount{{}}") == 4
        assert added(left, f"{manager}_leadercount{{}}") == 4
        assert added(left, "kafka_controller_kafkacontroller_offlinepartitionscount{}") == 0
        assert added(left, "kafka_brokers{}") == 2


def test_metrics_that_clients_push_are_scraped_from_their_node(
    rest_cluster: Cluster, apis: list[Api]
) -> None:
    name, other = name_of("shop"), name_of("other")

    def subscribe(operation: int) -> None:
        settings = {
            "metrics": "org.apache.kafka.producer.",
            "interval.ms": "200",
            "match": f"client_id={name}",
        }
        configs = [
            {"name": key, "config_operation": operation, "value": None if operation else value}
            for key, value in settings.items()
        ]
        resource = {"resource_type": 16, "resource_name": name, "configs": configs}
        with WireClient(rest_cluster.bootstrap.split(",")[0]) as client:
            answer = client.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
        assert answer.responses[0].error_code == 0

    def pushed() -> dict[str, set[str]]:
        """Return the metrics that each type of our clients pushes."""
        found: dict[str, set[str]] = {}
        for api in apis:
            for key in scrape(api):
                match = re.fullmatch(
                    r"(ottla_client_metric_\w+)\{.*client_id=([^,]+),.*metric=([^,}]+).*\}", key
                )
                if match is not None and match[2] in (name, other):
                    found.setdefault(f"{match[2]} {match[1]}", set()).add(match[3])
        return found

    subscribe(0)
    clients = [
        Producer({"bootstrap.servers": rest_cluster.bootstrap, "client.id": one, "log_level": 3})
        for one in (other, name)
    ]
    for client in clients:
        client.produce(name, b"x")

    assert eventually(lambda: len(pushed()) == 2)
    assert pushed().keys() == {f"{name} ottla_client_metric_value", f"{name} ottla_client_metric_total"}
    assert (
        "org.apache.kafka.producer.connection.creation.total" in pushed()[f"{name} ottla_client_metric_total"]
    )
    assert sum(one.flush(30) for one in clients) == 0
    subscribe(1)
