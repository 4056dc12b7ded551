"""Families have the names, types and labels that dashboards use, and both formats can be parsed."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from ottla.logstore.words.latency import BOUNDS_S, LatencyHistogram
from ottla.metadata_raft.image import (
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from ottla.node.counters.election_counters import ElectionCounters
from ottla.node.counters.node_counts import latencies_of
from ottla.node.counters.request_counters import AllRequestCounters
from ottla.node.counters.topic_counters import TopicCounters, without_topics
from ottla.node.metrics.cluster_families import (
    controller_families,
    count_cluster,
    exporter_families,
    kminion_families,
)
from ottla.node.metrics.exposition import (
    ALWAYS_BYTES,
    ALWAYS_BYTES_OF_FAMILY,
    LINES_AT_ONCE,
    Room,
    Written,
    asks_for_openmetrics,
    cut_family,
    exposition,
    write,
)
from ottla.node.metrics.family import (
    COARSE_BOUNDS_S,
    NO_LABELS,
    Family,
    gauge,
    histogram,
    labels,
    summary_ms,
    with_fewer_buckets,
)
from ottla.node.metrics.group_families import consumer_group_families, kminion_group_families
from ottla.node.metrics.node_families import ProcessFamilies
from ottla.node.metrics.pace import Pace
from ottla.node.metrics.read_groups import shown_one_by_one
from ottla.node.metrics.readings import CommittedReading, GroupReading, LogDirReading, PartitionReading
from ottla.node.metrics.replica_families import log_dir_families, partition_families
from ottla.node.metrics.request_families import request_families, topic_families

MAX_BYTES = 4 << 20


def lines_of(families: Iterable[Family]) -> list[Written]:
    return [Written(family, "".join(family.lines).encode()) for family in families]


def samples(made: Iterable[Family]) -> dict[str, float]:
    """Return what Prometheus reads, as NAME{labels} -> value, and check that both formats give it."""
    written = lines_of(made)
    read, also_read = (
        {
            f"{one.name}{{{','.join(f'{k}={v}' for k, v in sorted(one.labels.items()))}}}": one.value
            for family in parse(exposition(written, is_openmetrics=is_openmetrics).content.decode())
            for one in family.samples
        }
        for parse, is_openmetrics in ((read_text, False), (read_openmetrics, True))
    )
    assert read == also_read
    return read


def partition(index: int = 0, *, is_leader: bool = True, **fields: int) -> PartitionReading:
    usual = PartitionReading(
        "t", index, is_leader, 1, 3, 3, True, False, False, False, False, 2, 9, 8, 7, 100, 1, 0
    )
    return usual._replace(**fields)


def test_a_log_directory_shows_the_logs_that_cannot_be_cleaned() -> None:
    """The gauges have the names of Kafka's LogCleanerManager, with a sample for each directory."""
    directories = [
        LogDirReading(path="/a", is_online=True, uncleanable_sizes=[100, 20]),
        LogDirReading(path="/b", is_online=False, uncleanable_sizes=[]),
    ]

    read = samples(log_dir_families(directories, [], {}))

    cleaner = "kafka_log_logcleanermanager_uncleanable"
    assert read[f"{cleaner}_partitions_count{{logDirectory=/a}}"] == 2
    assert read[f"{cleaner}_bytes{{logDirectory=/a}}"] == 120
    assert read[f"{cleaner}_partitions_count{{logDirectory=/b}}"] == 0
    assert read["kafka_log_logmanager_offlinelogdirectorycount{}"] == 1


def image(*partitions: PartitionImage) -> MetadataImage:
    topic = TopicImage("t", b"t" * 16, partitions)
    broker = BrokerImage(1, 1, bytes(16), {"PLAINTEXT": Endpoint("host", 9092)}, None, False, False, (), {})
    return MetadataImage(
        brokers={1: broker, 2: broker._replace(broker_id=2, fenced=True)},
        topics=TopicsImage(
            by_name={"t": topic}, by_id={topic.topic_id: topic}, partition_count=len(partitions)
        ),
    )


