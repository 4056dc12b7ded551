"""The record of a batch: encoded, read again, and refused if this sink did not write it."""

from base64 import b64decode, b64encode
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.commit_record import (
    CommitRecord,
    decode_record,
    encode_record,
)
from ottla.pipeline.sink.record_parts import MAX_PART_CHARS, MAX_PARTS, count_parts, join, split
from ottla.pipeline.sink.slots import Participant, Slot
from ottla.pipeline.words import OptionError

PAIRS = st.builds(ProducerPair, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
SLOTS = st.builds(Slot, st.integers(0, 63), st.integers(0, 200_000))
RECORDS = st.builds(
    CommitRecord,
    query_id=st.uuids(),
    run_id=st.uuids(),
    batch_id=st.integers(0, 2**63 - 2),
    generation=PAIRS,
    two_phase=st.booleans(),
    participants=st.lists(st.builds(Participant, SLOTS, PAIRS), max_size=50).map(tuple),
)


def record_of(participants: int, first_id: int = 7_000) -> CommitRecord:
    return CommitRecord(
        query_id=UUID(int=1),
        run_id=UUID(int=2),
        batch_id=3,
        generation=ProducerPair(4, 5),
        two_phase=True,
        participants=tuple(
            Participant(Slot(6, number), ProducerPair(first_id + number, number % 100))
            for number in range(participants)
        ),
    )


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(record: CommitRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_seven_hundred_participants_fit_into_one_part_and_too_many_are_refused_by_name() -> None:
    assert len(encode_record(record_of(700))) <= MAX_PART_CHARS

    with pytest.raises(
        OptionError, match=r"delivery.guarantee: exactly_once supports .* this one has 45000: use"
    ):
        encode_record(record_of(45_000))


@pytest.mark.parametrize("participants", [0, 700, 900, 5_000, 30_000])
def test_a_long_record_is_joined_from_its_parts(participants: int) -> None:
    record = encode_record(record_of(participants))

    parts = split(record)

    assert all(len(part) <= MAX_PART_CHARS for part in parts) and len(parts) <= MAX_PARTS
    assert (len(parts) == 1) is (participants <= 700)
    assert {count_parts(part) for part in parts} == {len(parts)}
    assert join(parts) == record


def test_parts_of_different_records_are_refused() -> None:
    one, other = (split(encode_record(record_of(2_000, first_id=number))) for number in (7_000, 900_000))
    for parts in (
        [one[0], *other[1:]],
        one[:-1],
        [*one[1:], one[0]],
        [one[0]],
        [*one, one[-1]],
        ["", *one[1:]],
    ):
        with pytest.raises(KafkaError, match="its parts are from different records"):
            join(parts)


@given(st.binary(max_size=80), st.integers(0, 200))
def test_foreign_metadata_is_refused(noise: bytes, cut: int) -> None:
    whole = b64decode(encode_record(record_of(3)))
    for content in (noise, whole[:cut], whole + noise):
        text = b64encode(content).decode()
        try:
            assert encode_record(decode_record(text)) == text
        except KafkaError as refused:
            assert refused.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("text", ["", "?", "{}", "ä", "AA", b64encode(bytes([2]) + bytes(60)).decode()])
def test_text_that_is_not_a_record_is_refused(text: str) -> None:
    with pytest.raises(KafkaError, match="the record of a batch cannot be read"):
        decode_record(text)


def test_numbers_out_of_bounds_are_refused() -> None:
    record = record_of(1)
    for wrong in (
        replace(record, batch_id=-1),
        replace(record, participants=(Participant(Slot(-1, 0), ProducerPair(0, 0)),)),
        replace(record, participants=(Participant(Slot(0, 0), ProducerPair(0, 2**15)),)),
    ):
        with pytest.raises(KafkaError, match="out of bounds"):
            decode_record(encode_record(wrong))
