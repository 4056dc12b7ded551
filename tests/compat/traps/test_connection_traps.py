"""Traps 1 to 8, 31, 37, 40 and 41: frames, headers, ApiVersions, and what closes a connection."""

import struct
import time
from collections.abc import Callable

import pytest

from tests.compat.batches import SNAPPY, batch, record
from tests.compat.conftest import topic_id_of
from tests.compat.wire_client import WireClient, eventually, only

Connect = Callable[..., WireClient]
METADATA, PRODUCE, API_VERSIONS = 3, 0, 18
SOFTWARE = {"client_software_name": "trap", "client_software_version": "1.0"}


def test_trap_01_trailing_bytes_in_a_request_are_accepted(client: WireClient, topic: str) -> None:
    client.send_bytes(client.frame("metadata", 13, tail=b"\0\0\0", topics=[{"name": topic}]))

    answer = client.receive("metadata", 13, client.correlation_id)

    assert only(answer.topics).error_code == 0


def test_trap_02_produce_is_advertised_from_0_and_closed_on_versions_0_to_2(connect: Connect) -> None:
    ranges = {one.api_key: one for one in connect().call("api_versions", 3, **SOFTWARE).api_keys}

    assert ranges[PRODUCE].min_version == 0
    for version in (0, 1, 2):
        old = connect()
        old.send_bytes(old.frame_of(PRODUCE, version, struct.pack(">hii", 1, 1000, 0)))
        assert old.is_closed()


def test_trap_03_an_unknown_version_of_api_versions_is_answered_in_version_0_with_error_35(
    client: WireClient,
) -> None:
    newest = {one.api_key: one.max_version for one in client.call("api_versions", 0).api_keys}[API_VERSIONS]
    client.send_bytes(client.frame_of(API_VERSIONS, 99, b"\0\0\0\0"))

    answer = client.receive("api_versions", 0, client.correlation_id)

    assert answer.error_code == 35
    shown = [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys]
    assert shown == [(API_VERSIONS, 0, newest)]
    assert client.call("api_versions", 0).error_code == 0, "the connection goes on"


def test_trap_03_api_versions_answers_have_no_tagged_response_header_in_any_version(
    client: WireClient,
) -> None:
    newest = {one.api_key: one.max_version for one in client.call("api_versions", 0).api_keys}[API_VERSIONS]
    for version in range(newest + 1):
        fields = SOFTWARE if version >= 3 else {}
        answer = client.call("api_versions", version, **fields)

        assert answer.error_code == 0
        assert len(answer.api_keys) > 20


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1.0"), ("trap", ""), ("-trap", "1.0"), ("trap-", "1.0"), ("tr ap", "1"), ("a_b", "1")],
)
def test_trap_04_a_software_name_or_version_outside_the_pattern_is_invalid(
    client: WireClient, name: str, version: str
) -> None:
    answer = client.call("api_versions", 3, client_software_name=name, client_software_version=version)

    assert answer.error_code == 42
    assert not answer.api_keys


def test_trap_04_version_3_shows_no_supported_feature_whose_minimum_is_0(client: WireClient) -> None:
    answer = client.call("api_versions", 3, **SOFTWARE)

    assert all(feature.min_version > 0 for feature in answer.supported_features)


