"""Assignors, the bytes of members, the partitions of keys, and bootstrap addresses."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.failure import explain
from ottla.node.client.cluster_client import parse_bootstrap
from ottla.node.client.group_member import (
    assign_ranges,
    assign_round_robin,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.node.client.producer import murmur2, partition_for

Assign = Callable[[Mapping[str, Sequence[str]], Mapping[str, int]], dict[str, list[TopicPartition]]]


@pytest.mark.parametrize("assign", [assign_ranges, assign_round_robin])
@pytest.mark.parametrize(
    ("subscriptions", "counts", "shares"),
    [
        ({"b": ["t"], "a": ["t"]}, {"t": 3}, {"a": 2, "b": 1}),
        ({"a": ["t"], "b": ["t"], "c": ["t"]}, {"t": 2}, {"a": 1, "b": 1, "c": 0}),
        ({"a": ["t"], "b": ["u"]}, {"t": 2, "u": 5}, {"a": 2, "b": 5}),
        ({"a": ["gone"]}, {}, {"a": 0}),
    ],
)
def test_every_partition_goes_to_one_subscriber(
    assign: Assign, subscriptions: dict[str, list[str]], counts: dict[str, int], shares: dict[str, int]
) -> None:
    assigned = assign(subscriptions, counts)

    everything = [partition for partitions in assigned.values() for partition in partitions]
    assert {member: len(partitions) for member, partitions in assigned.items()} == shares
    assert sorted(everything) == [
        TopicPartition(name, n) for name, count in sorted(counts.items()) for n in range(count)
    ]


def test_ranges_are_assigned_by_topic_and_round_robin_continues_over_topics() -> None:
    subscriptions, counts = {"a": ["t", "u"], "b": ["t", "u"]}, {"t": 3, "u": 1}

    assert assign_ranges(subscriptions, counts)["a"] == [("t", 0), ("t", 1), ("u", 0)]
    assert assign_round_robin(subscriptions, counts)["a"] == [("t", 0), ("t", 2)]


def test_members_bytes_survive_a_round_trip() -> None:
    partitions = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]

    assert decode_assignment(encode_assignment(partitions)) == partitions
    assert decode_subscription(encode_subscription(["a", "b"])) == ["a", "b"]
    assert decode_assignment(b"") == []


@pytest.mark.parametrize("cut", range(2, 12))
def test_members_bytes_cut_short_are_rejected(cut: int) -> None:
    whole = encode_subscription(["orders"])

    with pytest.raises(KafkaError) as raised:
        decode_subscription(whole[:cut])

    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_members_bytes_with_a_huge_count_are_rejected() -> None:
    with pytest.raises(KafkaError):
        decode_assignment(b"\x00\x00\x7f\xff\xff\xff")


# Results of org.apache.kafka.common.utils.Utils.murmur2 of Apache Kafka 4.3.1.
@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_by_kafka(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_for(key, 7) == (hashed & 0x7FFFFFFF) % 7


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a, b:1,", [("a", 9092), ("b", 1)]),
        ("[::1]:19092", [("::1", 19092)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_bootstrap_addresses_are_parsed(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:0", "a:65536", ":9092"])
def test_an_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_bootstrap(text)


def test_an_error_says_what_to_do() -> None:
    refused = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no connection to a:1: connection refused")

    assert explain(refused).startswith("No connection to a:1: connection refused. Is a node running there?")
    assert "ottla start" in explain(refused)
    assert explain(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "t-0 has none")).startswith("t-0 has none (")
