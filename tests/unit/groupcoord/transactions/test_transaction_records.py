"""Bytes of `__transaction_state`; tests/compat/java/test_transaction_log compares them with Java's."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groupcoord.transactions.transaction import CLIENT_V2, Transaction
from ottla.groupcoord.transactions.transaction_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    value_size_bytes,
)
from ottla.groupcoord.transactions.transaction_state import AT_REST, PREPARED, TransactionState
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition

EMPTY = Transaction(
    transactional_id="t",
    producer_id=4_000,
    previous_producer_id=4_000,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.EMPTY,
    last_update_ms=1_000,
)
ONGOING = replace(
    EMPTY,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 0)}),
    start_ms=900,
    client_version=CLIENT_V2,
)
# A prepared transaction that waits for its next client: the one state with all tags (Kafka has no 3).
KEPT = replace(ONGOING, next_producer_id=4_001, next_producer_epoch=7)
HEAD = "0000000000000fa0 0003 0000ea60"
TIMES = "00000000000003e8"


@pytest.mark.parametrize(
    ("state", "level", "expected"),
    [
        (EMPTY, 0, f"0000 {HEAD} 00 ffffffff {TIMES} ffffffffffffffff"),
        (EMPTY, 1, f"0001 {HEAD} 00 00 {TIMES} ffffffffffffffff 01 00 08 0000000000000fa0"),
        (
            ONGOING,
            0,
            f"0000 {HEAD} 01 00000002 0001 61 00000002 00000000 00000001 0001 62 00000001 00000000 "
            f"{TIMES} 0000000000000384",
        ),
        (
            KEPT,
            2,
            f"0001 {HEAD} 01 03 02 61 03 00000000 00000001 00 02 62 02 00000000 00 {TIMES} 0000000000000384 "
            "04 00 08 0000000000000fa0 01 08 0000000000000fa1 02 02 0002 03 02 0007",
        ),
        (
            replace(ONGOING, state=TransactionState.COMPLETE_ABORT, partitions=frozenset()),
            1,
            f"0001 {HEAD} 05 01 {TIMES} 0000000000000384 02 00 08 0000000000000fa0 02 02 0002",
        ),
    ],
)
def test_values_have_kafkas_bytes(state: Transaction, level: int, expected: str) -> None:
    value = encode_value(state, level)

    assert value.hex() == expected.replace(" ", "")
    assert len(value) <= value_size_bytes(state)


def test_a_key_is_the_id() -> None:
    assert encode_key("Zürich") == b"\x00\x00\x00\x07Z\xc3\xbcrich"
    assert decode_key(memoryview(encode_key("Zürich"))) == "Zürich"


def test_unknown_kinds_and_versions_are_skipped() -> None:
    assert decode_key(b"\x00\x01whatever") is None
    assert decode_value("t", b"\x00\x02whatever") is None
    assert decode_value("t", b"\xff\xffwhatever") is None


def test_unknown_tags_are_skipped() -> None:
    value = bytearray(encode_value(EMPTY, 1))
    assert value[-11:-9] == b"\x01\x00"
    value[-11:-10] = b"\x02"

    assert decode_value("t", bytes(value) + b"\x63\x03abc") == EMPTY


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\x00",
        b"\xff\xff\x00\x01t",
        b"\x00\x00",
        b"\x00\x00\x00",
        b"\x00\x00\x00\x02t",
        b"\x00\x00\xff\xfft",
        b"\x00\x00\x00\x01\xff",
    ],
)
def test_bytes_that_are_no_key_are_rejected(key: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        decode_key(key)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def broken_values() -> list[bytes]:
    plain, compact = encode_value(ONGOING, 0), encode_value(ONGOING, 1)
    head = plain[:17]
    cut = [value[:length] for value in (plain, compact) for length in range(len(value))]
    statuses = [plain[:16] + bytes((status,)) + plain[17:] for status in (6, 7, 99, 0xFF)]
    counts = [
        head + struct.pack(">i", 2**31 - 1) + bytes(16),  # topics
        head + struct.pack(">ih1si", 1, 1, b"t", 2**31 - 1) + bytes(16),  # partitions
        head + struct.pack(">ih1si", 1, 1, b"t", -1) + bytes(16),
        head + struct.pack(">ih", 1, -1) + bytes(30),  # a topic without a name
        head + struct.pack(">i", -1) + bytes(16),  # null, and not Empty
        compact[:17] + b"\xff\xff\xff\xff\x0f" + bytes(30),
        compact[:17] + b"\xff\xff\xff\xff\xff\xff" + bytes(30),
        compact[:17] + b"\x02\x00" + bytes(30),
        compact[:17] + b"\x00" + bytes(30),
        encode_value(EMPTY, 1)[:-10] + b"\x00\x04" + bytes(4),  # tag 0 of four bytes
    ]
    at_rest = replace(ONGOING, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())
    states = [
        replace(at_rest, partitions=ONGOING.partitions),
        replace(at_rest, next_producer_id=5, next_producer_epoch=5),
        replace(KEPT, next_producer_id=-1),
        replace(KEPT, next_producer_epoch=32_767),
        replace(KEPT, next_producer_epoch=-2),
        replace(ONGOING, producer_id=-1),
        replace(ONGOING, producer_epoch=-1),
    ]
    return [value for value in cut if value] + statuses + counts + [encode_value(t, 1) for t in states]


@pytest.mark.parametrize("value", broken_values(), ids=lambda value: value[-12:].hex())
def test_bytes_that_are_no_value_are_rejected(value: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        decode_value("t", value)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=200), st.sampled_from((b"\x00\x00", b"\x00\x01")))
def test_any_bytes_are_a_value_or_corrupt(content: bytes, version: bytes) -> None:
    """They give a value or CORRUPT_MESSAGE, nothing else; a value that is read is written back as it was."""
    try:
        t = decode_value("t", version + content)
    except KafkaError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE
        return

    assert t is not None and decode_value("t", encode_value(t, 1)) == t


partitions = st.frozensets(
    st.builds(TopicPartition, st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1)), max_size=12
)


@given(
    state=st.sampled_from([TransactionState.ONGOING, *PREPARED, *AT_REST]),
    numbers=st.tuples(*[st.integers(-1, 2**63 - 1)] * 4),
    producer=st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1)),
    following=st.none() | st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 2)),
    partitions=partitions,
    client_version=st.integers(0, 2**15 - 1),
)
def test_every_state_is_read_as_it_was_written(
    state: TransactionState,
    numbers: tuple[int, ...],
    producer: tuple[int, int],
    following: tuple[int, int] | None,
    partitions: frozenset[TopicPartition],
    client_version: int,
) -> None:
    is_kept = following is not None and state not in AT_REST
    t = Transaction(
        transactional_id="t",
        producer_id=producer[0],
        previous_producer_id=numbers[0],
        next_producer_id=following[0] if is_kept else numbers[1],
        producer_epoch=producer[1],
        next_producer_epoch=following[1] if is_kept else -1,
        timeout_ms=2**31 - 1,
        state=state,
        partitions=frozenset() if state in AT_REST else partitions,
        start_ms=numbers[2],
        last_update_ms=numbers[3],
        client_version=client_version,
    )

    assert decode_value("t", encode_value(t, 2)) == t
    assert decode_value("t", encode_value(t, 0)) == replace(
        t, previous_producer_id=-1, next_producer_id=-1, next_producer_epoch=-1, client_version=0
    )
    assert len(encode_value(t, 0)) <= value_size_bytes(t) >= len(encode_value(t, 1))