def test_trap_04_version_5_with_another_cluster_id_asks_to_bootstrap_again(
    client: WireClient, is_reference: bool
) -> None:
    ranges = {one.api_key: one for one in client.call("api_versions", 4, **SOFTWARE).api_keys}
    if is_reference and ranges[API_VERSIONS].max_version < 5:
        pytest.skip("Apache Kafka 4.3 ends at version 4; 4.4 brought cluster ids (KIP-1242)")

    wrong = client.call("api_versions", 5, **SOFTWARE, cluster_id="AAAAAAAAAAAAAAAAAAAAAA", node_id=-1)
    without_ids = client.call("api_versions", 5, **SOFTWARE, cluster_id=None, node_id=-1)

    assert wrong.error_code == 129
    assert without_ids.error_code == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -5), id="negative-size"),
        pytest.param(struct.pack(">i", 200 << 20), id="200-megabytes"),
        pytest.param(struct.pack(">ihhih", 10, 9999, 0, 1, -1), id="unknown-key"),
        pytest.param(struct.pack(">ihhih", 10, METADATA, 99, 1, -1), id="unknown-version"),
        pytest.param(struct.pack(">ihhih", 10, 4, 0, 1, -1), id="removed-key"),
        pytest.param(struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, 2**31 - 1), id="count-without-bytes"),
        pytest.param(struct.pack(">ihhih", 10, METADATA, 1, 1, 30), id="client-id-without-bytes"),
        pytest.param(struct.pack(">ihh", 4, METADATA, 1), id="header-cut-off"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), id="tls"),
    ],
)
def test_trap_05_a_request_that_cannot_be_parsed_closes_its_connection_only(
    connect: Connect, data: bytes
) -> None:
    other, bad = connect(), connect()

    bad.send_bytes(data)

    assert bad.is_closed()
    assert other.call("metadata", 12, topics=[]).brokers


def test_trap_06_requests_of_a_connection_are_served_one_at_a_time_in_order(
    client: WireClient, topic: str
) -> None:
    wait_ms = 600
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    client.call("metadata", 12, topics=[])
    began = time.monotonic()
    fetch = client.send(
        "fetch", 11, max_wait_ms=wait_ms, min_bytes=1, topics=[{"topic": topic, "partitions": [wanted]}]
    )
    metadata = client.send("metadata", 12, topics=[])

    client.receive("fetch", 11, fetch)
    client.receive("metadata", 12, metadata)

    assert time.monotonic() - began > wait_ms * 0.9 / 1000


def produce(client: WireClient, topic: str, acks: int, records: bytes, partition: int = 0) -> bytes:
    data = {"index": partition, "records": records}
    return client.frame(
        "produce", 9, acks=acks, timeout_ms=5000, topic_data=[{"name": topic, "partition_data": [data]}]
    )


def end_offset(client: WireClient, topic: str) -> int:
    wanted = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    found = client.call("list_offsets", 5, replica_id=-1, topics=[wanted])
    return int(only(only(found.topics).partitions).offset)


def test_trap_07_acks_0_gets_no_answer(client: WireClient, connect: Connect, topic: str) -> None:
    other = connect()

    client.send_bytes(produce(client, topic, 0, batch()))

    assert client.is_silent()
    assert eventually(lambda: end_offset(other, topic), lambda end: end == 1) == 1
    assert client.call("metadata", 12, topics=[]).brokers


def test_trap_07_an_error_with_acks_0_closes_the_connection(client: WireClient, topic: str) -> None:
    client.send_bytes(produce(client, topic, 0, batch(crc=7)))

    assert client.is_closed()


def test_trap_07_acks_other_than_all_0_and_1_are_invalid(client: WireClient, topic: str) -> None:
    for acks in (2, -2):
        client.send_bytes(produce(client, topic, acks, batch()))

        answer = client.receive("produce", 9, client.correlation_id)

        assert only(only(answer.responses).partition_responses).error_code == 21


@pytest.mark.parametrize("client_id", [None, "", "söme client"])
def test_trap_08_the_client_id_may_be_null_and_is_never_compact(
    connect: Connect, client_id: str | None
) -> None:
    odd = connect(client_id=None)
    body = b"\0\0\0\0"  # an empty array of topics in version 1
    name = (
        b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
    )
    frame = struct.pack(">hhi", METADATA, 1, 1) + name + body

    odd.send_bytes(struct.pack(">i", len(frame)) + frame)

    assert odd.receive("metadata", 1, 1).brokers


