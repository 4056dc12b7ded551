"""Offsets in a checkpoint: the connector's JSON with ids of topics, checked when read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition, uuid_to_text
from ottla.pipeline.source.source_offsets import (
    EARLIEST,
    SourceOffsets,
    open_json,
    read_offsets,
    read_partitions,
)
from ottla.pipeline.words import OptionError

ID = bytes(range(16))
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 10), TopicPartition("u", 0)


def test_offsets_are_written_as_the_connector_writes_them_with_an_id() -> None:
    offsets = SourceOffsets(offsets={U0: 3, T1: 2, T0: 1}, topic_ids={"t": ID, "u": ZERO_UUID})

    topic_id = f'"id": "{uuid_to_text(ID)}"'
    assert json.dumps(offsets.to_json()) == '{"t": {"0": 1, "10": 2, ' + topic_id + '}, "u": {"0": 3}}'


def test_offsets_of_the_connector_are_read() -> None:
    read = read_offsets(json.loads('{"t":{"0":5},"u":{"0":7}}'), "checkpoint")

    assert read.offsets == {T0: 5, U0: 7}
    assert read.topic_id("t") == ZERO_UUID


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.integers(0, 12)).map(lambda one: TopicPartition(*one)),
        st.integers(0, 2**63 - 1),
    ),
    st.dictionaries(st.sampled_from("abc"), st.binary(min_size=16, max_size=16)),
)
def test_written_offsets_are_read_and_written_again_unchanged(
    offsets: dict[TopicPartition, int], topic_ids: dict[str, bytes]
) -> None:
    written = SourceOffsets(offsets=offsets, topic_ids=topic_ids).to_json()
    again = read_offsets(json.loads(json.dumps(written)), "checkpoint")

    assert again.offsets == offsets
    assert json.dumps(again.to_json()) == json.dumps(written)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "not of the form"),
        ("null", "not of the form"),
        ('{"t": 5}', "not of the form"),
        ('{"": {"0": 1}}', "not allowed"),
        ('{"../x": {"0": 1}}', "not allowed"),
        ('{"t": {"-1": 1}}', "not a partition"),
        ('{"t": {"00": 1}}', "not a partition"),
        ('{"t": {"9999999999": 1}}', "not a partition"),
        ('{"t": {"0": null}}', "not a whole number"),
        ('{"t": {"0": "5"}}', "not a whole number"),
        ('{"t": {"0": true}}', "not a whole number"),
        ('{"t": {"0": -1}}', "is not from 0 to"),
        ('{"t": {"0": 9223372036854775808}}', "is not from 0 to"),
        ('{"t": {"id": "short"}}', "not an id of topic t"),
        ('{"t": {"id": 5}}', "not an id of topic t"),
        ('{"t": {"0": 1, "0": 2}}', "'0' is given twice"),
        ('{"t": {"0": NaN}}', "NaN is not a number"),
        ('{"t": {"0": ' + "9" * 5000 + "}}", "is not valid JSON"),
        ('{"t":' * 100_000, "is not valid JSON"),
    ],
)
def test_invalid_offsets_are_refused_with_the_name_of_their_option(text: str, reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        read_offsets(open_json(text, "startingOffsets"), "startingOffsets")

    assert raised.value.option == "startingOffsets"
    assert reason in raised.value.problem
    assert len(raised.value.problem) < 500


def test_latest_and_earliest_are_numbers_where_they_are_allowed() -> None:
    read = read_offsets({"t": {"0": -1, "10": -2}}, "startingOffsets", least=EARLIEST)

    assert read.offsets == {T0: -1, T1: -2}


def test_assigned_partitions_are_read_once_each() -> None:
    assert read_partitions('{"t": [0, 10, 0]}', "assign") == {T0, T1}
