"""Records of `__transaction_state` and of `__share_group_state` are decoded into text."""

import json
from dataclasses import replace

import pytest

from ottla.groupcoord.share_state.share_state_records import SnapshotRecord, UpdateRecord, encode_record
from ottla.groupcoord.transactions.transaction_records import encode_key, encode_value
from ottla.logstore.record import Record
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.share.dead_letters import DeadLetters, Note, encode_note
from ottla.node.share.share_words import ArchivedRecords, ArchiveReason
from ottla.node.tools.internal_records import plain, wording_for
from tests.unit.groupcoord.share_state.share_state_world import KEY
from tests.unit.groupcoord.share_state.test_share_state_records import BATCHES, SNAPSHOT, UPDATE
from tests.unit.groupcoord.transactions.states import S, at

WORDING = wording_for("__transaction_state-49")
ONGOING = at(S.ONGOING, partitions=(TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 2)))


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(offset=0, timestamp=0, key=key, value=value, headers=())


def test_the_fields_of_a_transaction_are_printed() -> None:
    key, value = WORDING(record(encode_key("t"), encode_value(ONGOING, 1)))

    assert json.loads(key or "") == {"transactional_id": "t"}
    assert json.loads(value or "") == {
        "state": "Ongoing",
        "producer_id": 700,
        "producer_epoch": 5,
        "timeout_ms": 60_000,
        "partitions": ["a-2", "a-10", "b-1"],
        "last_update_ms": ONGOING.last_update_ms,
        "start_ms": ONGOING.start_ms,
        "client_version": 2,
        "previous_producer_id": 600,
    }


def test_fields_that_version_0_lacks_are_left_out() -> None:
    _, value = WORDING(record(encode_key("t"), encode_value(at(S.EMPTY), 0)))

    document = json.loads(value or "")
    assert (document["state"], document["partitions"], document["client_version"]) == ("Empty", [], 0)
    assert "previous_producer_id" not in document


def test_a_tombstone_of_an_id_has_no_value() -> None:
    assert WORDING(record(encode_key("t"), None)) == ('{"transactional_id": "t"}', None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"v"),
        (b"\x00\x01\x00\x01t", b"v"),  # another kind of record
        (b"\x00", b"v"),
        (encode_key("t"), b"\x00\x02 to come"),  # another version
        (encode_key("t"), encode_value(ONGOING, 1)[:-20]),
    ],
)
def test_an_unknown_record_is_printed_as_it_is(key: bytes | None, value: bytes | None) -> None:
    given = record(key, value)

    assert WORDING(given) == plain(given)


# ---- share-partitions --------------------------------------------------------------------------------------

SHARE_WORDING = wording_for("__share_group_state-7")
SHARE_PARTITION = {"group": "g", "topic_id": "AAAAAAAAAQAAAAAAAAAAAQ", "partition": 0}


def test_the_fields_of_a_snapshot_and_of_an_update_are_printed() -> None:
    snapshot, update = (
        SHARE_WORDING(record(*encode_record(one)))
        for one in (SnapshotRecord(KEY, SNAPSHOT), UpdateRecord(KEY, UPDATE._replace(batches=BATCHES[:1])))
    )

    batch = {"first_offset": 5, "last_offset": 9, "delivery_state": 0, "delivery_count": 1}
    assert json.loads(snapshot[0] or "") == {"type": "snapshot", **SHARE_PARTITION}
    document = json.loads(snapshot[1] or "")
    assert (document["state_epoch"], document["start_offset"], document["batches"][0]) == (2, 5, batch)
    assert json.loads(update[0] or "") == {"type": "update", **SHARE_PARTITION}
    assert json.loads(update[1] or "") == {
        "snapshot_epoch": 3,
        "leader_epoch": 7,
        "start_offset": -1,
        "delivery_complete_count": -1,
        "batches": [batch],
    }


def test_a_tombstone_of_a_share_partition_has_no_value() -> None:
    key, value = SHARE_WORDING(record(*encode_record(SnapshotRecord(KEY, None))))

    assert json.loads(key or "") == {"type": "snapshot", **SHARE_PARTITION} and value is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"v"),
        (b"\x00\x07" + b"k" * 30, b"v"),
        (b"\x00", b"v"),
        (encode_record(SnapshotRecord(KEY, None))[0], b"\x00\x01 to come"),
    ],
)
def test_an_unknown_record_of_a_share_partition_is_printed_as_it_is(key: bytes | None, value: bytes) -> None:
    assert SHARE_WORDING(record(key, value)) == plain(record(key, value))


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (None, None),
        (encode_note(Note(4, None)), {"number": 4}),
        (b"of a later version", b"of a later version".hex()),
        (
            encode_note(
                Note(
                    5,
                    DeadLetters(
                        producer_id=77,
                        producer_epoch=1,
                        topic_id=bytes(16),
                        partition=2,
                        records=(ArchivedRecords(3, 4, 5, ArchiveReason.REJECTED),),
                    ),
                )
            ),
            {
                "number": 5,
                "producer_id": 77,
                "producer_epoch": 1,
                "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
                "partition": 2,
                "records": [{"first_offset": 3, "last_offset": 4, "delivery_count": 5, "reason": "rejected"}],
            },
        ),
    ],
)
def test_the_fields_of_pending_dead_letters_are_printed(note: bytes | None, words: object) -> None:
    wording = wording_for("__share_group_state-0")
    update = UpdateRecord(KEY, UPDATE._replace(dead_letters=note))
    snapshot = SnapshotRecord(KEY, replace(SNAPSHOT, dead_letters=note or b""))

    for one in (update, snapshot):
        _, value = wording(record(*encode_record(one)))
        assert json.loads(value or "").get("dead_letters") == words