def test_trap_08_error_answers_echo_topic_and_partition(client: WireClient) -> None:
    missing = "no-such-topic-here"
    wanted = {"partition": 7, "fetch_offset": 0, "partition_max_bytes": 1000}

    fetched = only(
        client.call(
            "fetch", 11, max_wait_ms=0, min_bytes=0, topics=[{"topic": missing, "partitions": [wanted]}]
        ).responses
    )
    listed = only(
        client.call(
            "list_offsets",
            5,
            replica_id=-1,
            topics=[{"name": missing, "partitions": [{"partition_index": 7, "timestamp": -1}]}],
        ).topics
    )

    client.send_bytes(produce(client, missing, 1, batch(), partition=7))
    produced = only(client.receive("produce", 9, client.correlation_id).responses)

    assert (produced.name, only(produced.partition_responses).index) == (missing, 7)
    assert (fetched.topic, only(fetched.partitions).partition_index) == (missing, 7)
    assert (listed.name, only(listed.partitions).partition_index) == (missing, 7)
    assert only(fetched.partitions).error_code == only(listed.partitions).error_code == 3
    assert only(produced.partition_responses).error_code == 3


def test_trap_31_nothing_is_throttled_and_throttle_time_is_0(client: WireClient, topic: str) -> None:
    assert client.call("metadata", 12, topics=[{"name": topic}]).throttle_time_ms == 0
    assert client.call("api_versions", 3, **SOFTWARE).throttle_time_ms == 0
    client.send_bytes(produce(client, topic, 1, batch(attributes=0)))
    assert client.receive("produce", 9, client.correlation_id).throttle_time_ms == 0


def test_trap_37_every_api_names_the_endpoint_that_the_client_reached(
    client: WireClient, bootstrap: str
) -> None:
    host, _, port = bootstrap.rpartition(":")
    reached = (host, int(port))

    metadata = only(client.call("metadata", 12, topics=[]).brokers)
    cluster = only(client.call("describe_cluster", 1).brokers)
    coordinator = eventually(
        lambda: client.call("find_coordinator", 2, key="trap-37", key_type=0),
        lambda found: found.error_code == 0,
    )

    assert (metadata.host, metadata.port) == reached
    assert (cluster.host, cluster.port) == reached
    assert (coordinator.host, coordinator.port) == reached
    assert metadata.node_id == cluster.broker_id == coordinator.node_id


def test_trap_40_compressed_bytes_pass_through_untouched(client: WireClient, topic: str) -> None:
    # A raw snappy block as librdkafka and franz-go send it: one literal with one record.
    inside = record(0, b"value")
    block = bytes([len(inside), (len(inside) - 1) << 2]) + inside
    sent = batch(attributes=SNAPPY, records=block)
    client.send_bytes(produce(client, topic, 1, sent))
    answer = client.receive("produce", 9, client.correlation_id)
    assert only(only(answer.responses).partition_responses).error_code == 0

    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    fetched = client.call(
        "fetch", 11, max_wait_ms=500, min_bytes=1, topics=[{"topic": topic, "partitions": [wanted]}]
    )
    records = bytes(only(only(fetched.responses).partitions).records)

    # Base offset and leader epoch are the broker's; from the magic on nothing changes.
    assert records[16:] == sent[16:]


def test_trap_41_a_deleted_and_recreated_topic_is_not_found_by_its_old_id(
    client: WireClient, topic: str
) -> None:
    old = topic_id_of(client, topic)
    client.call("delete_topics", 6, topics=[{"name": topic}], timeout_ms=5000)

    def create() -> int:
        wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        return int(only(client.call("create_topics", 7, topics=[wanted], timeout_ms=5000).topics).error_code)

    assert eventually(create, lambda error: error == 0) == 0
    found = eventually(
        lambda: only(client.call("metadata", 12, topics=[{"name": topic}]).topics),
        lambda one: one.error_code == 0 and bytes(one.topic_id) != old,
    )

    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    fetched = client.call(
        "fetch", 13, max_wait_ms=0, min_bytes=0, topics=[{"topic_id": old, "partitions": [wanted]}]
    )

    assert bytes(found.topic_id) != old
    assert only(only(fetched.responses).partitions).error_code == 100
    assert not only(only(fetched.responses).partitions).records