def test_bytes_are_counted_for_each_topic_and_for_all() -> None:
    one, other = TopicCounters(), TopicCounters()
    one.bytes_in, other.bytes_in = 5, 7

    read = samples(topic_families({"a": one, "b": other}, 1))

    name = "kafka_server_brokertopicmetrics_bytesin_total"
    assert read[f"{name}{{}}"] == 12
    assert read[f"{name}{{topic=a}}"] == 5
    assert f"{name}{{topic=b}}" not in read, "the limit is one topic"


def test_a_topic_that_is_deleted_stays_in_the_sum_over_all_topics() -> None:
    one, other = TopicCounters(), TopicCounters()
    one.bytes_in, other.bytes_in = 5, 7
    left = without_topics(without_topics({"a": one, "b": other, "c": TopicCounters()}, {"a"}), {"c", "d"})

    read = samples(topic_families(left, 10))

    name = "kafka_server_brokertopicmetrics_bytesin_total"
    assert {key: value for key, value in read.items() if key.startswith(name)} == {
        f"{name}{{}}": 12,
        f"{name}{{topic=b}}": 7,
    }


def test_fetches_of_consumers_and_followers_are_counted_separately() -> None:
    counters = AllRequestCounters()
    fetch, followers = counters.of("Fetch", 18), counters.of("FetchFollower", 18)
    fetch.requests, followers.requests = 10, 4
    fetch.latency.observe(0.002, 6)
    followers.latency.observe(0.2, 4)
    fetch.count_error(1)
    requests = list(counters.by_version.values())

    read = samples(request_families(requests, latencies_of(requests), {}))

    name = "kafka_network_requestmetrics"
    assert read[f"{name}_requests_total{{request=Fetch,version=18}}"] == 10
    assert read[f"{name}_requests_total{{request=FetchConsumer,version=18}}"] == 6
    assert read[f"{name}_requests_total{{request=FetchFollower,version=18}}"] == 4
    assert read[f"{name}_totaltimems_count{{request=Fetch}}"] == 10
    assert 1 <= read[f"{name}_totaltimems{{quantile=0.5,request=FetchConsumer}}"] <= 2.5
    assert 100 <= read[f"{name}_totaltimems{{quantile=0.99,request=FetchFollower}}"] <= 250
    assert read[f"{name}_errors_total{{error=OFFSET_OUT_OF_RANGE,request=Fetch}}"] == 1
    assert read["ottla_request_duration_seconds_bucket{le=0.0025,request=FetchConsumer}"] == 6
    assert read["ottla_request_duration_seconds_bucket{le=+Inf,request=Fetch}"] == 10


def test_only_the_leader_reports_the_state_of_a_partition() -> None:
    read = samples(
        partition_families(
            [partition(0, in_sync_count=2, is_under_replicated=True), partition(1, is_leader=False)]
        )
    )

    assert read["kafka_cluster_partition_underreplicated{partition=0,topic=t}"] == 1
    assert read["kafka_cluster_partition_laststableoffsetlag{partition=0,topic=t}"] == 1
    assert "kafka_cluster_partition_underreplicated{partition=1,topic=t}" not in read
    assert read["kafka_log_log_logendoffset{partition=1,topic=t}"] == 9


def test_only_the_controller_reports_a_partition_without_a_leader() -> None:
    lost = image(PartitionImage(0, (1, 2), (2,), -1, 3, 4))

    exported = samples(exporter_families(lost, [], is_controller=True, max_partitions=10))
    elsewhere = samples(exporter_families(lost, [], is_controller=False, max_partitions=10))

    assert exported["kafka_topic_partition_leader{partition=0,topic=t}"] == -1
    assert exported["kafka_topic_partition_under_replicated_partition{partition=0,topic=t}"] == 1
    assert exported["kafka_topic_partitions{topic=t}"] == 1 and exported["kafka_brokers{}"] == 1
    assert elsewhere == {}


def test_kminions_sums_include_the_partitions_that_have_no_samples_of_their_own() -> None:
    cluster = image(PartitionImage(0, (1, 2), (2,), 2, 3, 4))
    replicas = [partition(0, size_bytes=5), partition(1, size_bytes=7)]
    replicas.append(replicas[0]._replace(topic="u"))

    read = samples(
        kminion_families(
            cluster,
            replicas,
            replicas[:1],
            lambda topic: "delete",
            node_id=1,
            controller_id=2,
            is_controller=False,
            max_partitions=1,
        )
    )

    totals = {name.partition("{")[0]: value for name, value in read.items() if "log_dir_size" in name}
    assert totals == {
        "kminion_kafka_topic_log_dir_size_total_bytes": 12,
        "kminion_kafka_broker_log_dir_size_total_bytes": 17,
    }
    assert "kminion_kafka_topic_log_dir_size_total_bytes{topic_name=t}" in read


