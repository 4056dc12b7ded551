"""Records of `__transaction_state` in words."""

import json

import pytest

from ottla.groupcoord.transactions.transaction_records import encode_key, encode_value
from ottla.logstore.record import Record
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.tools.internal_records import plain, wording_for
from tests.unit.groupcoord.transactions.states import S, at

WORDING = wording_for("__transaction_state-49")
ONGOING = at(S.ONGOING, partitions=(TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 2)))


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(offset=0, timestamp=0, key=key, value=value, headers=())


def test_a_transaction_in_words() -> None:
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


def test_what_version_0_does_not_hold_is_left_out() -> None:
    _, value = WORDING(record(encode_key("t"), encode_value(at(S.EMPTY), 0)))

    told = json.loads(value or "")
    assert (told["state"], told["partitions"], told["client_version"]) == ("Empty", [], 0)
    assert "previous_producer_id" not in told


def test_the_end_of_an_id() -> None:
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
def test_what_is_not_known_is_printed_as_it_is(key: bytes | None, value: bytes | None) -> None:
    given = record(key, value)

    assert WORDING(given) == plain(given)
