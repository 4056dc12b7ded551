"""The compiled functions with valid values, invalid values and hostile bytes."""

from collections.abc import Sequence

import pytest

from ottla.logstore.words import schema
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import message, struct
from ottla.logstore.words.schema_compiler import (
    decode,
    decode_versioned,
    decoder,
    encode,
    encode_versioned,
    encoder,
)
from ottla.logstore.words.schema_decode import MAX_ELEMENTS, TooManyElements
from ottla.logstore.words.schema_encode import uvarint
from tests.traced_memory import peak_bytes


@struct
class Item:
    name: str = schema.string(until=2)
    number: int = schema.int32(since=1, default=-1)


@struct
class Cursor:
    offset: int = schema.int64(default=-1)


@message(api_key=900, versions=(0, 4), flexible_since=2)
class Everything:
    """A message: versions 0 and 1 are not flexible, 2 and 3 are, and 4 also has tagged fields."""

    flag: bool = schema.boolean()
    port: int = schema.uint16(default=9092)
    text: str | None = schema.string(nullable_since=1)
    topic_id: bytes = schema.uuid(since=3)
    metadata: bytes | None = schema.bytes_(nullable_since=1)
    items: Sequence[Item] = schema.array(Item)
    names: Sequence[str] | None = schema.array(schema.string, nullable_since=1)
    numbers: Sequence[int] = schema.array(schema.int32)
    cursor: Cursor | None = schema.struct_(Cursor, since=3, nullable_since=3, default=None)
    records: schema.Records | None = schema.records(nullable_since=0)
    last: int = schema.int8()
    limit: int = schema.int32(tag=0, since=4, default=7)
    best: Cursor = schema.struct_(Cursor, tag=1, since=4)
    racks: Sequence[str] = schema.array(schema.string, tag=3, since=4)
    hint: str | None = schema.string(tag=4, since=4, nullable_since=4, default=None)


FULL = Everything(
    flag=True,
    port=65535,
    text="für",
    topic_id=bytes(range(16)),
    metadata=b"\x00\x01",
    items=[Item(name="a", number=2**31 - 1), Item(name="b", number=-(2**31))],
    names=["x", ""],
    numbers=range(0),
    cursor=Cursor(offset=5),
    records=b"batch",
    last=-128,
    limit=8,
    best=Cursor(offset=9),
    racks=["r1"],
    hint="",
)


# ---- bytes, written by hand ---------------------------------------------------------------------


def test_a_version_that_is_not_flexible_has_plain_lengths() -> None:
    value = Everything(flag=True, text="ab", metadata=b"c", items=[Item(name="d")], numbers=[1], last=2)

    assert encode(value, 0) == bytes.fromhex(
        "01 2384 0002 6162 00000001 63 00000001 0001 64 00000000 00000001 00000001 00000000 02"
    )


def test_a_flexible_version_has_compact_lengths_and_tagged_sections() -> None:
    value = Everything(
        flag=True, text="ab", metadata=b"c", items=[Item(name="d", number=3)], numbers=[1], last=2
    )

    assert encode(value, 2) == bytes.fromhex(
        "01 2384 03 6162 02 63 02 02 64 00000003 00 01 02 00000001 01 02 00"
    )


def test_null_is_minus_one_or_in_flexible_versions_zero() -> None:
    value = Everything(text=None, metadata=None, names=None, records=None)

    assert encode(value, 1) == bytes.fromhex("00 2384 ffff ffffffff 00000000 ffffffff 00000000 ffffffff 00")
    assert encode(value, 2) == bytes.fromhex("00 2384 00 00 01 00 01 00 00 00")


def test_a_null_struct_is_a_negative_byte_and_a_present_one_is_one() -> None:
    absent, present = encode(Everything(), 3), encode(Everything(cursor=Cursor(offset=1)), 3)

    assert absent.endswith(bytes.fromhex("01 ff 01 00 00"))
    assert present.endswith(bytes.fromhex("01 01 0000000000000001 00 01 00 00"))


