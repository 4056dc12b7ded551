"""Plans of reassignments: files of kafka-reassign-partitions are read, invalid ones are rejected."""

import json
from collections import Counter

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.reassignment_plan import (
    Plan,
    Replica,
    parse_plan,
    parse_topics,
    plan_as_json,
    plan_as_text,
    propose,
)
from ottla.node.client.refusal import Refused


def test_a_plan_is_read_as_it_is_written() -> None:
    plan = {TopicPartition("b", 0): [1, 2], TopicPartition("a", 1): [3]}

    text = plan_as_text(plan)

    assert text == (
        '{"version":1,"partitions":[{"topic":"a","partition":1,"replicas":[3],"log_dirs":["any"]},'
        '{"topic":"b","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )
    assert parse_plan(text.encode()) == (plan, {})
    assert parse_plan(b'{"partitions": [{"topic": "a", "partition": 0, "replicas": [0]}]}')
    assert parse_topics(b'{"topics": [{"topic": "b"}, {"topic": "a"}], "version": 1}') == ["b", "a"]


def test_a_plan_has_the_directories_of_replicas() -> None:
    where = TopicPartition("a", 0)
    plan = Plan({where: [1, 2]}, {Replica(where, 2): "/disk2"})

    written = plan_as_json(*plan)

    assert written["partitions"] == [
        {"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/disk2"]}
    ]
    assert parse_plan(json.dumps(written).encode()) == plan


@pytest.mark.parametrize(
    ("partitions", "words"),
    [
        ([], "has no partitions"),
        ({}, 'no list of "partitions"'),
        (["a"], 'no list of "partitions"'),
        ([{"topic": "a", "partition": 0}], 'needs "topic", "partition" and "replicas"'),
        ([{"topic": "a", "partition": True, "replicas": [1]}], 'needs "topic"'),
        ([{"topic": "a", "partition": 0, "replicas": []}], "are not a list of broker ids"),
        ([{"topic": "a", "partition": 0, "replicas": ["1"]}], "are not a list of broker ids"),
        ([{"topic": "a", "partition": 0, "replicas": [1, 1]}], "name a broker twice"),
        ([{"topic": "a", "partition": 0, "replicas": [1]}] * 2, "a-0 is listed twice"),
        (
            [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": []}],
            "does not have as many log_dirs as replicas",
        ),
        ([{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["x"]}], "nor absolute paths"),
        ([{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/" * 5000]}], "nor absolute paths"),
        ([{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": [1]}], "nor absolute paths"),
        ([{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/\x1b[2J"]}], "nor absolute paths"),
        ([{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/\ud800"]}], "nor absolute paths"),
        ([{"topic": "", "partition": 0, "replicas": [1]}], "is not allowed: it is empty"),
        ([{"topic": "\ud800", "partition": 0, "replicas": [1]}], "is not allowed: it has a character"),
        ([{"topic": "a" * 40_000, "partition": 0, "replicas": [1]}], "is not allowed: it is longer"),
    ],
)
def test_an_invalid_plan_is_rejected(partitions: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_plan(json.dumps({"version": 1, "partitions": partitions}).encode())


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"[" * 100_000, b'{"version": 2, "partitions": []}', b"\xff"]
)
def test_an_invalid_document_is_rejected(content: bytes) -> None:
    for parse in (parse_plan, parse_topics):
        with pytest.raises(ValueError, match="it is not"):
            parse(content)


def test_a_topic_is_listed_once() -> None:
    with pytest.raises(ValueError, match="topic a is listed twice"):
        parse_topics(b'{"topics": [{"topic": "a"}, {"topic": "a"}]}')
    with pytest.raises(ValueError, match="is not allowed: it has a character"):
        parse_topics(b'{"topics": [{"topic": "\\u001b[2J"}]}')
    with pytest.raises(ValueError, match="has no topics"):
        parse_topics(b'{"topics": []}')


def test_replicas_and_leaders_are_spread_over_brokers_and_racks() -> None:
    current = {TopicPartition("t", number): [0, 1] for number in range(12)}

    proposed = propose(current, {1: "a", 2: "a", 3: "b", 4: "b"}, seed=1)

    assert proposed.keys() == current.keys()
    assert all({one // 3 for one in map(int, replicas)} == {0, 1} for replicas in proposed.values()), "racks"
    assert set(Counter(replicas[0] for replicas in proposed.values()).values()) == {3}
    assert set(Counter(one for replicas in proposed.values() for one in replicas).values()) == {6}


def test_a_topic_needs_as_many_brokers_as_replicas() -> None:
    with pytest.raises(Refused, match="Topic t cannot be placed on these brokers"):
        propose({TopicPartition("t", 0): [0, 1]}, {5: None}, seed=0)