def test_the_controllers_gauges_add_up_over_all_nodes() -> None:
    cluster = image(PartitionImage(0, (1, 2), (2,), -1, 3, 4), PartitionImage(1, (1, 2), (2,), 2, 3, 4))
    counts, elections = count_cluster(cluster), ElectionCounters()

    nodes = [
        samples(controller_families(cluster, counts, elections, is_controller=is_controller))
        for is_controller in (True, False, False)
    ]

    prefix = "kafka_controller_kafkacontroller"
    together = {name: sum(node[name] for node in nodes) for name in nodes[0]}
    assert together[f"{prefix}_activecontrollercount{{}}"] == 1
    assert together[f"{prefix}_offlinepartitionscount{{}}"] == 1
    assert together[f"{prefix}_globalpartitioncount{{}}"] == 2
    assert together[f"{prefix}_preferredreplicaimbalancecount{{}}"] == 2
    assert together[f"{prefix}_activebrokercount{{}}"] == together[f"{prefix}_fencedbrokercount{{}}"] == 1


def test_a_group_has_its_lag_in_records_and_seconds_as_far_as_it_is_known() -> None:
    committed = [CommittedReading("t", 0, 5, 3, 1500), CommittedReading("t", 1, 6, None, None)]
    group = GroupReading(
        group_id='g"\n', protocol="classic", state="Stable", protocol_type="consumer", protocol_name="range",
        member_count=2, committed=committed,
    )  # fmt: skip

    read = samples([*consumer_group_families([group]), *kminion_group_families([group], 4)])

    place = 'consumergroup=g"\n,partition=0,topic=t'
    assert read[f"kafka_consumergroup_lag{{{place}}}"] == 3
    assert read[f"kafka_consumergroup_lag_seconds{{{place}}}"] == 1.5
    assert read['kafka_consumergroup_lag_sum{consumergroup=g"\n,topic=t}'] == 3
    assert read['kafka_consumergroup_current_offset_sum{consumergroup=g"\n,topic=t}'] == 11
    assert not any("partition=1" in name and "lag" in name for name in read)
    assert read['kminion_kafka_consumer_group_topic_lag{group_id=g"\n,topic_name=t}'] == 3
    assert read['kminion_kafka_consumer_group_members{group_id=g"\n}'] == 2


def test_a_name_chosen_by_a_client_cannot_add_lines() -> None:
    family = gauge("a", "words", [(labels(topic='x"} 1\nkafka_brokers 99\n'), 1)])

    text = exposition(lines_of([family]), is_openmetrics=False).content.decode()

    assert [line for line in text.splitlines() if line.startswith("kafka_brokers")] == []


def test_times_are_a_histogram_in_seconds_and_a_summary_in_milliseconds() -> None:
    times = LatencyHistogram()
    times.observe(0.02, 4)

    read = samples(
        [
            histogram("h_seconds", "words", [(NO_LABELS, times)]),
            summary_ms("s", "words", [(NO_LABELS, times, times.counts)]),
        ]
    )

    assert read["h_seconds_bucket{le=0.025}"] == read["h_seconds_count{}"] == 4
    assert read["h_seconds_bucket{le=0.01}"] == 0
    assert read["s_sum{}"] == 80 and 10 <= read["s{quantile=0.99}"] <= 25


def test_a_usual_scrape_has_fewer_buckets_with_the_same_counts() -> None:
    times = LatencyHistogram()
    times.observe(0.02, 4)
    rows = [(NO_LABELS, times), (labels(request="Fetch"), times)]

    every = samples([histogram("h_seconds", "words", rows)])
    few = samples([with_fewer_buckets(histogram("h_seconds", "words", rows))])

    assert few.items() < every.items()
    assert len(few) == 2 * (len(COARSE_BOUNDS_S) + 1 + 2)
    assert few["h_seconds_bucket{le=0.05}"] == few["h_seconds_bucket{le=+Inf,request=Fetch}"] == 4
    assert set(COARSE_BOUNDS_S) <= set(BOUNDS_S)