def test_tagged_fields_are_written_only_if_they_differ_from_their_default() -> None:
    plain = encode(Everything(limit=7, best=Cursor(offset=-1), racks=[]), 4)
    tagged = encode(Everything(limit=8, hint=""), 4)

    assert plain.endswith(b"\x00") and len(plain) == len(tagged) - len(
        bytes.fromhex("00 04 00000008 04 01 01")
    )
    assert tagged.endswith(bytes.fromhex("02 00 04 00000008 04 01 01"))


@message(versions=(0, 0), flexible_since=0)
class NullTags:
    """A message in which null is allowed but is not the default of an absent tag, as in records of Kafka."""

    cursor: Cursor | None = schema.struct_(Cursor, tag=0, nullable_since=0)
    numbers: Sequence[int] | None = schema.array(schema.int32, tag=1, nullable_since=0)


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (NullTags(), "00"),
        (NullTags(cursor=None), "01" + "000100"),
        (NullTags(cursor=Cursor(offset=1)), "01" + "000a01" + "0000000000000001" + "00"),
        (NullTags(numbers=None), "01" + "010100"),
    ],
)
def test_null_in_a_tagged_section_is_an_unsigned_zero(value: NullTags, wire: str) -> None:
    encoded = encode(value, 0)

    assert encoded.hex() == wire
    assert decode(NullTags, 0, encoded) == value


@pytest.mark.parametrize("version", range(5))
def test_the_fields_of_a_version_are_read_back(version: int) -> None:
    sent = encode(FULL, version)
    received = decode(Everything, version, sent)

    assert encode(received, version) == sent
    assert (received.flag, received.port, received.text, received.last) == (True, 65535, "für", -128)
    assert [item.name for item in received.items] == (["a", "b"] if version <= 2 else ["", ""])
    assert received.limit == (8 if version == 4 else 7)
    if version == 4:
        assert (received.best, received.racks, received.hint) == (Cursor(offset=9), ["r1"], "")


@pytest.mark.parametrize("length", [0, 1, 16, 17, 126, 127, 128, 1000, 40_000])
@pytest.mark.parametrize("version", [0, 2])
def test_arrays_of_every_length_are_read_back(length: int, version: int) -> None:
    value = Everything(numbers=list(range(length)), names=["n"] * length)

    assert decode(Everything, version, encode(value, version)) == value


# ---- buffers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
def test_records_are_views_of_the_frame_and_are_written_uncopied(version: int) -> None:
    batch = bytearray(b"record batch")
    writer = bytearray(b"head")

    buffers = encoder(Everything, version)(Everything(records=batch), writer)
    frame = b"".join(buffers)
    received, end = decoder(Everything, version)(frame, 4)

    assert buffers[0] is writer and buffers[1] is batch
    assert isinstance(received.records, memoryview) and received.records.obj is frame
    assert (received.records, end) == (b"record batch", len(frame))


@pytest.mark.parametrize("several", [[b"one", memoryview(b"two")], (b"one", b"two")])
def test_records_may_be_several_buffers(several: Sequence[bytes | memoryview]) -> None:
    buffers = encoder(Everything, 2)(Everything(records=several), bytearray())

    assert buffers[1:3] == [b"one", b"two"]
    assert decode(Everything, 2, b"".join(buffers)).records == b"onetwo"


def test_a_message_is_read_at_any_position_of_any_buffer_and_the_rest_is_ignored() -> None:
    sent = encode(FULL, 4)

    for buffer in (b"head" + sent + b"tail", bytearray(b"head" + sent), memoryview(b"head" + sent + b"x")):
        received, end = decoder(Everything, 4)(buffer, 4)
        assert (received.text, end) == ("für", 4 + len(sent))


def test_bytes_are_copied_out_of_the_frame() -> None:
    frame = bytearray(encode(Everything(metadata=b"mine"), 2))
    received = decode(Everything, 2, frame)

    frame[:] = bytes(len(frame))

    assert received.metadata == b"mine" and type(received.metadata) is bytes


def test_functions_are_compiled_once_and_keep_their_source() -> None:
    assert decoder(Everything, 2) is decoder(Everything, 2)
    assert "def encode(o, w):" in encoder(Everything, 2).source  # type: ignore[attr-defined]


