"""The origin in the headers of a dead letter, and headers that are invalid."""

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.dead_letters import MAX_REASON, DeadLetter, dead_letter_of, own_headers

WHOLE: dict[str, bytes | None] = {
    "__dlq.errors.topic": b"orders",
    "__dlq.errors.partition": b"3",
    "__dlq.errors.offset": b"41",
    "__dlq.errors.group": "wörkers".encode(),
    "__dlq.errors.delivery.count": b"5",
    "__dlq.errors.message": b"Offset rejected by client.",
}


def headers_with(**changed: bytes | None) -> list[tuple[str, bytes | None]]:
    named = {f"__dlq.errors.{name.replace('_', '.')}": value for name, value in changed.items()}
    return list((WHOLE | named).items())


def test_a_letter_has_its_origin_and_the_reason() -> None:
    found = dead_letter_of([("own", b"1"), *WHOLE.items()])

    assert found == DeadLetter("wörkers", TopicPartition("orders", 3), 41, 5, "Offset rejected by client.")


def test_the_last_header_of_a_name_counts() -> None:
    # A record may have had such headers itself; those of the broker come after them.
    found = dead_letter_of([("__dlq.errors.topic", b"elsewhere"), *WHOLE.items()])

    assert found is not None and found.origin.topic == "orders"


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": None},
        {"topic": b""},
        {"topic": b"../orders"},
        {"topic": b".."},
        {"topic": b"o" * 250},
        {"topic": b"\xff"},
        {"group": None},
        {"group": b""},
        {"partition": None},
        {"partition": b"-1"},
        {"partition": b"2147483648"},
        {"partition": b"1_0"},
        {"partition": "٣".encode()},
        {"offset": b"9223372036854775808"},
        {"offset": b"1" * 5_000},
        {"offset": b" 1"},
    ],
)
def test_a_record_with_an_invalid_origin_is_not_a_letter(changed: dict[str, bytes | None]) -> None:
    assert dead_letter_of(headers_with(**changed)) is None


def test_missing_and_unreadable_headers_are_left_out() -> None:
    found = dead_letter_of(headers_with(delivery_count=b"many", message=b"\xff\xfe"))

    assert found is not None
    assert (found.delivery_count, found.reason) == (None, None)


def test_a_long_reason_is_cut() -> None:
    found = dead_letter_of(headers_with(message=b"x" * 1_000_000))

    assert found is not None and found.reason == "x" * MAX_REASON


def test_only_the_own_headers_of_a_record_are_kept() -> None:
    headers = (("own", b"1"), *WHOLE.items(), ("own", None))

    assert own_headers(headers) == (("own", b"1"), ("own", None))