def test_a_label_may_have_any_characters_and_is_read_back_unchanged() -> None:
    name = 'back\\slash, "quotes"} and\na line'

    read = samples([gauge("a", 'words "quoted" \\', [(labels(topic=name), True)])])

    assert read == {f"a{{topic={name}}}": 1}


def test_bytes_that_are_not_text_are_written_as_a_question_mark() -> None:
    family = gauge("a", "words", [(labels(path="/data/\udcff"), 1)])

    written = asyncio.run(write(family, Pace(), Room(MAX_BYTES)))

    assert written.samples == b'a{path="/data/?"} 1\n'


def test_a_large_family_is_written_whole() -> None:
    rows = [(labels(n=number), number / 2) for number in range(3 * LINES_AT_ONCE + 7)]

    written = asyncio.run(write(gauge("many", "words", rows), Pace(), Room(MAX_BYTES)))

    assert written.samples.decode() == "".join(f'many{{n="{n}"}} {n / 2}\n' for n in range(len(rows)))


def test_the_process_has_the_standard_names_of_prometheus_clients() -> None:
    read = samples(ProcessFamilies().collect())

    assert read["process_cpu_seconds_total{}"] > 0 and read["process_open_fds{}"] > 0
    assert read["python_gc_collections_total{generation=2}"] >= 0
    if Path("/proc/self/io").exists():
        assert read["kafka_server_kafkaserver_linux_disk_read_bytes{}"] >= 0
        assert read["kafka_server_kafkaserver_linux_disk_write_bytes{}"] >= 0


@pytest.mark.parametrize(
    ("accept", "is_openmetrics"),
    [
        ("", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", True),
        # The header of Prometheus 3.
        ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.5", True),
        ("text/plain;q=0.5, application/openmetrics-text;version=0.0.1;q=0.4", False),
        ("application/openmetrics-text;version=2.0.0", False),
        (";;,,=;version=", False),
    ],
)
def test_openmetrics_is_chosen_by_the_accept_header(accept: str, is_openmetrics: bool) -> None:
    assert asks_for_openmetrics(accept) is is_openmetrics


def test_a_scrape_that_is_too_large_loses_lines_and_counts_them() -> None:
    max_bytes = ALWAYS_BYTES + 100_000

    async def scrape() -> list[Written]:
        room, pace = Room(max_bytes), Pace()
        rows = [(labels(group="\\" * 1_000, number=number), number) for number in range(1_000)]
        families = [gauge("of_groups", "words", rows), gauge("of_the_node", "words", 7)]
        written = [await write(one, pace, room) for one in families]
        return [*written, await write(cut_family(room), pace, room)]

    written = asyncio.run(scrape())
    text = exposition(written, is_openmetrics=True).content
    read = samples([one.family._replace(lines=iter([one.samples.decode()])) for one in written])

    assert len(text) <= max_bytes
    shown = len([name for name in read if name.startswith("of_groups")])
    assert read["ottla_scrape_cut_series{name=of_groups}"] == 1_000 - shown
    assert 0 <= shown < 100
    assert read["of_the_node{}"] == 7


def test_the_first_lines_of_a_family_are_written_even_without_room() -> None:
    rows = [(labels(number=number), number) for number in range(LINES_AT_ONCE)]

    written = asyncio.run(write(gauge("few", "words", rows), Pace(), Room(0)))

    assert len(written.samples.splitlines()) == LINES_AT_ONCE
    assert len(written.samples) < ALWAYS_BYTES_OF_FAMILY


def test_groups_have_samples_as_far_as_their_names_have_room() -> None:
    groups = [
        GroupReading(
            group_id=name,
            protocol="classic",
            state="Empty",
            protocol_type="",
            protocol_name="",
            member_count=0,
        )
        for name in ["a", "b" * 1_000, "c"]
    ]

    assert shown_one_by_one(groups, 10, 1_000_000) == groups
    assert shown_one_by_one(groups, 2, 1_000_000) == groups[:2]
    assert shown_one_by_one(groups, 10, 5_000) == groups[:1]