def test_a_record_can_begin_with_its_version() -> None:
    value = Cursor()
    stored = encode_versioned(Everything(text="t"), 3)

    assert stored[:2] == b"\x00\x03"
    assert decode_versioned(Everything, stored).text == "t"
    assert value.offset == -1
    for cut in (b"", b"\x00"):
        with pytest.raises(KafkaError, match="too short for a version"):
            decode_versioned(Everything, cut)
    with pytest.raises(KafkaError, match="versions 0 to 4, not 9"):
        decode_versioned(Everything, b"\x00\x09")


@pytest.mark.parametrize("version", [-1, 5])
def test_a_version_that_does_not_exist_is_unsupported(version: int) -> None:
    for ask in (decoder, encoder):
        with pytest.raises(KafkaError) as refused:
            ask(Everything, version)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


# ---- hostile bytes ------------------------------------------------------------------------------


def refusal(version: int, frame: bytes) -> str:
    """Return the error message for a frame that must be rejected."""
    with pytest.raises(KafkaError) as refused:
        decode(Everything, version, frame)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    return refused.value.detail


@pytest.mark.parametrize("version", range(5))
def test_a_frame_cut_off_at_any_byte_is_rejected(version: int) -> None:
    sent = encode(FULL, version)

    for end in range(len(sent)):
        refusal(version, sent[:end])


def test_null_in_a_field_that_is_not_nullable_is_rejected() -> None:
    sent = encode(Everything(text="ab"), 0)

    assert refusal(0, sent[:3] + b"\xff\xff" + sent[5:]) == (
        "malformed Everything version 0: text must not be null"
    )
    assert "numbers must not be null" in refusal(2, bytes.fromhex("01 2384 01 01 01 01 00 01 00 00"))


def test_null_elements_of_a_nullable_array_are_rejected() -> None:
    assert "names must not be null" in refusal(2, bytes.fromhex("01 2384 01 01 01 02 00 01 01 00 00"))


def test_text_that_is_not_utf_8_is_rejected() -> None:
    sent = encode(Everything(text="ab"), 2)

    assert "text that is not UTF-8" in refusal(2, sent.replace(b"ab", b"\xff\xfe"))


@pytest.mark.parametrize("count", [3, 127, 128, 2**20, 2**28, 2**32 - 1])
def test_a_count_that_the_rest_cannot_hold_is_rejected_before_anything_is_allocated(count: int) -> None:
    frame = bytes.fromhex("01 2384 01 01") + uvarint(count + 1) + bytes(10)
    decoder(Everything, 2)

    assert "elements, which do not fit" in refusal(2, frame)
    assert peak_bytes(lambda: refusal(2, frame)) < 20_000


@pytest.mark.parametrize("count", [2**31 - 1, 1000, 4])
def test_a_count_of_numbers_that_the_rest_cannot_hold_is_rejected(count: int) -> None:
    frame = bytes.fromhex("01 2384 0000 00000000 00000000 00000000") + count.to_bytes(4) + bytes(15)

    assert f"numbers has {count} elements, which do not fit" in refusal(0, frame)


def test_all_arrays_of_a_message_together_have_a_limit() -> None:
    frame = bytes.fromhex("01 2384 01 01 01") + uvarint(MAX_ELEMENTS + 2) + b"\x01" * (MAX_ELEMENTS + 100)

    assert f"names has {MAX_ELEMENTS + 1} elements, too many" in refusal(2, frame)


def test_four_numbers_count_as_one_element() -> None:
    start = bytes.fromhex("01 2384 01 01 01 00")
    most, more = 4 * MAX_ELEMENTS, 4 * MAX_ELEMENTS + 4

    received = decode(Everything, 2, start + uvarint(most + 1) + bytes(4 * most) + bytes(3))

    assert len(received.numbers) == most
    frame = start + uvarint(more + 1) + bytes(4 * more) + bytes(3)
    assert f"numbers has {more} elements" in refusal(2, frame)


def test_unknown_tags_count_as_elements() -> None:
    # Each tag takes two bytes, so a frame of 100 MiB may have fifty million.
    empty = encode(Everything(), 2)
    assert empty.endswith(b"\0")
    frame = empty[:-1] + bytes.fromhex("02 64 00 65 00")

    assert decoder(Everything, 2)(frame, 0, 2)[1] == len(frame)
    with pytest.raises(TooManyElements):
        decoder(Everything, 2)(frame, 0, 1)


def test_a_reader_may_allow_fewer_elements() -> None:
    read = decoder(Everything, 2)
    frame = bytes.fromhex("01 2384 01 01 01") + uvarint(11) + b"\x01" * 10

    with pytest.raises(TooManyElements) as refused:
        read(frame, 0, 9)

    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.slow
def test_small_elements_take_no_more_memory_than_the_limit_assumes() -> None:
    count = MAX_ELEMENTS // 32
    frame = bytes.fromhex("01 2384 01 01") + uvarint(count + 1) + bytes.fromhex("02 61 00000000 00") * count
    decoder(Everything, 2)

    # The array is whole, but the next field is missing.
    assert peak_bytes(lambda: refusal(2, frame)) < 200 * count


def test_a_varint_of_more_than_five_bytes_is_rejected() -> None:
    assert "more than 5 bytes" in refusal(2, bytes.fromhex("01 2384 01 808080808001") + bytes(40))


def test_a_compact_string_beyond_an_int16_is_rejected() -> None:
    frame = bytes.fromhex("01 2384") + uvarint(32769) + b"a" * 32768 + bytes(40)

    assert "a string of 32768 bytes is longer than 32767" in refusal(2, frame)


@pytest.mark.parametrize(
    "section",
    [
        "01 05 ffffffff0f",  # a size far beyond the end
        "01 05 02 00",  # a size one byte beyond the end
        "ffffffff0f 05 00",  # more tags than bytes
        "02 05 00",  # one tag too few
        "01 80808080 8001 00",  # a tag number without an end
    ],
)
def test_a_tagged_section_that_extends_beyond_the_buffer_is_rejected(section: str) -> None:
    assert refusal(4, encode(Everything(), 4)[:-1] + bytes.fromhex(section))


def test_a_known_tag_of_another_size_is_rejected() -> None:
    message = refusal(4, encode(Everything(), 4)[:-1] + bytes.fromhex("01 00 05 00000008 00"))

    assert "limit does not have the size of its tag" in message


def test_unknown_tags_are_skipped_anywhere() -> None:
    start = encode(Everything(), 4)[:-1]

    received = decode(Everything, 4, start + bytes.fromhex("03 00 04 00000008 02 03 616263 63 00"))

    assert received == Everything(limit=8)


def test_a_boolean_is_true_for_any_byte_except_zero() -> None:
    sent = encode(Everything(), 2)

    assert decode(Everything, 2, b"\x02" + sent[1:]).flag is True


# ---- values that do not fit ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Everything(port=65536), "Everything.port is of kind uint16 and cannot hold 65536"),
        (Everything(port=None), "Everything.port is of kind uint16 and cannot hold None"),
        (Everything(last=128), "Everything.last is of kind int8"),
        (Everything(items=None), "Everything.items must be a list, not None"),
        (Everything(items=[Item(), {"name": "x"}]), "Everything.items[1] must be a Item"),
        (Everything(items=[Item(), Item(number="1")]), "Everything.items[1].number is of kind int32"),
        (Everything(names=["a", None]), "Everything.names[1] is of kind string and cannot hold None"),
        (Everything(numbers=[1, 2**31]), "Everything.numbers[1] is of kind int32"),
        (Everything(text=b"bytes"), "Everything.text is of kind string"),
        (Everything(text="a" * 32768), "a string of 32768 bytes is longer than 32767"),
        (Everything(text="\ud800"), "Everything.text is of kind string"),
        (Everything(metadata="text"), "Everything.metadata is of kind bytes"),
        (Everything(records=5), "Everything.records is of kind records"),
    ],
)
@pytest.mark.parametrize("version", [1, 3])
def test_a_value_that_its_field_cannot_hold_is_named(value: Everything, message: str, version: int) -> None:
    with pytest.raises(ValueError, match="cannot encode Everything version") as refused:
        encode(value, version)

    assert message in str(refused.value)


def test_a_uuid_of_another_size_is_named() -> None:
    with pytest.raises(ValueError, match=r"Everything\.topic_id is of kind uuid and cannot hold b'short'"):
        encode(Everything(topic_id=b"short"), 3)
